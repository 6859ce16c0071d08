#include "ops/elementwise/elementwise.h"

namespace smelt {

const char* to_string(Unary u) {
  static const char* const names[] = {
#define SMELT_UNARY(name, text, real, integer, complex) text,
#include "ops/elementwise/unary_functions.inc"
#undef SMELT_UNARY
  };
  return names[static_cast<size_t>(u)];
}

const char* to_string(Binary b) {
  static const char* const names[] = {
#define SMELT_BINARY(name, text, real, integer, complex) text,
#include "ops/elementwise/binary_functions.inc"
#undef SMELT_BINARY
  };
  return names[static_cast<size_t>(b)];
}

}  // namespace smelt
