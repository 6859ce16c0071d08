#include "tensor/numeric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace smelt {
namespace {

/// Without branches, so that loops over it become vectors, and without subnormal numbers, so that no processor's mode
/// matters: m * 2^-24 is the difference of two normal numbers.
inline float widened_f16(uint16_t h) {
  constexpr uint32_t kExponent = 31u << 23, kRebias = 112u << 23, kLeast = 113u << 23;
  const uint32_t shifted = static_cast<uint32_t>(h & 0x7fff) << 13, exponent = shifted & kExponent;
  const uint32_t normal = shifted + kRebias, infinite = normal + kRebias;
  const auto subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(shifted + kLeast) - std::bit_cast<float>(kLeast));
  const uint32_t magnitude = exponent == 0 ? subnormal : exponent == kExponent ? infinite : normal;
  return std::bit_cast<float>(magnitude | static_cast<uint32_t>(h & 0x8000) << 16);
}

/// Loops of a constant count become vectors where others don't.
template <typename Convert>
void widen_all(const uint16_t* from, int64_t n, float* to, Convert convert) {
  constexpr int64_t kBlock = 32;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock)
    for (int64_t j = 0; j < kBlock; ++j) to[i + j] = convert(from[i + j]);
  for (; i < n; ++i) to[i] = convert(from[i]);
}

/// Rounds |value| to a binary format of `mantissa` bits and smallest normal exponent `min_exp`, half to even, in
/// double.
double round_to_format(double magnitude, int mantissa, int min_exp) {
  int e;
  std::frexp(magnitude, &e);
  const int exponent = std::max(e - 1, min_exp);
  const double ulp = std::ldexp(1.0, exponent - mantissa);
  return std::nearbyint(magnitude / ulp) * ulp;
}

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool infinities;  // the last exponent holds infinities and NaN as in IEEE
  bool uz;          // no negative zero; 0x80 is the only NaN
};

constexpr Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3FN:
      return {4, 3, 7, false, false};
    case DType::kF8E4M3FNUZ:
      return {4, 3, 8, false, true};
    case DType::kF8E5M2:
      return {5, 2, 15, true, false};
    case DType::kF8E5M2FNUZ:
      return {5, 2, 16, false, true};
    default:
      return {2, 1, 1, false, false};  // kF4E2M1
  }
}

}  // namespace

uint16_t f64_to_f16(double d) {
  const uint16_t sign = std::signbit(d) ? 0x8000 : 0;
  if (std::isnan(d)) return sign | 0x7e00;
  const double m = std::fabs(d);
  if (std::isinf(d)) return sign | 0x7c00;
  if (m == 0) return sign;
  const double r = round_to_format(m, 10, -14);
  if (r >= 65520.0) return sign | 0x7c00;
  if (r < 6.103515625e-05) return sign | static_cast<uint16_t>(std::ldexp(r, 24));
  int e;
  const double f = std::frexp(r, &e);
  return static_cast<uint16_t>(sign | ((e + 14) << 10) | (static_cast<int>(std::ldexp(f, 11)) & 0x3ff));
}

uint16_t f32_to_f16(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((x >> 16) & 0x8000);
  const uint32_t a = x & 0x7fffffff;
  if (a > 0x7f800000) return sign | 0x7e00;
  if (a >= 0x477ff000) return sign | 0x7c00;
  if (a < 0x38800000)
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(std::bit_cast<float>(a), 24))));
  const uint32_t rounded = a + 0xfff + ((a >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

uint16_t f32_to_bf16(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  if ((x & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((x >> 16) | 0x40);
  return static_cast<uint16_t>((x + 0x7fff + ((x >> 16) & 1)) >> 16);
}

float narrow_to_f32(DType dtype, uint8_t bits) {
  if (dtype == DType::kF8E8M0) {
    if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
    return std::ldexp(1.0f, static_cast<int>(bits) - 127);
  }
  const Format f = format_of(dtype);
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  const bool negative = (bits >> (width - 1)) & 1;
  const int exponent = (bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  if (f.uz && bits == 0x80) return std::numeric_limits<float>::quiet_NaN();
  if (f.infinities && exponent == (1 << f.exponent_bits) - 1) {
    if (mantissa) return std::numeric_limits<float>::quiet_NaN();
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  if (dtype == DType::kF8E4M3FN && exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float v = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits)
                                : std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)),
                                             exponent - f.bias - f.mantissa_bits);
  return negative ? -v : v;
}

uint8_t f32_to_narrow(DType dtype, float value, bool saturate) {
  if (dtype == DType::kF8E8M0) {
    if (std::isnan(value) || value < 0) return 0xff;
    if (std::isinf(value)) return saturate ? 0xfe : 0xff;
    if (value == 0) return 0;
    int e;
    const float f = std::frexp(value, &e);
    const int exponent = e - 1 + (f > 0.75f ? 1 : 0);
    return static_cast<uint8_t>(std::clamp(exponent + 127, 0, 254));
  }
  const Format f = format_of(dtype);
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  const uint8_t sign = std::signbit(value) ? static_cast<uint8_t>(1 << (width - 1)) : 0;
  const bool four_bit = dtype == DType::kF4E2M1;
  const auto nan = [&]() -> uint8_t {
    if (f.uz) return 0x80;
    if (dtype == DType::kF8E4M3FN) return sign | 0x7f;
    if (dtype == DType::kF8E5M2) return sign | 0x7e;
    return 0;
  };
  if (std::isnan(value)) return four_bit ? static_cast<uint8_t>(0x8) : nan();  // no NaN in 4 bits: minus zero
  const int max_exp = (1 << f.exponent_bits) - 1 - (f.infinities ? 1 : 0);
  // Largest finite code, without sign.
  uint8_t largest = static_cast<uint8_t>((max_exp << f.mantissa_bits) | ((1 << f.mantissa_bits) - 1));
  if (dtype == DType::kF8E4M3FN) largest -= 1;
  const double largest_value = narrow_to_f32(dtype, largest);
  const double m = std::fabs(static_cast<double>(value));
  const auto overflow = [&]() -> uint8_t {
    if (saturate || four_bit) return sign | largest;
    if (f.infinities) return static_cast<uint8_t>(sign | (max_exp + 1) << f.mantissa_bits);
    return nan();
  };
  if (std::isinf(value)) return overflow();
  if (m == 0) return f.uz ? 0 : sign;
  const double r = round_to_format(m, f.mantissa_bits, 1 - f.bias);
  if (r > largest_value) return overflow();
  if (r == 0) return f.uz ? 0 : sign;
  int e;
  std::frexp(r, &e);
  int exponent = e - 1 + f.bias;
  int mantissa;
  if (exponent < 1) {
    exponent = 0;
    mantissa = static_cast<int>(std::ldexp(r, f.bias - 1 + f.mantissa_bits));
  } else {
    mantissa = static_cast<int>(std::ldexp(r, f.mantissa_bits - (e - 1))) - (1 << f.mantissa_bits);
  }
  return static_cast<uint8_t>(sign | (exponent << f.mantissa_bits) | mantissa);
}

namespace {

int64_t sub_byte(const Tensor& t, int64_t i, int width, bool is_signed) {
  const int per = 8 / width;
  const uint8_t byte = t.data<uint8_t>()[i / per];
  const int v = (byte >> (static_cast<int>(i % per) * width)) & ((1 << width) - 1);
  return is_signed && v >= (1 << (width - 1)) ? v - (1 << width) : v;
}

void set_sub_byte(Tensor& t, int64_t i, int width, int64_t v) {
  const int per = 8 / width;
  uint8_t& byte = t.data<uint8_t>()[i / per];
  const int shift = static_cast<int>(i % per) * width;
  const int mask = (1 << width) - 1;
  byte = static_cast<uint8_t>((byte & ~(mask << shift)) | ((static_cast<int>(v) & mask) << shift));
}

/// Truncates towards zero; out of range saturates to int64, NaN gives 0.
int64_t truncate(double v) {
  if (!(v == v)) return 0;
  if (v >= 9223372036854775807.0) return INT64_MAX;
  if (v <= -9223372036854775808.0) return INT64_MIN;
  return static_cast<int64_t>(v);
}

}  // namespace

double get_double(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kF32:
      return t.data<float>()[i];
    case DType::kF64:
      return t.data<double>()[i];
    case DType::kF16:
      return f16_to_f32(t.data<uint16_t>()[i]);
    case DType::kBF16:
      return bf16_to_f32(t.data<uint16_t>()[i]);
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0:
      return narrow_to_f32(t.dtype(), t.data<uint8_t>()[i]);
    case DType::kF4E2M1:
      return narrow_to_f32(t.dtype(), static_cast<uint8_t>(sub_byte(t, i, 4, false)));
    case DType::kU64:
      return static_cast<double>(t.data<uint64_t>()[i]);
    case DType::kC64:
      return t.data<float>()[2 * i];
    case DType::kC128:
      return t.data<double>()[2 * i];
    default:
      return static_cast<double>(get_int(t, i));
  }
}

int64_t get_int(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kI2:
      return sub_byte(t, i, 2, true);
    case DType::kU2:
      return sub_byte(t, i, 2, false);
    case DType::kI4:
      return sub_byte(t, i, 4, true);
    case DType::kU4:
      return sub_byte(t, i, 4, false);
    case DType::kI8:
      return t.data<int8_t>()[i];
    case DType::kBool:
    case DType::kU8:
      return t.data<uint8_t>()[i];
    case DType::kI16:
      return t.data<int16_t>()[i];
    case DType::kU16:
      return t.data<uint16_t>()[i];
    case DType::kI32:
      return t.data<int32_t>()[i];
    case DType::kU32:
      return t.data<uint32_t>()[i];
    case DType::kI64:
      return t.data<int64_t>()[i];
    case DType::kU64:
      return static_cast<int64_t>(t.data<uint64_t>()[i]);
    case DType::kInvalid:
    case DType::kString:
      return 0;
    default:
      return truncate(get_double(t, i));
  }
}

void set_double(Tensor& t, int64_t i, double v) {
  switch (t.dtype()) {
    case DType::kF32:
      t.data<float>()[i] = static_cast<float>(v);
      return;
    case DType::kF64:
      t.data<double>()[i] = v;
      return;
    case DType::kF16:
      t.data<uint16_t>()[i] = f64_to_f16(v);
      return;
    case DType::kBF16:
      t.data<uint16_t>()[i] = f32_to_bf16(static_cast<float>(v));
      return;
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0:
      t.data<uint8_t>()[i] = f32_to_narrow(t.dtype(), static_cast<float>(v));
      return;
    case DType::kF4E2M1:
      set_sub_byte(t, i, 4, f32_to_narrow(t.dtype(), static_cast<float>(v)));
      return;
    case DType::kBool:
      t.data<uint8_t>()[i] = v != 0;
      return;
    case DType::kU64:
      t.data<uint64_t>()[i] = v >= 9223372036854775808.0
                                  ? (v >= 18446744073709551615.0 ? UINT64_MAX : static_cast<uint64_t>(v))
                                  : static_cast<uint64_t>(truncate(v));
      return;
    case DType::kC64:
      t.data<float>()[2 * i] = static_cast<float>(v);
      t.data<float>()[2 * i + 1] = 0;
      return;
    case DType::kC128:
      t.data<double>()[2 * i] = v;
      t.data<double>()[2 * i + 1] = 0;
      return;
    default:
      set_int(t, i, truncate(v));
  }
}

void set_int(Tensor& t, int64_t i, int64_t v) {
  switch (t.dtype()) {
    case DType::kI2:
    case DType::kU2:
      set_sub_byte(t, i, 2, v);
      return;
    case DType::kI4:
    case DType::kU4:
      set_sub_byte(t, i, 4, v);
      return;
    case DType::kI8:
    case DType::kU8:
      t.data<uint8_t>()[i] = static_cast<uint8_t>(v);
      return;
    case DType::kBool:
      t.data<uint8_t>()[i] = v != 0;
      return;
    case DType::kI16:
    case DType::kU16:
      t.data<uint16_t>()[i] = static_cast<uint16_t>(v);
      return;
    case DType::kI32:
    case DType::kU32:
      t.data<uint32_t>()[i] = static_cast<uint32_t>(v);
      return;
    case DType::kI64:
    case DType::kU64:
      t.data<int64_t>()[i] = v;
      return;
    case DType::kInvalid:
    case DType::kString:
      return;
    default:
      set_double(t, i, static_cast<double>(v));
  }
}

void to_doubles(const Tensor& t, double* out) {
  const int64_t n = t.elements();
  if (t.dtype() == DType::kF32 && n > 0) {
    std::copy_n(t.data<float>(), n, out);
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = get_double(t, i);
}
float f16_to_f32(uint16_t h) { return widened_f16(h); }
void to_floats(const Tensor& t, float* out) {
  if (t.dtype() == DType::kF32) {
    if (t.elements()) std::memcpy(out, t.raw(), static_cast<size_t>(t.elements()) * 4);
    return;
  }
  if (t.dtype() == DType::kF16) {
    widen_all(t.data<uint16_t>(), t.elements(), out, [](uint16_t h) { return widened_f16(h); });
    return;
  }
  if (t.dtype() == DType::kBF16) {
    widen_all(t.data<uint16_t>(), t.elements(), out, [](uint16_t b) { return bf16_to_f32(b); });
    return;
  }
  for (int64_t i = 0; i < t.elements(); ++i) out[i] = static_cast<float>(get_double(t, i));
}
void to_ints(const Tensor& t, int64_t* out) {
  const int64_t n = t.elements();
  if (t.dtype() == DType::kI32 && n > 0) {
    std::copy_n(t.data<int32_t>(), n, out);
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = get_int(t, i);
}
void from_doubles(const double* in, Tensor& t) {
  for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, in[i]);
}
void from_floats(const float* in, Tensor& t) {
  if (t.dtype() == DType::kF32) {
    if (t.elements()) std::memcpy(t.raw(), in, static_cast<size_t>(t.elements()) * 4);
    return;
  }
  for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, in[i]);
}
void from_ints(const int64_t* in, Tensor& t) {
  for (int64_t i = 0; i < t.elements(); ++i) set_int(t, i, in[i]);
}

namespace {

/// Calls f(begin, end, parameter index) for the elements [first, last) of t in order, neighbours of one parameter
/// together.
template <class F>
void each_parameter(const Tensor& t, const Quantization& q, int64_t first, int64_t last, F&& f) {
  const int rank = t.rank();
  if (q.kind == Quantization::Kind::kPerTensor || q.scales.size() <= 1 || rank == 0) return f(first, last, int64_t{0});
  const int64_t most = static_cast<int64_t>(q.scales.size()) - 1;
  const auto by_runs = [&](int64_t run, const auto& parameter) {
    for (int64_t i = first; i < last;) {
      const int64_t end = std::min(last, (i / run + 1) * run);
      f(i, end, std::min<int64_t>(parameter(i), most));
      i = end;
    }
  };
  if (q.kind == Quantization::Kind::kPerToken) {
    int64_t length = 1;
    for (int d = std::max(rank - q.axis, 0); d < rank; ++d) length *= t.dim(d);
    return by_runs(length, [&](int64_t i) { return i / length; });
  }
  const int axis = std::clamp(q.axis < 0 ? q.axis + rank : q.axis, 0, rank - 1);
  int64_t inner = 1;
  for (int d = axis + 1; d < rank; ++d) inner *= t.dim(d);
  const int64_t extent = t.dim(axis);
  if (q.kind != Quantization::Kind::kPerBlock || q.block <= 0)
    return by_runs(inner, [&](int64_t i) { return i / inner % extent; });
  const int64_t blocks = (extent + q.block - 1) / q.block;
  // A block of the last dimension is one run where none of them is cut short.
  by_runs(inner == 1 && extent % q.block == 0 ? q.block : 1, [&](int64_t i) {
    return (i / (inner * extent) * blocks + i / inner % extent / q.block) * inner + i % inner;
  });
}

}  // namespace

namespace {

/// `sign`: the bit of the sign, if there is one.
template <int BITS>
void widen_codes(const uint8_t* from, int64_t n, uint8_t sign, uint8_t* to) {
  constexpr int kCodes = 8 / BITS;
  const auto widened = [&](uint8_t byte, int64_t j) {
    const auto code = static_cast<uint8_t>(byte >> (j * BITS) & ((1 << BITS) - 1));
    return static_cast<uint8_t>((code ^ sign) - sign);
  };
  const int64_t whole = n / kCodes;
  for (int64_t i = 0; i < whole; ++i)
    for (int64_t j = 0; j < kCodes; ++j) to[i * kCodes + j] = widened(from[i], j);
  for (int64_t i = whole * kCodes; i < n; ++i) to[i] = widened(from[whole], i % kCodes);
}

}  // namespace

void widen_integers(DType dtype, const uint8_t* from, int64_t n, uint8_t* to) {
  const bool is_signed = is_signed_integer(dtype);
  if (bit_width(dtype) == 4)
    widen_codes<4>(from, n, is_signed ? 8 : 0, to);
  else
    widen_codes<2>(from, n, is_signed ? 2 : 0, to);
}

void dequantize(const Tensor& t, float* out) { dequantize(t, 0, t.elements(), out); }

void dequantize(const Tensor& t, int64_t first, int64_t count, float* out) {
  const Quantization& q = *t.quant();
  const bool of_bytes = is_integer(t.dtype()) && bit_width(t.dtype()) == 8;
  const auto* const bytes = of_bytes ? reinterpret_cast<const uint8_t*>(t.unaligned_bytes()) : nullptr;
  const uint8_t flip = t.dtype() == DType::kI8 ? 128 : 0;
  each_parameter(t, q, first, first + count, [&](int64_t begin, int64_t end, int64_t p) {
    const float scale = q.scale(p);
    const int64_t zero = q.zero_point(q.zero_points.size() == q.scales.size() ? p : 0);
    if (bytes)
      for (int64_t i = begin; i < end; ++i) *out++ = scale * static_cast<float>((bytes[i] ^ flip) - flip - zero);
    else
      for (int64_t i = begin; i < end; ++i) *out++ = scale * static_cast<float>(get_int(t, i) - zero);
  });
}

void quantize(const float* in, Tensor& t, bool half_away) {
  const Quantization& q = *t.quant();
  const auto lo = static_cast<double>(int_min(t.dtype())), hi = static_cast<double>(int_max(t.dtype()));
  each_parameter(t, q, 0, t.elements(), [&](int64_t begin, int64_t end, int64_t p) {
    const int32_t zero = q.zero_point(q.zero_points.size() == q.scales.size() ? p : 0);
    for (int64_t i = begin; i < end; ++i) {
      const float scaled = in[i] / q.scale(p);
      const double r = (half_away ? std::round(scaled) : std::nearbyint(scaled)) + zero;
      set_int(t, i, r != r ? 0 : static_cast<int64_t>(std::clamp(r, lo, hi)));
    }
  });
}

bool same_contents(const Tensor& a, const Tensor& b, size_t most) {
  if (a.identity() == b.identity()) return true;
  return a.dtype() != DType::kString && a.identity() && b.identity() && a.bytes() == b.bytes() && a.bytes() <= most &&
         std::memcmp(a.unaligned_bytes(), b.unaligned_bytes(), a.bytes()) == 0;
}

int64_t int_min(DType dtype) {
  if (!is_signed_integer(dtype)) return 0;
  return dtype == DType::kI64 ? INT64_MIN : -(int64_t{1} << (bit_width(dtype) - 1));
}

int64_t int_max(DType dtype) {
  if (dtype == DType::kBool) return 1;
  const int width = bit_width(dtype);
  if (width >= 64) return INT64_MAX;
  return is_signed_integer(dtype) ? (int64_t{1} << (width - 1)) - 1 : (int64_t{1} << width) - 1;
}

}  // namespace smelt
