#version 450
// Quantizes: y = the quantized value of x. DEQUANTIZE: y = the real value of x. Scales and zero points are per tensor,
// per entry of an axis, or per block of it. kTiesAway: ties round away from zero. kReciprocal: x is multiplied by the
// scale's reciprocal. ZERO, the type of zero points: scales and zero points are tensors computed on the device; kZeros
// says how many zero points there are: 0 none, 1 one, 2 as many as scales. 16-bit elements are only loaded and stored:
// few devices compute with them.
//@ quantize_{IN=f32,f16}_{OUT=i8,u8,i16,u16}
//@ quantize_{IN=f32}_{OUT=i8,u8,i16,u16}_dynamic ZERO=OUT
//@ dequantize_{IN=i8,u8,i16,u16,i32}_{OUT=f32,f16} DEQUANTIZE
//@ dequantize_{IN=i8,u8,i16,u16,i32}_{OUT=f32}_dynamic DEQUANTIZE ZERO=IN
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

struct Parameter {
  float scale;
  int zero;
};
layout(constant_id = 1) const bool kTiesAway = false;
layout(constant_id = 2) const bool kReciprocal = false;
layout(push_constant) uniform Push {
  uint n;
  uint inner, extent, block, blocks;  // of the axis; block 0: one parameter for all
  int low, high;
};
layout(set = 0, binding = 0) readonly buffer X { IN xs[]; };
#ifdef ZERO
layout(constant_id = 3) const uint kZeros = 0;
layout(set = 0, binding = 1) readonly buffer S { float scales[]; };
layout(set = 0, binding = 3) readonly buffer Z { ZERO zeros[]; };
Parameter parameter(uint p) {
  return Parameter(scales[p], kZeros == 0 ? 0 : int(zeros[kZeros == 1 ? 0 : p]));
}
#else
layout(set = 0, binding = 1) readonly buffer P { Parameter parameters[]; };
Parameter parameter(uint p) { return parameters[p]; }
#endif
layout(set = 0, binding = 2) writeonly buffer Y { OUT ys[]; };

uint parameter_of(uint i) {
  if (block == 0) return 0;
  const uint along = i / inner % extent;
  if (block == 1) return along;
  return (i / (inner * extent) * blocks + along / block) * inner + i % inner;
}

#ifdef DEQUANTIZE
#define VALUE int
#define INTEGER
float convert(int x, Parameter p) { return p.scale * float(x - p.zero); }
#else
#define VALUE float
#ifdef OUT_U16
#define INTEGER uint
#else
#define INTEGER
#endif
int convert(float x, Parameter p) {
  precise const float inverse = 1.0 / p.scale;
  precise const float scaled = kReciprocal ? x * inverse : x / p.scale;
  if ((floatBitsToUint(scaled) & 0x7fffffffu) > 0x7f800000u) return 0;
  float r = clamp(scaled, -1e6, 1e6);
  if (kTiesAway) {
    const float whole = trunc(r);
    r = abs(r - whole) >= 0.5 ? whole + sign(r) : whole;
  } else {
    r = roundEven(r);
  }
  return clamp(int(r) + p.zero, low, high);
}
#endif

void main() {
  const uint i = flat_id();
  if (i < n) ys[i] = OUT(INTEGER(convert(VALUE(xs[i]), parameter(parameter_of(i)))));
}
