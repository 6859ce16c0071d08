#pragma once

#include "base/cat.h"
#include "smelt/result.h"

namespace smelt {

/// An error with the concatenated parts as its message.
[[gnu::cold]] Error error_of(ErrorCode code, std::initializer_list<CatPart> parts);

template <class... A>
[[gnu::always_inline]] inline Error InvalidModel(const A&... args) {
  return error_of(ErrorCode::kInvalidModel, {CatPart(args)...});
}
template <class... A>
[[gnu::always_inline]] inline Error Unsupported(const A&... args) {
  return error_of(ErrorCode::kUnsupported, {CatPart(args)...});
}
template <class... A>
[[gnu::always_inline]] inline Error InvalidInput(const A&... args) {
  return error_of(ErrorCode::kInvalidInput, {CatPart(args)...});
}
template <class... A>
[[gnu::always_inline]] inline Error LimitReached(const A&... args) {
  return error_of(ErrorCode::kLimit, {CatPart(args)...});
}
template <class... A>
[[gnu::always_inline]] inline Error Internal(const A&... args) {
  return error_of(ErrorCode::kInternal, {CatPart(args)...});
}

}  // namespace smelt
