#pragma once

#include "base/cat.h"
#include "smelt/result.h"

namespace smelt {
namespace detail {

// Errors whose messages are concatenate() of these arguments.
[[gnu::cold]] Error invalid_model(const char* kinds, ...);  // NOLINT(*-vararg)
[[gnu::cold]] Error unsupported(const char* kinds, ...);    // NOLINT(*-vararg)
[[gnu::cold]] Error invalid_input(const char* kinds, ...);  // NOLINT(*-vararg)
[[gnu::cold]] Error limit_reached(const char* kinds, ...);  // NOLINT(*-vararg)
[[gnu::cold]] Error internal(const char* kinds, ...);       // NOLINT(*-vararg)

}  // namespace detail

// Errors with the concatenated arguments as their message; see Cat().
#define SMELT_ERROR(Name, make)                                                                     \
  template <class... A>                                                                             \
  [[gnu::always_inline]] inline Error Name(const A&... args) {                                      \
    return detail::make(detail::PartKinds<detail::part_kind<A>()...>::kText, /* NOLINT(*-vararg) */ \
                        detail::part(args)...);                                                     \
  }
SMELT_ERROR(InvalidModel, invalid_model)
SMELT_ERROR(Unsupported, unsupported)
SMELT_ERROR(InvalidInput, invalid_input)
SMELT_ERROR(LimitReached, limit_reached)
SMELT_ERROR(Internal, internal)
#undef SMELT_ERROR

}  // namespace smelt
