#pragma once

#include "base/cat.h"
#include "smelt/result.h"

namespace smelt {

template <class... A>
Error InvalidModel(const A&... args) {
  return Error(ErrorCode::kInvalidModel, Cat(args...));
}
template <class... A>
Error Unsupported(const A&... args) {
  return Error(ErrorCode::kUnsupported, Cat(args...));
}
template <class... A>
Error InvalidInput(const A&... args) {
  return Error(ErrorCode::kInvalidInput, Cat(args...));
}
template <class... A>
Error LimitReached(const A&... args) {
  return Error(ErrorCode::kLimit, Cat(args...));
}
template <class... A>
Error Internal(const A&... args) {
  return Error(ErrorCode::kInternal, Cat(args...));
}

}  // namespace smelt
