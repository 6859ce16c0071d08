// Quantization operators of quantized_decomposed and torchao.
#include <limits>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"
#include "tensor/numeric.h"

namespace smelt::aten {
namespace {

DType stored_type(L& l, size_t at) {
  const DType d = l.arg(at).kind == Arg::Kind::kInt ? scalar_type(l.i(at)) : l.out_dtype();
  if (!is_integer(d)) l.fail(InvalidModel("quantized element type ", l.i(at, -1)));
  return d;
}

/// The real type of a dequantized result: declared, or an out_dtype argument, or float32.
DType real_type(L& l, size_t at) {
  if (l.out_dtype() != DType::kInvalid) return l.out_dtype();
  if (l.arg(at).kind == Arg::Kind::kInt)
    if (const DType d = scalar_type(l.i(at)); is_float(d)) return d;
  return DType::kF32;
}

ValueId scalar_of(L& l, size_t at, DType to) {
  const ValueId v = l.is_tensor(at) ? l.cast(l.t(at), to) : l.as(l.operand(at), to);
  return l.ok() && l.rank(v) != 0 ? l.reshape(v, {}) : v;
}

/// Zero points in the stored type; integers that it can't hold would be wrong and are refused.
ValueId zero_points(L& l, size_t at, DType stored, bool scalar) {
  if (l.none(at)) return kNoValue;
  ValueId v = scalar ? scalar_of(l, at, DType::kI64) : l.cast(l.t(at), DType::kI64);
  if (const Tensor* k = l.b.constant_of(v); l.ok() && k)
    for (int64_t i = 0; i < k->elements(); ++i)
      if (get_int(*k, i) < int_min(stored) || get_int(*k, i) > int_max(stored)) {
        l.fail(InvalidModel("zero point ", get_int(*k, i), " does not fit ", to_string(stored)));
        return kNoValue;
      }
  return l.cast(v, stored);
}

ValueId quantize_linear(L& l, ValueId x, ValueId scale, ValueId zero, int64_t axis, DType to, int64_t lo, int64_t hi) {
  QuantizeLinearAttrs a;
  a.axis = axis;
  a.to = to;
  a.quant_min = lo;
  a.quant_max = hi;
  std::vector<ValueId> in{l.cast(x, DType::kF32), scale};
  if (zero != kNoValue) in.push_back(zero);
  return l.op(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(a), in);
}

ValueId dequantize_linear(L& l, ValueId x, ValueId scale, ValueId zero, int64_t axis) {
  QuantizeLinearAttrs a;
  a.axis = axis;
  a.to = DType::kF32;
  std::vector<ValueId> in{x, scale};
  if (zero != kNoValue) in.push_back(zero);
  return l.op(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(a), in);
}

/// (input, scale, zero_point, quant_min, quant_max, dtype); the .tensor form has tensors for scale and zero point.
void quantize_per_tensor(L& l) {
  const DType to = stored_type(l, 5);
  if (!l.ok()) return;
  l.result(
      quantize_linear(l, l.t(0), scalar_of(l, 1, DType::kF32), zero_points(l, 2, to, true), 0, to, l.i(3), l.i(4)));
}

/// (input, scale, zero_point, quant_min, quant_max, dtype, out_dtype?).
void dequantize_per_tensor(L& l) {
  const ValueId x = l.t(0);
  const ValueId y = dequantize_linear(l, x, scalar_of(l, 1, DType::kF32), zero_points(l, 2, l.dtype(x), true), 0);
  l.result(l.cast(y, real_type(l, 6)));
}

/// (input, scales, zero_points, axis, quant_min, quant_max, dtype).
void quantize_per_channel(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(3), l.rank(x));
  const DType to = stored_type(l, 6);
  if (!l.ok()) return;
  l.result(quantize_linear(l, x, l.cast(l.t(1), DType::kF32), zero_points(l, 2, to, false), axis, to, l.i(4), l.i(5)));
}

/// (input, scales, zero_points?, axis, quant_min, quant_max, dtype, out_dtype?). Zero points may be real numbers.
void dequantize_per_channel(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  const int64_t axis = l.axis(l.i(3), r);
  const ValueId scale = l.cast(l.t(1), DType::kF32);
  if (!l.none(2) && is_float(l.dtype(l.t(2)))) {
    std::vector<int64_t> shape(static_cast<size_t>(r), 1);
    if (r > 0) shape[static_cast<size_t>(axis)] = -1;
    const ValueId moved = l.binary(Binary::kSub, l.cast(x, DType::kF32), l.reshape(l.cast(l.t(2), DType::kF32), shape));
    return l.result(l.cast(l.binary(Binary::kMul, moved, l.reshape(scale, shape)), real_type(l, 7)));
  }
  l.result(l.cast(dequantize_linear(l, x, scale, zero_points(l, 2, l.dtype(x), false), axis), real_type(l, 7)));
}

/// round(x / scale) + zero point, clamped, with parameters that broadcast.
ValueId quantize_broadcast(L& l, ValueId x, ValueId scale, ValueId zero, int64_t lo, int64_t hi, DType to) {
  const DType f = DType::kF32;
  const ValueId inverse = l.binary(Binary::kDiv, l.number(f, 1), l.cast(scale, f));
  const ValueId steps = l.unary(Unary::kRound, l.binary(Binary::kMul, l.cast(x, f), inverse));
  const ValueId moved = zero == kNoValue ? steps : l.binary(Binary::kAdd, steps, l.cast(zero, f));
  return l.cast(l.unary(Unary::kClamp, moved, static_cast<double>(lo), static_cast<double>(hi)), to);
}

ValueId dequantize_broadcast(L& l, ValueId x, ValueId scale, ValueId zero) {
  const DType f = DType::kF32;
  ValueId y = l.cast(x, f);
  if (zero != kNoValue) y = l.binary(Binary::kSub, y, l.cast(zero, f));
  return l.binary(Binary::kMul, y, l.cast(scale, f));
}

/// (input, scales, zero_points, quant_min, quant_max, dtype): parameters have a last dimension of 1.
void quantize_per_token(L& l) {
  const DType to = stored_type(l, 5);
  l.result(quantize_broadcast(l, l.t(0), l.t(1), l.opt(2), l.i(3), l.i(4), to));
}

void dequantize_per_token(L& l) {
  l.result(l.cast(dequantize_broadcast(l, l.t(0), l.t(1), l.opt(2)), real_type(l, 6)));
}

/// One row of parameters for every group of `group` elements of the last dimension.
ValueId grouped(L& l, ValueId parameters, int64_t group) {
  return l.op(Op::kRepeatInterleave, make_attrs<AxisAttrs>(-1), {parameters, l.integer(DType::kI64, group)});
}

/// dequantize_per_channel_group(w, scales, zero_points?, quant_min, quant_max, dtype, group_size, output_dtype).
void dequantize_per_channel_group(L& l) {
  const int64_t group = l.i(6);
  const ValueId zero = l.opt(2);
  l.result(l.cast(
      dequantize_broadcast(l, l.t(0), grouped(l, l.t(1), group), zero == kNoValue ? kNoValue : grouped(l, zero, group)),
      real_type(l, 7)));
}

void quantize_per_channel_group(L& l) {
  const int64_t group = l.i(6);
  const ValueId zero = l.opt(2);
  const DType to = stored_type(l, 5);
  l.result(quantize_broadcast(l, l.t(0), grouped(l, l.t(1), group),
                              zero == kNoValue ? kNoValue : grouped(l, zero, group), l.i(3), l.i(4), to));
}

/// Scale (float64) and zero point (int64) of a range widened to hold 0, as FBGEMM chooses them.
void choose(L& l, ValueId lo, ValueId hi, double qmin, double qmax) {
  const DType f = DType::kF64;
  constexpr double kSmallest = 6.1e-5;
  const auto k = [&](double v) { return l.number(f, v); };
  lo = l.binary(Binary::kMin, l.cast(lo, f), k(0));
  hi = l.binary(Binary::kMax, l.cast(hi, f), k(0));
  ValueId scale = l.binary(Binary::kDiv, l.binary(Binary::kSub, hi, lo), k(qmax - qmin));
  // A scale whose float32 reciprocal is infinite becomes 0.1.
  scale = l.where(l.binary(Binary::kLess, scale, k(2.938735877055719e-39)), k(0.1), scale);
  const ValueId small = l.binary(Binary::kLess, scale, k(kSmallest));
  const ValueId amplifier = l.binary(Binary::kDiv, k(kSmallest), scale);
  const ValueId lo_zero = l.binary(Binary::kEqual, lo, k(0)), hi_zero = l.binary(Binary::kEqual, hi, k(0));
  const double span = kSmallest * (qmax - qmin);
  const ValueId small_lo = l.where(lo_zero, lo, l.where(hi_zero, k(-span), l.binary(Binary::kMul, lo, amplifier)));
  const ValueId small_hi = l.where(lo_zero, k(span), l.where(hi_zero, hi, l.binary(Binary::kMul, hi, amplifier)));
  lo = l.where(small, small_lo, lo);
  hi = l.where(small, small_hi, hi);
  scale = l.where(small, k(kSmallest), scale);
  const ValueId lo_steps = l.binary(Binary::kDiv, lo, scale), hi_steps = l.binary(Binary::kDiv, hi, scale);
  const ValueId lo_error = l.binary(Binary::kSub, k(qmin < 0 ? -qmin : qmin), l.unary(Unary::kAbs, lo_steps));
  const ValueId hi_error = l.binary(Binary::kSub, k(qmax < 0 ? -qmax : qmax), l.unary(Unary::kAbs, hi_steps));
  const ValueId zero = l.where(l.binary(Binary::kLess, lo_error, hi_error), l.binary(Binary::kSub, k(qmin), lo_steps),
                               l.binary(Binary::kSub, k(qmax), hi_steps));
  const ValueId whole = l.unary(Unary::kRound, l.cast(zero, DType::kF32));
  l.result(scale);
  l.result(l.cast(l.unary(Unary::kClamp, whole, qmin, qmax), DType::kI64));
}

/// choose_qparams(input, quant_min, quant_max, eps, dtype) -> scale [1], zero point [1].
void choose_qparams(L& l) {
  const ValueId x = l.reshape(l.t(0), {-1});
  const double lo = l.d(1), hi = l.d(2);
  if (!(lo < hi)) return l.fail(InvalidModel("quant_min ", lo, " is not below quant_max ", hi));
  choose(l, l.reduce(Reduction::kMin, x, {0}, true), l.reduce(Reduction::kMax, x, {0}, true), lo, hi);
}

void choose_qparams_symmetric(L& l) {
  const ValueId x = l.cast(l.reshape(l.t(0), {-1}), DType::kF64);
  const double lo = l.d(1), hi = l.d(2), eps = l.d(3, 0);
  const ValueId top = l.reduce(Reduction::kMax, l.unary(Unary::kAbs, x), {0}, true);
  const ValueId scale = l.binary(Binary::kDiv, top, l.number(DType::kF64, (hi - lo) / 2));
  l.result(l.binary(Binary::kMax, scale, l.number(DType::kF64, eps)));
  l.result(l.fill(l.b.i64({1}), DType::kI64, lo < 0 ? 0 : (hi + lo + 1) / 2));
}

/// choose_qparams_per_token_asymmetric(input, dtype): int8 parameters per row of the last dimension.
void choose_qparams_per_token(L& l) {
  const ValueId x = l.t(0);
  choose(l, l.reduce(Reduction::kMin, x, {-1}, true), l.reduce(Reduction::kMax, x, {-1}, true), -128, 127);
}

/// Integers packed several to a byte, low bits first, moved to be signed around 0.
ValueId unpacked(L& l, ValueId packed, int bits) {
  const int per_byte = 8 / bits;
  std::vector<ValueId> fields;
  const ValueId wide = l.cast(packed, DType::kI32);
  for (int k = 0; k < per_byte; ++k) {
    // Four-bit tables keep the first of a pair in the high half, two-bit tables the first of four in the low bits.
    const int shift = bits == 4 ? 4 - 4 * k : 2 * k;
    const ValueId moved = l.binary(Binary::kShiftRight, wide, l.integer(DType::kI32, shift));
    const ValueId field = l.binary(Binary::kBitAnd, moved, l.integer(DType::kI32, (1 << bits) - 1));
    fields.push_back(l.binary(Binary::kSub, field, l.integer(DType::kI32, 1 << (bits - 1))));
  }
  const ValueId together = l.op(Op::kStack, make_attrs<AxisAttrs>(-1), fields);
  const int64_t width = l.dim(packed, 1);
  if (l.rank(packed) != 2 || width <= 0) {
    l.fail(Unsupported("packed embedding table ", l.type(packed).str()));
    return kNoValue;
  }
  return l.reshape(together, {-1, width * per_byte});
}

/// embedding_Nbit(weight, scales, zero_points?, quant_min, quant_max, indices): rows picked, then unpacked and
/// dequantized.
template <int bits>
void embedding(L& l) {
  const ValueId table = l.t(0), scales = l.t(1), indices = l.cast(l.t(5), DType::kI64);
  if (l.rank(table) != 2) return l.fail(Unsupported("embedding table ", l.type(table).str()));
  const ValueId list = l.reshape(indices, {-1});
  const auto rows = [&](ValueId v) {
    return v == kNoValue ? kNoValue : l.op(Op::kGather, make_attrs<GatherAttrs>(), {v, list});
  };
  const ValueId picked = bits == 8 ? rows(table) : unpacked(l, rows(table), bits);
  const int64_t width = l.dim(picked, 1);
  if (width <= 0) return l.fail(Unsupported("embedding table ", l.type(table).str()));
  ValueId s = rows(scales), z = rows(l.opt(2));
  const int64_t groups = l.rank(scales) == 2 ? l.dim(scales, 1) : 1;
  if (groups <= 0 || width % groups) return l.fail(InvalidModel(groups, " scales a row for ", width, " columns"));
  const auto fit = [&](ValueId v, ValueId of) {
    if (v == kNoValue) return v;
    const ValueId column = l.rank(of) == 1 ? l.unsqueeze(v, {-1}) : v;
    return groups > 1 ? grouped(l, column, width / groups) : column;
  };
  s = fit(s, scales);
  if (z != kNoValue) z = fit(z, l.t(2));
  l.result(l.like_indices(dequantize_broadcast(l, picked, s, z), indices, width));
}

/// add(a, a_scale, a_zero, a_min, a_max, b, ..., out_scale, out_zero, out_min, out_max).
void add(L& l) {
  const auto real = [&](size_t at) {
    const ValueId x = l.t(at);
    return dequantize_linear(l, x, scalar_of(l, at + 1, DType::kF32), zero_points(l, at + 2, l.dtype(x), true), 0);
  };
  const ValueId sum = l.binary(Binary::kAdd, real(0), real(5));
  const DType to = l.out_dtype() == DType::kInvalid ? l.dtype(l.t(0)) : l.out_dtype();
  l.result(
      quantize_linear(l, sum, scalar_of(l, 10, DType::kF32), zero_points(l, 11, to, true), 0, to, l.i(12), l.i(13)));
}

/// mixed_mm(input, weight, scales, zero_points?), mixed_linear(input, weight [out, in], scales, zero_points?, dtype?).
template <bool linear>
void mixed(L& l) {
  const ValueId x = l.t(0), w = l.t(1), scales = l.t(2);
  const auto column = [&](ValueId v) { return v == kNoValue ? v : l.rank(v) == 1 ? l.unsqueeze(v, {-1}) : v; };
  const auto fit = [&](ValueId v) {
    const ValueId c = column(v);
    const int64_t groups = l.dim(c, 1);
    return c == kNoValue || groups <= 1 ? c : grouped(l, c, l.dim(w, 1) / groups);
  };
  const ValueId real = dequantize_broadcast(l, w, fit(scales), fit(l.opt(3)));
  MatMulAttrs a;
  a.transpose_b = linear;
  const ValueId y = l.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), {l.cast(x, DType::kF32), real});
  l.result(l.cast(y, l.out_dtype() == DType::kInvalid ? l.dtype(x) : l.out_dtype()));
}

/// _weight_int8pack_mm(x, weight [out, in] int8, scales [out]).
void weight_int8pack_mm(L& l) {
  const ValueId x = l.t(0);
  MatMulAttrs a;
  a.transpose_b = true;
  const ValueId y =
      l.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), {l.cast(x, DType::kF32), l.cast(l.t(1), DType::kF32)});
  l.result(l.cast(l.binary(Binary::kMul, y, l.cast(l.t(2), DType::kF32)), l.dtype(x)));
}

constexpr Entry kEntries[] = {
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
    {"quantized_decomposed::add", add},
    {"quantized_decomposed::mixed_mm", mixed<false>},
    {"quantized_decomposed::mixed_linear", mixed<true>},
    {"aten::_weight_int8pack_mm", weight_int8pack_mm},
};

}  // namespace

std::span<const Entry> quant_entries() { return kEntries; }

}  // namespace smelt::aten
