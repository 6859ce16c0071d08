#pragma once

#include <cstdint>

#include "smelt/tensor.h"

namespace smelt {

/// Calls f with a value of the type that stores the numbers; false for others (narrow floats, packed integers).
template <class F>
bool by_number(DType t, F&& f) {
  switch (t) {
    case DType::kF32:
      f(float{});
      return true;
    case DType::kF64:
      f(double{});
      return true;
    case DType::kI8:
      f(int8_t{});
      return true;
    case DType::kU8:
    case DType::kBool:
      f(uint8_t{});
      return true;
    case DType::kI16:
      f(int16_t{});
      return true;
    case DType::kU16:
      f(uint16_t{});
      return true;
    case DType::kI32:
      f(int32_t{});
      return true;
    case DType::kI64:
      f(int64_t{});
      return true;
    default:
      return false;
  }
}

}  // namespace smelt
