// Quantization operators of quantized_decomposed and torchao.
#include <limits>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"
#include "tensor/numeric.h"

namespace smelt::aten {
namespace {

DType quantized_type(CallContext& c, size_t at) {
  const DType d = c.arg(at).kind == Arg::Kind::kInt ? scalar_type(c.i(at)) : c.out_dtype();
  if (!is_integer(d)) c.fail("quantized element type ", c.i(at, -1));
  return d;
}

/// The real type of a dequantized result: declared, or an out_dtype argument, or float32.
DType real_type(CallContext& c, size_t at) {
  if (c.out_dtype() != DType::kInvalid) return c.out_dtype();
  if (c.arg(at).kind == Arg::Kind::kInt)
    if (const DType d = scalar_type(c.i(at)); is_float(d)) return d;
  return DType::kF32;
}

ValueId scalar_of(CallContext& c, size_t at, DType to) {
  const ValueId v = c.is_tensor(at) ? c.cast(c.t(at), to) : c.as(c.operand(at), to);
  return c.ok() && c.rank(v) != 0 ? c.reshape(v, {}) : v;
}

/// Zero points in the quantized element type; integers that it can't hold would be wrong and are refused.
ValueId zero_points(CallContext& c, size_t at, DType to, bool scalar) {
  if (c.none(at)) return kNoValue;
  ValueId v = scalar ? scalar_of(c, at, DType::kI64) : c.cast(c.t(at), DType::kI64);
  if (const Tensor* k = c.constant_of(v); c.ok() && k)
    for (int64_t i = 0; i < k->elements(); ++i)
      if (get_int(*k, i) < int_min(to) || get_int(*k, i) > int_max(to)) {
        c.fail("zero point ", get_int(*k, i), " does not fit ", to_string(to));
        return kNoValue;
      }
  return c.cast(v, to);
}

ValueId quantize_linear(CallContext& c, ValueId x, ValueId scale, ValueId zero, int64_t axis, DType to, int64_t lo,
                        int64_t hi) {
  QuantizeLinearAttrs a;
  a.axis = axis;
  a.to = to;
  a.reciprocal = true;
  // The whole range of the type is none of the node's own: such nodes become part of operators on integers.
  if (lo > int_min(to) || hi < int_max(to)) {
    a.quant_min = lo;
    a.quant_max = hi;
  }
  std::vector<ValueId> in{c.cast(x, DType::kF32), scale};
  if (zero != kNoValue) in.push_back(zero);
  return c.add(Op::kQuantizeLinear, a, in);
}

ValueId dequantize_linear(CallContext& c, ValueId x, ValueId scale, ValueId zero, int64_t axis) {
  QuantizeLinearAttrs a;
  a.axis = axis;
  a.to = DType::kF32;
  std::vector<ValueId> in{x, scale};
  if (zero != kNoValue) in.push_back(zero);
  return c.add(Op::kDequantizeLinear, a, in);
}

/// (input, scale, zero_point, quant_min, quant_max, dtype); the .tensor form has tensors for scale and zero point.
void quantize_per_tensor(CallContext& c) {
  const DType to = quantized_type(c, 5);
  if (!c.ok()) return;
  c.result(
      quantize_linear(c, c.t(0), scalar_of(c, 1, DType::kF32), zero_points(c, 2, to, true), 0, to, c.i(3), c.i(4)));
}

/// (input, scale, zero_point, quant_min, quant_max, dtype, out_dtype?).
void dequantize_per_tensor(CallContext& c) {
  const ValueId x = c.t(0);
  const ValueId y = dequantize_linear(c, x, scalar_of(c, 1, DType::kF32), zero_points(c, 2, c.dtype(x), true), 0);
  c.result(c.cast(y, real_type(c, 6)));
}

/// (input, scales, zero_points, axis, quant_min, quant_max, dtype).
void quantize_per_channel(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(3), c.rank(x));
  const DType to = quantized_type(c, 6);
  if (!c.ok()) return;
  c.result(quantize_linear(c, x, c.cast(c.t(1), DType::kF32), zero_points(c, 2, to, false), axis, to, c.i(4), c.i(5)));
}

/// (input, scales, zero_points?, axis, quant_min, quant_max, dtype, out_dtype?). Zero points may be real numbers.
void dequantize_per_channel(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  const int64_t axis = c.axis(c.i(3), r);
  const ValueId scale = c.cast(c.t(1), DType::kF32);
  if (!c.none(2) && is_float(c.dtype(c.t(2)))) {
    std::vector<int64_t> shape(static_cast<size_t>(r), 1);
    if (r > 0) shape[static_cast<size_t>(axis)] = -1;
    const ValueId moved = c.binary(Binary::kSub, c.cast(x, DType::kF32), c.reshape(c.cast(c.t(2), DType::kF32), shape));
    return c.result(c.cast(c.binary(Binary::kMul, moved, c.reshape(scale, shape)), real_type(c, 7)));
  }
  c.result(c.cast(dequantize_linear(c, x, scale, zero_points(c, 2, c.dtype(x), false), axis), real_type(c, 7)));
}

/// round(x / scale) + zero point, clamped, with parameters that broadcast.
ValueId quantize_broadcast(CallContext& c, ValueId x, ValueId scale, ValueId zero, int64_t lo, int64_t hi, DType to) {
  const DType f = DType::kF32;
  const ValueId inverse = c.binary(Binary::kDiv, c.number(f, 1), c.cast(scale, f));
  const ValueId steps = c.unary(Unary::kRound, c.binary(Binary::kMul, c.cast(x, f), inverse));
  const ValueId moved = zero == kNoValue ? steps : c.binary(Binary::kAdd, steps, c.cast(zero, f));
  return c.cast(c.unary(Unary::kClamp, moved, static_cast<double>(lo), static_cast<double>(hi)), to);
}

ValueId dequantize_broadcast(CallContext& c, ValueId x, ValueId scale, ValueId zero) {
  const DType f = DType::kF32;
  ValueId y = c.cast(x, f);
  if (zero != kNoValue) y = c.binary(Binary::kSub, y, c.cast(zero, f));
  return c.binary(Binary::kMul, y, c.cast(scale, f));
}

/// (input, scales, zero_points, quant_min, quant_max, dtype): parameters have a last dimension of 1.
void quantize_per_token(CallContext& c) {
  const DType to = quantized_type(c, 5);
  c.result(quantize_broadcast(c, c.t(0), c.t(1), c.opt(2), c.i(3), c.i(4), to));
}

void dequantize_per_token(CallContext& c) {
  c.result(c.cast(dequantize_broadcast(c, c.t(0), c.t(1), c.opt(2)), real_type(c, 6)));
}

/// One row of parameters for every group of `group` elements of the last dimension.
ValueId grouped(CallContext& c, ValueId parameters, int64_t group) {
  return c.add(Op::kRepeatInterleave, AxisAttrs(-1), {parameters, c.integer(DType::kI64, group)});
}

/// dequantize_per_channel_group(w, scales, zero_points?, quant_min, quant_max, dtype, group_size, output_dtype).
void dequantize_per_channel_group(CallContext& c) {
  const int64_t group = c.i(6);
  const ValueId zero = c.opt(2);
  c.result(c.cast(
      dequantize_broadcast(c, c.t(0), grouped(c, c.t(1), group), zero == kNoValue ? kNoValue : grouped(c, zero, group)),
      real_type(c, 7)));
}

void quantize_per_channel_group(CallContext& c) {
  const int64_t group = c.i(6);
  const ValueId zero = c.opt(2);
  const DType to = quantized_type(c, 5);
  c.result(quantize_broadcast(c, c.t(0), grouped(c, c.t(1), group),
                              zero == kNoValue ? kNoValue : grouped(c, zero, group), c.i(3), c.i(4), to));
}

/// Scale (float64) and zero point (int64) of a range widened to hold 0, as FBGEMM chooses them.
void choose(CallContext& c, ValueId lo, ValueId hi, double qmin, double qmax) {
  const DType f = DType::kF64;
  constexpr double kSmallest = 6.1e-5;
  const auto k = [&](double v) { return c.number(f, v); };
  lo = c.binary(Binary::kMin, c.cast(lo, f), k(0));
  hi = c.binary(Binary::kMax, c.cast(hi, f), k(0));
  ValueId scale = c.binary(Binary::kDiv, c.binary(Binary::kSub, hi, lo), k(qmax - qmin));
  // A scale whose float32 reciprocal is infinite becomes 0.1.
  scale = c.where(c.binary(Binary::kLess, scale, k(2.938735877055719e-39)), k(0.1), scale);
  const ValueId small = c.binary(Binary::kLess, scale, k(kSmallest));
  const ValueId amplifier = c.binary(Binary::kDiv, k(kSmallest), scale);
  const ValueId lo_zero = c.binary(Binary::kEqual, lo, k(0)), hi_zero = c.binary(Binary::kEqual, hi, k(0));
  const double span = kSmallest * (qmax - qmin);
  const ValueId small_lo = c.where(lo_zero, lo, c.where(hi_zero, k(-span), c.binary(Binary::kMul, lo, amplifier)));
  const ValueId small_hi = c.where(lo_zero, k(span), c.where(hi_zero, hi, c.binary(Binary::kMul, hi, amplifier)));
  lo = c.where(small, small_lo, lo);
  hi = c.where(small, small_hi, hi);
  scale = c.where(small, k(kSmallest), scale);
  const ValueId lo_steps = c.binary(Binary::kDiv, lo, scale), hi_steps = c.binary(Binary::kDiv, hi, scale);
  const ValueId lo_error = c.binary(Binary::kSub, k(qmin < 0 ? -qmin : qmin), c.unary(Unary::kAbs, lo_steps));
  const ValueId hi_error = c.binary(Binary::kSub, k(qmax < 0 ? -qmax : qmax), c.unary(Unary::kAbs, hi_steps));
  const ValueId zero = c.where(c.binary(Binary::kLess, lo_error, hi_error), c.binary(Binary::kSub, k(qmin), lo_steps),
                               c.binary(Binary::kSub, k(qmax), hi_steps));
  const ValueId whole = c.unary(Unary::kRound, c.cast(zero, DType::kF32));
  c.result(scale);
  c.result(c.cast(c.unary(Unary::kClamp, whole, qmin, qmax), DType::kI64));
}

/// choose_qparams(input, quant_min, quant_max, eps, dtype) -> scale [1], zero point [1].
void choose_qparams(CallContext& c) {
  const ValueId x = c.reshape(c.t(0), {-1});
  const double lo = c.d(1), hi = c.d(2);
  if (!(lo < hi)) return c.fail("quant_min ", lo, " is not below quant_max ", hi);
  choose(c, c.reduce(Reduction::kMin, x, {0}, true), c.reduce(Reduction::kMax, x, {0}, true), lo, hi);
}

void choose_qparams_symmetric(CallContext& c) {
  const ValueId x = c.cast(c.reshape(c.t(0), {-1}), DType::kF64);
  const double lo = c.d(1), hi = c.d(2), eps = c.d(3, 0);
  const ValueId top = c.reduce(Reduction::kMax, c.unary(Unary::kAbs, x), {0}, true);
  const ValueId scale = c.binary(Binary::kDiv, top, c.number(DType::kF64, (hi - lo) / 2));
  c.result(c.binary(Binary::kMax, scale, c.number(DType::kF64, eps)));
  c.result(c.filled(c.i64({1}), DType::kI64, lo < 0 ? 0 : (hi + lo + 1) / 2));
}

/// choose_qparams_per_token_asymmetric(input, dtype): int8 parameters per row of the last dimension.
void choose_qparams_per_token(CallContext& c) {
  const ValueId x = c.t(0);
  choose(c, c.reduce(Reduction::kMin, x, {-1}, true), c.reduce(Reduction::kMax, x, {-1}, true), -128, 127);
}

/// Integers packed several to a byte, low bits first, moved to be signed around 0.
ValueId unpacked(CallContext& c, ValueId packed, int bits) {
  const int per_byte = 8 / bits;
  std::vector<ValueId> fields;
  const ValueId wide = c.cast(packed, DType::kI32);
  for (int k = 0; k < per_byte; ++k) {
    // Four-bit tables keep the first of a pair in the high half, two-bit tables the first of four in the low bits.
    const int shift = bits == 4 ? 4 - 4 * k : 2 * k;
    const ValueId moved = c.binary(Binary::kShiftRight, wide, c.integer(DType::kI32, shift));
    const ValueId field = c.binary(Binary::kBitAnd, moved, c.integer(DType::kI32, (1 << bits) - 1));
    fields.push_back(c.binary(Binary::kSub, field, c.integer(DType::kI32, 1 << (bits - 1))));
  }
  const ValueId together = c.add(Op::kStack, AxisAttrs(-1), fields);
  const int64_t width = c.dim(packed, 1);
  if (c.rank(packed) != 2 || width <= 0) {
    c.unsupported("packed embedding table ", c.type(packed).str());
    return kNoValue;
  }
  return c.reshape(together, {-1, width * per_byte});
}

/// embedding_Nbit(weight, scales, zero_points?, quant_min, quant_max, indices): gathered entries, unpacked and
/// dequantized.
template <int bits>
void embedding(CallContext& c) {
  const ValueId table = c.t(0), scales = c.t(1), indices = c.cast(c.t(5), DType::kI64);
  if (c.rank(table) != 2) return c.unsupported("embedding table ", c.type(table).str());
  const ValueId list = c.reshape(indices, {-1});
  const auto rows = [&](ValueId v) { return v == kNoValue ? kNoValue : c.add(Op::kGather, GatherAttrs(), {v, list}); };
  const ValueId gathered = bits == 8 ? rows(table) : unpacked(c, rows(table), bits);
  const int64_t width = c.dim(gathered, 1);
  if (width <= 0) return c.unsupported("embedding table ", c.type(table).str());
  ValueId s = rows(scales), z = rows(c.opt(2));
  const int64_t groups = c.rank(scales) == 2 ? c.dim(scales, 1) : 1;
  if (groups <= 0 || width % groups) return c.fail(groups, " scales a row for ", width, " columns");
  const auto fit = [&](ValueId v, ValueId of) {
    if (v == kNoValue) return v;
    const ValueId column = c.rank(of) == 1 ? c.unsqueeze(v, {-1}) : v;
    return groups > 1 ? grouped(c, column, width / groups) : column;
  };
  s = fit(s, scales);
  if (z != kNoValue) z = fit(z, c.t(2));
  c.result(c.like_indices(dequantize_broadcast(c, gathered, s, z), indices, width));
}

/// add(a, a_scale, a_zero, a_min, a_max, b, ..., out_scale, out_zero, out_min, out_max).
void decomposed_add(CallContext& c) {
  const auto real = [&](size_t at) {
    const ValueId x = c.t(at);
    return dequantize_linear(c, x, scalar_of(c, at + 1, DType::kF32), zero_points(c, at + 2, c.dtype(x), true), 0);
  };
  const ValueId sum = c.binary(Binary::kAdd, real(0), real(5));
  const DType to = c.out_dtype() == DType::kInvalid ? c.dtype(c.t(0)) : c.out_dtype();
  c.result(
      quantize_linear(c, sum, scalar_of(c, 10, DType::kF32), zero_points(c, 11, to, true), 0, to, c.i(12), c.i(13)));
}

/// mixed_mm(input, weight, scales, zero_points?), mixed_linear(input, weight [out, in], scales, zero_points?, dtype?).
template <bool linear>
void mixed(CallContext& c) {
  const ValueId x = c.t(0), w = c.t(1), scales = c.t(2);
  const auto column = [&](ValueId v) { return v == kNoValue ? v : c.rank(v) == 1 ? c.unsqueeze(v, {-1}) : v; };
  const auto fit = [&](ValueId v) {
    const ValueId parameters = column(v);
    const int64_t groups = c.dim(parameters, 1);
    return parameters == kNoValue || groups <= 1 ? parameters : grouped(c, parameters, c.dim(w, 1) / groups);
  };
  const ValueId real = dequantize_broadcast(c, w, fit(scales), fit(c.opt(3)));
  MatMulAttrs a;
  a.transpose_b = linear;
  const ValueId y = c.add(Op::kMatMul, a, {c.cast(x, DType::kF32), real});
  c.result(c.cast(y, c.out_dtype() == DType::kInvalid ? c.dtype(x) : c.out_dtype()));
}

/// _weight_int8pack_mm(x, weight [out, in] int8, scales [out]).
void weight_int8pack_mm(CallContext& c) {
  const ValueId x = c.t(0);
  MatMulAttrs a;
  a.transpose_b = true;
  const ValueId y = c.add(Op::kMatMul, a, {c.cast(x, DType::kF32), c.cast(c.t(1), DType::kF32)});
  c.result(c.cast(c.binary(Binary::kMul, y, c.cast(c.t(2), DType::kF32)), c.dtype(x)));
}

constexpr OpEntry kEntries[] = {
    {"cortex_m::quantize_per_tensor", quantize_per_tensor},
    {"cortex_m::dequantize_per_tensor", dequantize_per_tensor},
    {"quantized_decomposed::quantize_per_tensor", quantize_per_tensor},
    {"quantized_decomposed::dequantize_per_tensor", dequantize_per_tensor},
    {"quantized_decomposed::quantize_per_channel", quantize_per_channel},
    {"quantized_decomposed::dequantize_per_channel", dequantize_per_channel},
    {"quantized_decomposed::quantize_per_token", quantize_per_token},
    {"quantized_decomposed::dequantize_per_token", dequantize_per_token},
    {"quantized_decomposed::quantize_per_channel_group", quantize_per_channel_group},
    {"quantized_decomposed::dequantize_per_channel_group", dequantize_per_channel_group},
    {"quantized_decomposed::choose_qparams", choose_qparams},
    {"quantized_decomposed::choose_qparams_symmetric", choose_qparams_symmetric},
    {"quantized_decomposed::choose_qparams_per_token_asymmetric", choose_qparams_per_token},
    {"quantized_decomposed::_choose_qparams_per_token_asymmetric_impl", choose_qparams_per_token},
    {"quantized_decomposed::embedding_byte", embedding<8>},
    {"quantized_decomposed::embedding_4bit", embedding<4>},
    {"quantized_decomposed::embedding_2bit", embedding<2>},
    {"quantized_decomposed::add", decomposed_add},
    {"quantized_decomposed::mixed_mm", mixed<false>},
    {"quantized_decomposed::mixed_linear", mixed<true>},
    {"aten::_weight_int8pack_mm", weight_int8pack_mm},
};

}  // namespace

std::span<const OpEntry> quant_entries() { return kEntries; }

}  // namespace smelt::aten
