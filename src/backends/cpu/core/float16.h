#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Conversions between float32 and the 16-bit floats, round to nearest even.
struct Converter {
  void (*from_f16)(const uint16_t* x, int64_t n, float* y);
  void (*to_f16)(const float* x, int64_t n, uint16_t* y);
  void (*from_bf16)(const uint16_t* x, int64_t n, float* y);
  void (*to_bf16)(const float* x, int64_t n, uint16_t* y);
};
const Converter& converter(Isa isa);

}  // namespace smelt
