#pragma once

#include <memory>
#include <mutex>

#include "base/error.h"

namespace smelt {

/// Data that a kernel derives from its attributes: made at the first run, then shared by all runs and threads. It is a
/// member of an attribute struct; a copy of the struct derives it again, as its fields may change.
template <class T>
class Prepared {
 public:
  Prepared() = default;
  Prepared(const Prepared&) {}
  Prepared& operator=(const Prepared&) {
    value_ = nullptr;
    return *this;
  }
  /// The data; calls make() -> Result<T> if there are none yet. An error is returned and not kept.
  template <class Make>
  Result<const T*> get(Make&& make) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!value_) {
      SMELT_ASSIGN(T made, make());
      value_ = std::make_shared<const T>(std::move(made));
    }
    return value_.get();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const T> value_;  ///< shared_ptr: T may be incomplete where the struct is declared
};

}  // namespace smelt
