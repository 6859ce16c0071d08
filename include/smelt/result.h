#pragma once

#if __cplusplus < 202002L
#error "smelt needs C++20: compile with -std=c++20 or newer"
#endif

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "smelt/export.h"

namespace smelt {

/// Kind of an Error.
enum class ErrorCode : uint8_t {
  kInvalidModel,  ///< the bytes of a model violate its format
  kUnsupported,   ///< a valid model needs something that this build lacks; the message names it
  kInvalidInput,  ///< a caller's input or option does not fit the model
  kLimit,         ///< a limit (memory, time, steps, size) was reached
  kCancelled,     ///< the caller cancelled the run
  kIo,            ///< a file could not be read or written
  kDevice,        ///< an accelerator failed or is absent
  kInternal,      ///< a broken invariant of the library itself
};

/// "invalid model", "unsupported", ...
constexpr const char* to_string(ErrorCode code) {
  constexpr const char* kNames[] = {"invalid model", "unsupported", "invalid input", "limit reached",
                                    "cancelled",     "I/O error",   "device error",  "internal error"};
  return static_cast<size_t>(code) < std::size(kNames) ? kNames[static_cast<size_t>(code)] : "unknown error";
}

/// A located message: what is wrong, where, and what was expected. Copies share it. Without memory for it, an Error
/// says "out of memory".
class SMELT_API Error {
 public:
  Error(ErrorCode code, std::string message);
  Error(const Error& other) noexcept;
  Error(Error&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Error& operator=(Error other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Error() {
    if (state_) release();
  }
  ErrorCode code() const;
  const std::string& message() const;
  /// This error with a location in front: "WHERE: message".
  Error within(const std::string& where) const;

 private:
  template <class T>
  friend class Result;
  friend class Status;
  struct State;
  Error() = default;  // none
  explicit operator bool() const { return state_ != nullptr; }
  void release() noexcept;

  State* state_ = nullptr;  // nullptr: none, or moved
};

/// Thrown by Result::value() of an error, with the error's message.
class SMELT_API ResultError : public std::runtime_error {
 public:
  explicit ResultError(const Error& error) : std::runtime_error(error.message()), code_(error.code()) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

namespace detail {
[[noreturn, gnu::cold]] SMELT_API void throw_error(const Error& error);
[[noreturn, gnu::cold]] SMELT_API void throw_no_error();
}  // namespace detail

/// Either a T or an Error. value() of an error throws ResultError; error() of a value throws std::logic_error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T& value() & {
    if (!ok()) detail::throw_error(error_);
    return *value_;
  }
  const T& value() const& { return const_cast<Result&>(*this).value(); }
  T&& value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& {
    if (ok()) detail::throw_no_error();
    return error_;
  }
  Error&& error() && { return const_cast<Error&&>(error()); }

 private:
  std::optional<T> value_;
  Error error_;
};

/// Success or an Error. error() of a success throws std::logic_error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    if (ok()) detail::throw_no_error();
    return error_;
  }
  Error&& error() && { return const_cast<Error&&>(error()); }

 private:
  Error error_;
};

inline Status Ok() { return {}; }

}  // namespace smelt

#define SMELT_CONCAT_(a, b) a##b
#define SMELT_CONCAT(a, b) SMELT_CONCAT_(a, b)

/// Returns the error of a Status or Result expression to the caller, if it has one.
#define SMELT_TRY(...)                                       \
  do {                                                       \
    if (auto smelt_try_ = (__VA_ARGS__); !smelt_try_.ok()) { \
      return std::move(smelt_try_).error();                  \
    }                                                        \
  } while (0)

/// SMELT_ASSIGN(auto x, f()): x takes the value of the Result f(), or the error is returned to the caller.
#define SMELT_ASSIGN(decl, ...) SMELT_ASSIGN_(SMELT_CONCAT(smelt_result_, __LINE__), decl, __VA_ARGS__)
#define SMELT_ASSIGN_(tmp, decl, ...)           \
  auto tmp = (__VA_ARGS__);                     \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = std::move(tmp).value()
