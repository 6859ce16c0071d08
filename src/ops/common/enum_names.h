#pragma once

#include <cstddef>
#include <type_traits>

/// Defines to_string() of an enum by the names of its enumerators in order. It follows `friend` in an attribute struct
/// and `inline` in a namespace.
#define SMELT_ENUM_NAMES(type, ...)                   \
  const char* to_string(type v) {                     \
    static const char* const names[] = {__VA_ARGS__}; \
    return names[static_cast<size_t>(v)];             \
  }                                                   \
  static_assert(std::is_enum_v<type>)
