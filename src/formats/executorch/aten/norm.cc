// Normalization, softmax, attention of the core library.
#include <algorithm>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// _softmax(self, dim, half_to_float).
template <SoftmaxAttrs::Kind kind>
void softmax(L& l) {
  ValueId x = l.float_input(0);
  if (l.out_dtype() != DType::kInvalid && bit_width(l.out_dtype()) > bit_width(l.dtype(x)))
    x = l.cast(x, l.out_dtype());
  const int r = l.rank(x);
  SoftmaxAttrs a;
  a.kind = kind;
  a.axis = l.axis(l.i(1), r);
  const ValueId y = l.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(a), {r == 0 ? l.reshape(x, {1}) : x});
  l.result(r == 0 ? l.reshape(y, {}) : y);
}

/// native_layer_norm(input, normalized_shape, weight?, bias?, eps) -> y, mean, 1/std; layer_norm gives y only.
template <int outputs>
void layer_norm(L& l) {
  const ValueId x = l.t(0);
  LayerNormAttrs a;
  a.axis = l.rank(x) - static_cast<int64_t>(l.arg(1).ints.size());
  a.epsilon = l.d(4, 1e-5);
  if (a.axis < 0) return l.fail(InvalidModel("layer_norm over more dimensions than the input has"));
  std::vector<ValueId> in{x, l.cast(l.opt(2), l.dtype(x)), l.cast(l.opt(3), l.dtype(x))};
  while (in.back() == kNoValue) in.pop_back();
  for (ValueId v : l.ops(Op::kLayerNorm, make_attrs<LayerNormAttrs>(a), in, outputs)) l.result(v);
}

/// native_group_norm(input, weight?, bias?, N, C, HxW, group, eps) -> y, mean, 1/std.
void group_norm(L& l) {
  const ValueId x = l.t(0);
  GroupNormAttrs a;
  a.groups = l.i(6);
  a.epsilon = l.d(7, 1e-5);
  if (a.groups <= 0) return l.fail(InvalidModel("group_norm with ", a.groups, " groups"));
  std::vector<ValueId> in{x, l.opt(1), l.opt(2)};
  while (in.back() == kNoValue) in.pop_back();
  for (ValueId v : l.ops(Op::kGroupNorm, make_attrs<GroupNormAttrs>(a), in, 3)) l.result(v);
}

/// A per-channel vector seen along dimension 1 of a tensor of rank r.
ValueId per_channel(L& l, ValueId v, int r) {
  std::vector<int64_t> shape(static_cast<size_t>(r), 1);
  if (r > 1) shape[1] = -1;
  return l.reshape(v, shape);
}

/// (input, weight?, bias?, mean, var, momentum, eps) -> y and two empty tensors.
void batch_norm_inference(L& l) {
  const ValueId x = l.t(0);
  BatchNormAttrs a;
  a.epsilon = l.d(6, 1e-5);
  l.result(l.op(Op::kBatchNorm, make_attrs<BatchNormAttrs>(a), {x, l.opt(1), l.opt(2), l.t(3), l.t(4)}));
  for (size_t k = 1; k < 3; ++k)
    l.result(l.fill(l.b.i64({0}), l.out_dtype(k) == DType::kInvalid ? l.dtype(x) : l.out_dtype(k), 0));
}

/// Statistics of the batch: y, mean and 1/std per channel.
void batch_statistics(L& l, size_t eps_at) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  if (r < 2) return l.fail(InvalidModel("batch norm of rank ", r));
  std::vector<int64_t> axes{0};
  for (int i = 2; i < r; ++i) axes.push_back(i);
  const DType t = l.dtype(x);
  const ValueId wide = t == DType::kF64 ? x : l.cast(x, DType::kF32);
  const DType w = l.dtype(wide);
  const ValueId mean = l.reduce(Reduction::kMean, wide, axes, false);
  const ValueId variance = l.reduce(Reduction::kVar, wide, axes, false, 0);
  const ValueId inverse = l.unary(Unary::kRsqrt, l.binary(Binary::kAdd, variance, l.number(w, l.d(eps_at, 1e-5))));
  ValueId y = l.binary(Binary::kMul, l.binary(Binary::kSub, wide, per_channel(l, mean, r)), per_channel(l, inverse, r));
  if (const ValueId scale = l.opt(1); scale != kNoValue)
    y = l.binary(Binary::kMul, y, per_channel(l, l.cast(scale, w), r));
  if (const ValueId shift = l.opt(2); shift != kNoValue)
    y = l.binary(Binary::kAdd, y, per_channel(l, l.cast(shift, w), r));
  l.result(l.cast(y, t));
  l.result(mean);
  l.result(inverse);
}

/// no_stats(input, weight?, bias?, training, momentum, eps); else (..., running_mean, running_var, training, ...).
void batch_norm_legit(L& l) {
  if (l.c.overload.starts_with("no_stats")) return batch_statistics(l, 5);
  if (!l.flag(5)) {
    const ValueId x = l.t(0);
    BatchNormAttrs a;
    a.epsilon = l.d(7, 1e-5);
    l.result(l.op(Op::kBatchNorm, make_attrs<BatchNormAttrs>(a), {x, l.opt(1), l.opt(2), l.t(3), l.t(4)}));
    for (size_t k = 1; k < 3; ++k) l.result(l.fill(l.b.i64({0}), l.dtype(x), 0));
    return;
  }
  batch_statistics(l, 7);
  const ValueId x = l.t(0);
  if (!l.ok() || !l.type(x).is_static()) return l.fail(Unsupported("training batch norm of unknown shape"));
  const double momentum = l.d(6, 0.1);
  const double n =
      static_cast<double>(l.type(x).shape.elements()) / static_cast<double>(std::max<int64_t>(1, l.dim(x, 1)));
  std::vector<int64_t> axes{0};
  for (int i = 2; i < l.rank(x); ++i) axes.push_back(i);
  const auto blend = [&](size_t at, ValueId fresh) {
    const ValueId old = l.t(at);
    const DType t = l.dtype(old);
    const ValueId next = l.binary(Binary::kAdd, l.binary(Binary::kMul, old, l.number(t, 1 - momentum)),
                                  l.binary(Binary::kMul, l.cast(fresh, t), l.number(t, momentum)));
    l.lowered.mutated.emplace_back(at, next);
  };
  blend(3, l.lowered.outputs[1]);
  blend(4, l.reduce(Reduction::kVar, x, axes, false, n > 1 ? 1 : 0));
}

/// rms_norm(input, normalized_shape, weight?, eps?).
void rms_norm(L& l) {
  const ValueId x = l.t(0);
  LayerNormAttrs a;
  a.rms = true;
  a.axis = l.rank(x) - static_cast<int64_t>(l.arg(1).ints.size());
  a.epsilon = l.d(3, l.dtype(x) == DType::kF64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  std::vector<ValueId> in{x};
  if (!l.none(2)) in.push_back(l.cast(l.t(2), l.dtype(x)));
  l.result(l.op(Op::kLayerNorm, make_attrs<LayerNormAttrs>(a), in));
}

/// scaled_dot_product_attention(q, k, v, mask?, dropout, is_causal, *, scale?, enable_gqa).
void sdpa(L& l) {
  AttentionAttrs a;
  a.causal = l.flag(5);
  a.scale = l.d(6, 0);
  const ValueId q = l.t(0), k = l.t(1), v = l.t(2);
  ValueId mask = l.opt(3);
  if (mask != kNoValue && l.dtype(mask) != DType::kBool) mask = l.cast(mask, l.dtype(q));
  const int r = l.rank(q);
  const auto four = [&](ValueId x) { return r == 3 ? l.unsqueeze(x, {0}) : x; };
  std::vector<ValueId> in{four(q), four(k), four(v)};
  if (mask != kNoValue) in.push_back(r == 3 && l.rank(mask) == 3 ? l.unsqueeze(mask, {0}) : mask);
  if (r != 3 && r != 4) return l.fail(Unsupported("attention of rank ", r));
  const ValueId y = l.op(Op::kAttention, make_attrs<AttentionAttrs>(a), in);
  l.result(r == 3 ? l.squeeze(y, {0}) : y);
}

constexpr Entry kEntries[] = {
    {"aten::_softmax", softmax<SoftmaxAttrs::Kind::kSoftmax>},
    {"aten::softmax", softmax<SoftmaxAttrs::Kind::kSoftmax>},
    {"aten::_log_softmax", softmax<SoftmaxAttrs::Kind::kLogSoftmax>},
    {"aten::log_softmax", softmax<SoftmaxAttrs::Kind::kLogSoftmax>},
    {"aten::_safe_softmax", softmax<SoftmaxAttrs::Kind::kSoftmax>},
    {"aten::native_layer_norm", layer_norm<3>},
    {"aten::layer_norm", layer_norm<1>},
    {"aten::native_group_norm", group_norm},
    {"aten::_native_batch_norm_legit_no_training", batch_norm_inference},
    {"aten::_native_batch_norm_legit", batch_norm_legit},
    {"aten::rms_norm", rms_norm},
    {"aten::scaled_dot_product_attention", sdpa},
};

}  // namespace

std::span<const Entry> norm_entries() { return kEntries; }

}  // namespace smelt::aten
