#version 450
// y = x as another element type. Variants define IN and OUT, the types in buffers, and FROM_ and TO_ with the
// kind of element: FLOAT, DOUBLE, BF16 (in uint16_t), INT, LONG, SHORT (of 16 bits), USHORT, UINT, BOOL. Floats out of
// the range of integers wrap; specialization constant 1 makes them saturate. Elements of 16 bits are only loaded and
// stored: few devices compute with them.
//@ cast_{IN=f32,f16,bf16,f64,i16,u16,i32,u32,i64}_{OUT=f32,f16,bf16,f64,bool,i8,u8,i16,u16,i32,u32,i64} where IN!=OUT
//@ cast_{IN=bool,i8,u8}_{OUT=f64}
//@ CastTexture: cast_to_{OUT=bool,i8,u8,i32,i64}_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#if defined(OUT_U32) && !defined(IN_INTEGER)
#define TO_UINT
#endif

layout(constant_id = 1) const bool kSaturate = false;
#ifdef TEXTURE
#include "texture.glsl"
layout(constant_id = 2) const uint kPackedX = 0;
#endif
layout(push_constant) uniform Push {
#ifdef TEXTURE
  ivec4 x_size;
#endif
  uint n;
  int low, high;  // of the result's type, for kSaturate
};
#ifdef TEXTURE
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
#else
layout(set = 0, binding = 0) readonly buffer X { IN xs[]; };
#endif
layout(set = 0, binding = 1) writeonly buffer Y { OUT ys[]; };

#ifdef TEXTURE
#define VALUE float
float load(uint i) { return element(xs, int(i), x_size, kPackedX); }
#elif defined(IN_BF16)
#define VALUE float
float load(uint i) { return uintBitsToFloat(uint(xs[i]) << 16); }
#elif defined(IN_F32) || defined(IN_F16)
#define VALUE float
float load(uint i) { return float(xs[i]); }
#elif defined(IN_F64)
#define VALUE double
double load(uint i) { return xs[i]; }
#elif defined(IN_I16) || defined(IN_U16)
#define VALUE int
int load(uint i) { return int(xs[i]); }
#else
#define VALUE IN
IN load(uint i) { return xs[i]; }
#endif

bool is_nan(float v) { return (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u; }

// The low word of the 64-bit integer nearest to v towards zero.
int low_word(float v) {
  if (is_nan(v)) return 0;
  if (abs(v) < 2147483648.0) return int(v);
  if (v >= 9223372036854775808.0) return -1;
  if (v <= -9223372036854775808.0) return 0;
  const uint bits = floatBitsToUint(v);
  const uint shift = (bits >> 23 & 0xffu) - 150;  // 8 at least
  const uint magnitude = shift >= 32 ? 0u : (bits & 0x7fffffu | 0x800000u) << shift;
  return int(v < 0.0 ? 0u - magnitude : magnitude);
}
int to_int(float v) {
  if (kSaturate) {
    if (is_nan(v)) return 0;
    if (v >= float(high)) return high;
    return v <= float(low) ? low : int(v);
  }
  return low_word(v);
}
#ifdef TO_UINT
uint to_uint(float v) {
  if (!kSaturate) return uint(low_word(v));
  return v >= 4294967296.0 ? 0xffffffffu : (v > 0.0 ? uint(v) : 0u);
}
uint to_uint(int v) { return uint(v); }
#endif
#ifdef IN_F64
double power_of_2(int n) { return packDouble2x32(uvec2(0, uint(1023 + n) << 20)); }
// As of a float.
int low_word(double v) {
  if (isnan(v)) return 0;
  if (abs(v) < 2147483648.0LF) return int(v);
  if (v >= power_of_2(63)) return -1;
  if (v <= -power_of_2(63)) return 0;
  const double magnitude = trunc(abs(v)), high = floor(magnitude / power_of_2(32));
  const uint low = uint(magnitude - high * power_of_2(32));
  return int(v < 0.0LF ? 0u - low : low);
}
int to_int(double v) {
  if (!kSaturate) return low_word(v);
  if (isnan(v)) return 0;
  if (v >= double(high)) return high;
  return v <= double(low) ? low : int(v);
}
#ifdef TO_UINT
uint to_uint(double v) {
  if (!kSaturate) return uint(low_word(v));
  return v >= 4294967296.0LF ? 0xffffffffu : (v > 0.0LF ? uint(v) : 0u);
}
#endif
#if defined(IN_I64) || defined(OUT_I64)
int64_t to_long(double v) {
  if (isnan(v)) return int64_t(0);
  if (v >= power_of_2(63)) return int64_t(0x7fffffffffffffffL);
  if (v <= -power_of_2(63)) return -int64_t(0x7fffffffffffffffL) - int64_t(1);
  return int64_t(v);
}
#endif
#endif
#if defined(IN_I64) || defined(OUT_I64)
int64_t to_long(float v) {
  if (is_nan(v)) return int64_t(0);
  if (v >= 9223372036854775808.0) return int64_t(0x7fffffffffffffffL);
  if (v <= -9223372036854775808.0) return -int64_t(0x7fffffffffffffffL) - int64_t(1);
  return int64_t(v);
}
int64_t to_long(int v) { return int64_t(v); }
int64_t to_long(uint v) { return int64_t(v); }
int64_t to_long(int64_t v) { return v; }
int to_int(int64_t v) { return int(v); }
#endif
int to_int(int v) { return v; }
int to_int(uint v) { return int(v); }

#ifdef OUT_BF16
uint convert(VALUE x) {
  const float v = float(x);
  const uint bits = floatBitsToUint(v);
  return is_nan(v) ? (bits >> 16 | 0x40u) : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
#elif defined(OUT_F64)
double convert(VALUE x) { return double(x); }
#elif defined(OUT_F32) || defined(OUT_F16)
float convert(VALUE x) { return float(x); }
#elif defined(OUT_BOOL)
int convert(VALUE x) { return x != VALUE(0) ? 1 : 0; }
#elif defined(OUT_I64)
int64_t convert(VALUE x) { return to_long(x); }
#elif defined(TO_UINT)
uint convert(VALUE x) { return to_uint(x); }
#elif defined(OUT_U16)
uint convert(VALUE x) { return uint(to_int(x)); }
#else
int convert(VALUE x) { return to_int(x); }
#endif

void main() {
  const uint i = flat_id();
  if (i < n) ys[i] = OUT(convert(load(i)));
}
