#pragma once

#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

/// Functions of one variable: the list is ops/elementwise/unary_functions.inc. They may have parameters a, b and c,
/// which are fields of UnaryAttrs.
enum class Unary : uint8_t {
#define SMELT_UNARY(name, text, real, integer, complex) k##name,
#include "ops/elementwise/unary_functions.inc"
#undef SMELT_UNARY
  kCount
};
const char* to_string(Unary u);

struct UnaryAttrs : Attrs {
  Unary fn = Unary::kIdentity;
  double a = 0, b = 0, c = 0;
  Rounding rounding =
      Rounding::kFloatHalfEven;  ///< of quantized kernels; kFixedDouble: TFLite's, kXnnpack: XNNPACK's integer kernels
  UnaryAttrs() = default;
  explicit UnaryAttrs(Unary f, double a_ = 0, double b_ = 0, double c_ = 0) : fn(f), a(a_), b(b_), c(c_) {}
  SMELT_FIELDS(fn, a, b, c, rounding)
};

/// Functions of two variables: the list is ops/elementwise/binary_functions.inc.
enum class Binary : uint8_t {
#define SMELT_BINARY(name, text, real, integer, complex) k##name,
#include "ops/elementwise/binary_functions.inc"
#undef SMELT_BINARY
  kCount
};
const char* to_string(Binary b);
/// True for comparisons and logical functions, whose result is of type kBool.
constexpr bool gives_bool(Binary b) {
  return (b >= Binary::kEqual && b <= Binary::kGreaterEqual) || (b >= Binary::kLogicalAnd && b <= Binary::kLogicalXor);
}

/// Broadcasts a and b. Both have one dtype (readers cast first), except PRelu slopes and kPow exponents.
struct BinaryAttrs : Attrs {
  Binary fn = Binary::kAdd;
  Activation act;
  double alpha = 1;                              ///< Add, Sub: a + alpha * b (PyTorch); 1 elsewhere
  Rounding rounding = Rounding::kFloatHalfEven;  ///< as UnaryAttrs::rounding
  bool pot_scale = false;         ///< Add, Sub on int16 with power-of-two scales: TFLite's kernel that shifts one input
  bool checked_division = false;  ///< integers: a divisor of 0 is an error (TFLite), else the result is unspecified
  BinaryAttrs() = default;
  explicit BinaryAttrs(Binary f, Activation a = {}, double alpha_ = 1) : fn(f), act(a), alpha(alpha_) {}
  SMELT_FIELDS(fn, act, alpha, rounding, pot_scale, checked_division)
  bool takes_activation() const {
    return fn == Binary::kAdd || fn == Binary::kSub || fn == Binary::kMul || fn == Binary::kDiv;
  }
};

struct CastAttrs : Attrs {
  DType to = DType::kF32;
  bool saturate = true;    ///< to the 8-bit floats: out of range becomes the largest finite value
  int64_t round_mode = 0;  ///< float to e8m0: 0 up, 1 down, 2 nearest
  bool clamp = false;      ///< float to integer: out of range becomes the nearest integer of the type, else it wraps
  bool round = false;      ///< float to integer: to the nearest, halves away from 0, else toward 0
  CastAttrs() = default;
  explicit CastAttrs(DType t, bool s = true) : to(t), saturate(s) {}
  SMELT_FIELDS(to, saturate, round_mode, clamp, round)
};

/// Quantization with run-time parameters: y = saturate(round_half_even(x / scale) + zero_point).
struct QuantizeLinearAttrs : Attrs {
  int64_t axis = 1;
  int64_t block = 0;      ///< 0: per tensor (scalar scale) or per axis (1-D scale)
  DType to = DType::kU8;  ///< Quantize: quantized type; Dequantize: real type of the result
  bool saturate = true;
  int64_t quant_min = 0, quant_max = 0;  ///< equal: the range of `to`
  bool reciprocal = false;               ///< Quantize: multiplies by 1 / scale as PyTorch does
  bool fixed_to = false;                 ///< Quantize: `to` holds even where a zero point has another element type
  SMELT_FIELDS(axis, block, to, saturate, quant_min, quant_max, reciprocal, fixed_to)
};

/// Accumulators rescaled in fixed point as CMSIS-NN does: y = clamp(x * multiplier * 2^(shift - 31), rounded twice, +
/// zero_point). One multiplier and shift, or one for each index of dimension `axis`.
struct FixedScaleAttrs : Attrs {
  std::vector<int64_t> multipliers, shifts;  ///< in [0, 2^31) and [-31, 30]
  int64_t axis = 0;
  int64_t zero_point = 0, min = 0, max = 0;
  DType to = DType::kI8;
  SMELT_FIELDS(multipliers, shifts, axis, zero_point, min, max, to)
};

/// y = quantize then dequantize with the range [min, max] of 2^bits steps, nudged so that 0 is exact (TFLite
/// FAKE_QUANT).
struct FakeQuantAttrs : Attrs {
  float min = 0, max = 0;
  int64_t bits = 8;
  bool narrow_range = false;
  SMELT_FIELDS(min, max, bits, narrow_range)
};

/// Chooses quantization parameters at run time and quantizes.
struct DynamicQuantizeAttrs : Attrs {
  DType to = DType::kU8;
  bool symmetric = false;
  bool per_row = false;       ///< a scale and zero point for each row of the last dimension; else for the whole tensor
  bool xnnpack_rule = false;  ///< zero point by XNNPACK's error rule (qdint8)
  int64_t quant_min = 0, quant_max = 0;  ///< equal: the range of `to`
  double eps = 0;                        ///< smallest scale
  SMELT_FIELDS(to, symmetric, per_row, xnnpack_rule, quant_min, quant_max, eps)
};

}  // namespace smelt
