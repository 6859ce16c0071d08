#version 450
// int64 accumulators become quantized values, bit-equal with Requantizer (ops/common/requantizer.h) by TFLite's
// rules. Specialization constants: 1 whether they count with all their bits, else with the low 32; 2 whether they
// are rounded once.
//@ rescale_accumulators_{ELEMENT=i16} INT64
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "fixed_point.glsl"
#include "float64_product.glsl"

layout(constant_id = 1) const bool kWide = true;
layout(constant_id = 2) const bool kOnce = false;
layout(push_constant) uniform Push {
  uint n, inner, channels;  // element i belongs to channel i / inner % channels
  int zero, low, high;
};
struct Channel {
  uint bias_low, bias_high;
  int multiplier, shift;  // of a factor; kOnce: Float64Factor (vulkan/gemm/float64_factor.h)
};
layout(set = 0, binding = 0) readonly buffer X { int64_t xs[]; };
layout(set = 0, binding = 1) readonly buffer C { Channel table[]; };
layout(set = 0, binding = 2) writeonly buffer Y { ELEMENT ys[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const Channel c = table[i / inner % channels];
  const int64_t sum = xs[i] + int64_t(uint64_t(c.bias_high) << 32 | uint64_t(c.bias_low));
  int r;
  if (kOnce) {
    const bool negative = kWide ? sum < 0 : int(sum) < 0;
    uvec2 magnitude = uvec2(uint(abs(int(sum))), 0u);
    if (kWide) {
      const uint64_t x = min(uint64_t(negative ? -sum : sum), uint64_t(1) << 53);
      magnitude = uvec2(uint(x), uint(x >> 32));
    }
    r = int(rounded_product(magnitude, uvec2(c.multiplier, c.shift)));
    if (negative) r = -r;
  } else {
    r = kWide ? rescale_wide(sum, c.multiplier, c.shift) : rescale_double(int(sum), c.multiplier, c.shift);
  }
  ys[i] = ELEMENT(int(clamp(int64_t(r) + zero, int64_t(low), int64_t(high))));
}
