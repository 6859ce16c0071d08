// Operators of programs for microcontrollers (cortex_m), in the integer arithmetic of CMSIS-NN.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"
#include "tensor/numeric.h"

namespace smelt::aten {
namespace {

constexpr int64_t kLow = -128, kHigh = 127;  // int8

/// The integers of a tensor argument from `zero` on, as int32.
ValueId centred(CallContext& c, size_t at, int64_t zero) {
  const ValueId x = c.cast(c.t(at), DType::kI32);
  return zero == 0 ? x : c.binary(Binary::kSub, x, c.integer(DType::kI32, zero));
}

FixedScaleAttrs fixed_scale(int64_t multiplier, int64_t shift, int64_t zero, int64_t min, int64_t max) {
  FixedScaleAttrs a;
  a.multipliers = {multiplier};
  a.shifts = {shift};
  a.zero_point = zero;
  a.min = min;
  a.max = max;
  return a;
}

/// The contents of an integer tensor that must be constant.
std::vector<int64_t> constants(CallContext& c, size_t at) {
  if (!c.is_tensor(at)) return c.ints(at);
  const Tensor* t = c.constant_of(c.t(at));
  if (!t || !is_integer(t->dtype())) {
    c.unsupported("argument ", at, " must be a constant of integers");
    return {};
  }
  std::vector<int64_t> out(static_cast<size_t>(t->elements()));
  to_ints(*t, out.data());
  return out;
}

/// quantized_add(x, x_zero, x_multiplier, x_shift, y, ..., zero, multiplier, shift, min?, max?).
void quantized_add(CallContext& c) {
  constexpr int64_t kHeadroom = 20;  // bits that operands are shifted up before they are rescaled
  ValueId sum = kNoValue;
  for (const size_t at : {size_t{0}, size_t{4}}) {
    FixedScaleAttrs a = fixed_scale(c.i(at + 2), c.i(at + 3), 0, std::numeric_limits<int32_t>::min(),
                                    std::numeric_limits<int32_t>::max());
    a.to = DType::kI32;
    const ValueId raised =
        c.binary(Binary::kMul, centred(c, at, c.i(at + 1)), c.integer(DType::kI32, int64_t{1} << kHeadroom));
    const ValueId scaled = c.add(Op::kFixedScale, a, {raised});
    sum = sum == kNoValue ? scaled : c.binary(Binary::kAdd, sum, scaled);
  }
  c.emit(Op::kFixedScale, fixed_scale(c.i(9), c.i(10), c.i(8), c.i(11, kLow), c.i(12, kHigh)), {sum});
}

/// quantized_mul(x, x_zero, y, y_zero, zero, multiplier, shift).
void quantized_mul(CallContext& c) {
  const ValueId product = c.binary(Binary::kMul, centred(c, 0, c.i(1)), centred(c, 2, c.i(3)));
  c.emit(Op::kFixedScale, fixed_scale(c.i(5), c.i(6), c.i(4), kLow, kHigh), {product});
}

/// quantized_div(x, x_zero, y, y_zero, zero, scale): a quotient by 0 is 0.
void quantized_div(CallContext& c) {
  const DType f = DType::kF32;
  const ValueId y = centred(c, 2, c.i(3));
  const ValueId quotient = c.binary(Binary::kDiv, c.cast(centred(c, 0, c.i(1)), f), c.cast(y, f));
  const ValueId finite = c.where(c.binary(Binary::kNotEqual, y, c.integer(DType::kI32, 0)), quotient, c.number(f, 0));
  const ValueId scaled = c.binary(Binary::kMul, finite, c.number(f, c.d(5)));
  // round(): ties away from zero.
  const ValueId half = c.binary(Binary::kMul, c.unary(Unary::kSign, scaled), c.number(f, 0.5));
  const ValueId whole = c.unary(Unary::kTrunc, c.binary(Binary::kAdd, scaled, half));
  const DType to = c.out_dtype() == DType::kI16 ? DType::kI16 : DType::kI8;
  const ValueId moved = c.binary(Binary::kAdd, whole, c.number(f, static_cast<double>(c.i(4))));
  c.result(
      c.cast(c.unary(Unary::kClamp, moved, static_cast<double>(int_min(to)), static_cast<double>(int_max(to))), to));
}

/// A bias [channels] of accumulators, along dimension 1 of four or along the last one.
ValueId with_bias(CallContext& c, ValueId sum, ValueId bias, bool image) {
  if (bias == kNoValue) return sum;
  return c.binary(Binary::kAdd, sum, image ? c.reshape(bias, {-1, 1, 1}) : bias);
}

/// quantized_linear(x, weights, bias?, kernel_sum?, x_offset, weight_offset, offset, multipliers, shifts, max, min). A
/// kernel_sum holds the bias and what the offset of x adds; then x has its own zero point of 0.
void quantized_linear(CallContext& c) {
  const bool summed = !c.none(3);
  const int64_t x_zero = summed ? 0 : -c.i(4), weight_zero = -c.i(5);
  const auto multipliers = c.ints(7), shifts = c.ints(8);
  if (!c.ok()) return;
  if (multipliers.empty() || shifts.empty()) return c.fail("no multiplier or shift");
  MatMulAttrs a;
  a.transpose_b = true;
  const ValueId sum =
      c.add(Op::kMatMulInteger, a,
            {c.t(0), c.t(1), c.integer(c.dtype(c.t(0)), x_zero), c.integer(c.dtype(c.t(1)), weight_zero)});
  const ValueId bias = summed ? c.reshape(c.cast(c.t(3), DType::kI32), {-1}) : c.opt(2);
  c.emit(Op::kFixedScale, fixed_scale(multipliers[0], shifts[0], c.i(6), c.i(10), c.i(9)),
         {with_bias(c, sum, bias, false)});
}

/// quantized_batch_matmul(a, a_zero, b transposed, b_zero, zero, multiplier, shift, scratch). The zero points are
/// offsets: they are added.
void quantized_batch_matmul(CallContext& c) {
  MatMulAttrs a;
  a.transpose_b = true;
  const ValueId sum =
      c.add(Op::kMatMulInteger, a, {c.t(0), c.t(2), c.integer(DType::kI8, -c.i(1)), c.integer(DType::kI8, -c.i(3))});
  c.emit(Op::kFixedScale, fixed_scale(c.i(5), c.i(6), c.i(4), kLow, kHigh), {sum});
}

std::vector<int64_t> pair(CallContext& c, size_t at) {
  auto v = c.ints(at);
  if (v.size() == 1) v.push_back(v[0]);
  if (c.ok() && v.size() != 2) c.fail("argument ", at, " has ", v.size(), " entries, 2 expected");
  return c.ok() ? v : std::vector<int64_t>{1, 1};
}

template <class A>
A window(CallContext& c, size_t dilation) {
  A a;
  a.strides = pair(c, 3);
  const auto pads = pair(c, 4);
  a.pads = {pads[0], pads[1], pads[0], pads[1]};
  a.dilations = pair(c, dilation);
  return a;
}

/// Accumulators [N, C, H, W] with their bias -> the result, by constant multipliers and shifts of each channel.
/// Arguments from `at` on: offset, multipliers, shifts, min, max.
void rescale_channels(CallContext& c, ValueId sum, size_t at) {
  FixedScaleAttrs a = fixed_scale(0, 0, c.i(at), c.i(at + 3), c.i(at + 4));
  a.multipliers = constants(c, at + 1);
  a.shifts = constants(c, at + 2);
  a.axis = 1;
  c.emit(Op::kFixedScale, std::move(a), {with_bias(c, sum, c.opt(2), true)});
}

/// quantized_conv2d(x, weight [O, H, W, I], bias?, stride, padding, dilation, x_offset, offset, multipliers, shifts,
/// min, max, scratch?); depthwise: weight [1, H, W, O] and depth_multiplier before x_offset.
template <bool depthwise>
void quantized_conv2d(CallContext& c) {
  auto a = window<ConvAttrs>(c, 5);
  const ValueId x = c.t(0);
  const size_t at = depthwise ? 7 : 6;
  if (!c.ok() || c.rank(x) != 4 || c.rank(c.t(1)) != 4) return c.fail("x and the weight have four dimensions");
  const ValueId w =
      c.transpose(c.t(1), depthwise ? std::vector<int64_t>{3, 0, 1, 2} : std::vector<int64_t>{0, 3, 1, 2});
  const int64_t channels = c.dim(x, 1), inputs = c.dim(w, 1);
  if (channels < 1 || inputs < 1 || channels % inputs != 0)
    return c.fail("x has ", channels, " channels, the weight ", inputs);
  a.groups = channels / inputs;
  const ValueId sum = c.add(Op::kConvInteger, a, {x, w, c.integer(c.dtype(x), -c.i(at))});
  rescale_channels(c, sum, at + 1);
}

/// quantized_transpose_conv2d(x, weight [O, H, W, I], bias?, stride, padding, output_padding, dilation, x_offset,
/// offset, multipliers, shifts, min, max, ...). Sums of products of int8 are exact in float64.
void quantized_transpose_conv2d(CallContext& c) {
  auto a = window<ConvTransposeAttrs>(c, 6);
  a.output_padding = pair(c, 5);
  a.filter = FilterLayout::kIOS;
  if (!c.ok() || c.rank(c.t(0)) != 4 || c.rank(c.t(1)) != 4) return c.fail("x and the weight have four dimensions");
  const ValueId x = c.cast(centred(c, 0, -c.i(7)), DType::kF64);
  const ValueId w = c.cast(c.transpose(c.t(1), {3, 0, 1, 2}), DType::kF64);
  const int64_t channels = c.dim(x, 1), inputs = c.dim(w, 0);
  if (channels != inputs)
    return c.unsupported("a transposed convolution of ", channels, " channels in groups of ", inputs);
  rescale_channels(c, c.cast(c.add(Op::kConvTranspose, ConvTransposeAttrs(a), {x, w}), DType::kI32), 8);
}

PoolAttrs pool(CallContext& c, PoolKind kind) {
  PoolAttrs a;
  a.kind = kind;
  a.kernel = pair(c, 1);
  a.strides = c.ints(2).empty() ? a.kernel : pair(c, 2);
  const auto pads = pair(c, 3);
  a.pads = {pads[0], pads[1], pads[0], pads[1]};
  a.dilations = {1, 1};
  a.torch_ceil = true;
  return a;
}

/// quantized_avg_pool2d(x, kernel, stride, padding, ceil_mode, zero, multiplier, shift, scratch): the mean of what lies
/// in the image, rounded half away from zero.
void quantized_avg_pool2d(CallContext& c) {
  PoolAttrs a = pool(c, PoolKind::kAverage);
  a.ceil_mode = c.flag(4);
  c.emit(Op::kPool, std::move(a), {c.t(0)});
}

/// quantized_max_pool2d(x, kernel, stride, padding, dilation, ceil_mode, x_zero, zero, min, max).
void quantized_max_pool2d(CallContext& c) {
  PoolAttrs a = pool(c, PoolKind::kMax);
  a.dilations = pair(c, 4);
  a.ceil_mode = c.flag(5);
  if (c.i(6) != c.i(7)) return c.fail("zero points ", c.i(6), " and ", c.i(7), " of a pool's input and output");
  const ValueId y = c.add(Op::kPool, std::move(a), {c.t(0)});
  const bool all = c.i(8) <= kLow && c.i(9) >= kHigh;
  c.result(all ? y : c.unary(Unary::kClamp, y, static_cast<double>(c.i(8)), static_cast<double>(c.i(9))));
}

/// quantized_activation(x, table): entry x + 128 of the table.
void quantized_activation(CallContext& c) {
  const ValueId index = centred(c, 0, -128);
  c.emit(Op::kGather, GatherAttrs(), {c.reshape(c.t(1), {-1}), index});
}

/// softmax(x, dim, x_zero, zero, multiplier, shift, diff_min): probabilities at scale 1/256 and zero point -128.
void quantized_softmax(CallContext& c) {
  constexpr int kFractionBits = 26;  // of the scaled differences that multiplier and shift give
  if (c.i(3) != kLow) return c.unsupported("a softmax with zero point ", c.i(3), ", -128 expected");
  SoftmaxAttrs a;
  a.axis = c.axis(c.i(1), c.rank(c.t(0)));
  a.rounding = Rounding::kFixedDouble;
  a.beta = std::ldexp(static_cast<double>(c.i(4)),
                      static_cast<int>(std::clamp<int64_t>(c.i(5), -64, 64)) - 31 - kFractionBits);
  Quantization q;
  q.rounding = Rounding::kFixedDouble;
  q.scales = {1.f};
  q.zero_points = {static_cast<int32_t>(std::clamp<int64_t>(c.i(2), kLow, kHigh))};
  const ValueId x = c.with_quant(c.t(0), std::make_shared<const Quantization>(q));
  q.scales = {1.f / 256};
  q.zero_points = {static_cast<int32_t>(kLow)};
  ValueType y = c.type(x);
  y.quant = std::make_shared<const Quantization>(q);
  c.result(c.with_quant(c.add_as(Op::kSoftmax, a, {x}, y), nullptr));
}

template <Binary fn>
void extremum(CallContext& c) {
  c.result(c.binary(fn, c.t(0), c.t(1)));
}

void transpose_int8(CallContext& c) { c.result(c.transpose(c.t(0), c.axes(c.ints(1), c.rank(c.t(0))))); }

/// pad(x, before [4], after [4], value). The four numbers stand in the order of memory: rows, columns and channels last
/// where x is so in memory. The declared shape of the result tells.
void pad_int8(CallContext& c) {
  const ValueId x = c.t(0);
  const auto before = c.ints(1), after = c.ints(2);
  const int rank = c.rank(x);
  if (!c.ok()) return;
  if (before.size() != 4 || after.size() != 4 || rank < 1 || rank > 4)
    return c.fail("padding of ", before.size(), " and ", after.size(), " entries for rank ", rank);
  const auto pads = [&](bool channels_last) {
    constexpr size_t kFromMemory[] = {0, 3, 1, 2};
    std::vector<int64_t> list;
    for (const auto& side : {before, after})
      for (int i = 0; i < rank; ++i) {
        const auto at = static_cast<size_t>(4 - rank + i);
        list.push_back(side[channels_last ? kFromMemory[at] : at]);
      }
    return list;
  };
  const auto fits = [&](const std::vector<int64_t>& list) {
    const auto n = static_cast<size_t>(rank);
    if (c.out_rank() != rank) return true;
    for (int i = 0; i < rank; ++i) {
      const auto at = static_cast<size_t>(i);
      if (c.dim(x, i) >= 0 && c.call.outputs[0].shape[i] != c.dim(x, i) + list[at] + list[at + n]) return false;
    }
    return true;
  };
  auto list = pads(false);
  if (rank == 4 && !fits(list)) list = pads(true);
  c.emit(Op::kPad, PadAttrs(), {x, c.i64(list), c.integer(c.dtype(x), c.i(3))});
}

constexpr OpEntry kEntries[] = {
    {"cortex_m::quantized_add", quantized_add},
    {"cortex_m::quantized_mul", quantized_mul},
    {"cortex_m::quantized_div", quantized_div},
    {"cortex_m::quantized_linear", quantized_linear},
    {"cortex_m::quantized_batch_matmul", quantized_batch_matmul},
    {"cortex_m::quantized_conv2d", quantized_conv2d<false>},
    {"cortex_m::quantized_depthwise_conv2d", quantized_conv2d<true>},
    {"cortex_m::quantized_transpose_conv2d", quantized_transpose_conv2d},
    {"cortex_m::quantized_avg_pool2d", quantized_avg_pool2d},
    {"cortex_m::quantized_max_pool2d", quantized_max_pool2d},
    {"cortex_m::quantized_activation", quantized_activation},
    {"cortex_m::softmax", quantized_softmax},
    {"cortex_m::minimum", extremum<Binary::kMin>},
    {"cortex_m::maximum", extremum<Binary::kMax>},
    {"cortex_m::transpose", transpose_int8},
    {"cortex_m::pad", pad_int8},
};

}  // namespace

std::span<const OpEntry> cortex_m_entries() { return kEntries; }

}  // namespace smelt::aten
