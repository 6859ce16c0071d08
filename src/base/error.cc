#include "base/error.h"

#include <atomic>
#include <new>

namespace smelt {

struct Error::State {
  ErrorCode code;
  std::string message;
  std::atomic<int> owners{1};
};

Error::Error(ErrorCode code, std::string message) : state_(new (std::nothrow) State{code, std::move(message)}) {
  static State out_of_memory{ErrorCode::kLimit, "out of memory"};  // which no release() deletes: one owner is left
  if (state_) return;
  state_ = &out_of_memory;
  state_->owners.fetch_add(1, std::memory_order_relaxed);
}

Error::Error(const Error& other) noexcept : state_(other.state_) {
  if (state_) state_->owners.fetch_add(1, std::memory_order_relaxed);
}

void Error::release() noexcept {
  if (state_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete state_;
}

ErrorCode Error::code() const { return state_ ? state_->code : ErrorCode::kInternal; }

const std::string& Error::message() const {
  static const std::string kMoved = "moved error";
  return state_ ? state_->message : kMoved;
}

Error Error::within(const std::string& where) const { return {code(), where + ": " + message()}; }

namespace detail {
void throw_error(const Error& error) { throw ResultError(error); }
void throw_no_error() { throw std::logic_error("error() of a result that is no error"); }
}  // namespace detail

}  // namespace smelt
