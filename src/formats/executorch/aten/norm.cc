// Normalization, softmax, attention of the core library.
#include <algorithm>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// _softmax(self, dim, half_to_float).
template <SoftmaxAttrs::Kind kind>
void softmax(CallContext& c) {
  ValueId x = c.float_input(0);
  if (c.out_dtype() != DType::kInvalid && bit_width(c.out_dtype()) > bit_width(c.dtype(x)))
    x = c.cast(x, c.out_dtype());
  const int r = c.rank(x);
  SoftmaxAttrs a;
  a.kind = kind;
  a.axis = c.axis(c.i(1), r);
  const ValueId y = c.add(Op::kSoftmax, a, {r == 0 ? c.reshape(x, {1}) : x});
  c.result(r == 0 ? c.reshape(y, {}) : y);
}

/// native_layer_norm(input, normalized_shape, weight?, bias?, eps) -> y, mean, 1/std; layer_norm gives y only.
template <int outputs>
void layer_norm(CallContext& c) {
  const ValueId x = c.t(0);
  LayerNormAttrs a;
  a.axis = c.rank(x) - static_cast<int64_t>(c.arg(1).ints.size());
  a.epsilon = c.d(4, 1e-5);
  if (a.axis < 0) return c.fail("layer_norm over more dimensions than the input has");
  std::vector<ValueId> in{x, c.cast(c.opt(2), c.dtype(x)), c.cast(c.opt(3), c.dtype(x))};
  while (in.back() == kNoValue) in.pop_back();
  c.results(c.add_n(Op::kLayerNorm, a, in, outputs));
}

/// native_group_norm(input, weight?, bias?, N, C, HxW, group, eps) -> y, mean, 1/std.
void group_norm(CallContext& c) {
  const ValueId x = c.t(0);
  GroupNormAttrs a;
  a.groups = c.i(6);
  a.epsilon = c.d(7, 1e-5);
  if (a.groups <= 0) return c.fail("group_norm with ", a.groups, " groups");
  std::vector<ValueId> in{x, c.opt(1), c.opt(2)};
  while (in.back() == kNoValue) in.pop_back();
  c.results(c.add_n(Op::kGroupNorm, a, in, 3));
}

/// A per-channel vector seen along dimension 1 of a tensor of rank r.
ValueId per_channel(CallContext& c, ValueId v, int r) {
  std::vector<int64_t> shape(static_cast<size_t>(r), 1);
  if (r > 1) shape[1] = -1;
  return c.reshape(v, shape);
}

/// (input, weight?, bias?, mean, var, momentum, eps) -> y and two empty tensors.
void batch_norm_inference(CallContext& c) {
  const ValueId x = c.t(0);
  BatchNormAttrs a;
  a.epsilon = c.d(6, 1e-5);
  c.emit(Op::kBatchNorm, a, {x, c.opt(1), c.opt(2), c.t(3), c.t(4)});
  for (size_t k = 1; k < 3; ++k)
    c.result(c.filled(c.i64({0}), c.out_dtype(k) == DType::kInvalid ? c.dtype(x) : c.out_dtype(k), 0));
}

/// Statistics of the batch: y, mean and 1/std per channel.
void batch_statistics(CallContext& c, size_t eps_at) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  if (r < 2) return c.fail("batch norm of rank ", r);
  std::vector<int64_t> axes{0};
  for (int i = 2; i < r; ++i) axes.push_back(i);
  const DType t = c.dtype(x);
  const ValueId wide = t == DType::kF64 ? x : c.cast(x, DType::kF32);
  const DType w = c.dtype(wide);
  const ValueId mean = c.reduce(Reduction::kMean, wide, axes, false);
  const ValueId centred = c.binary(Binary::kSub, wide, per_channel(c, mean, r));
  const ValueId variance = c.reduce(Reduction::kMean, c.binary(Binary::kMul, centred, centred), axes, false);
  const ValueId inverse = c.unary(Unary::kRsqrt, c.binary(Binary::kAdd, variance, c.number(w, c.d(eps_at, 1e-5))));
  ValueId y = c.binary(Binary::kMul, centred, per_channel(c, inverse, r));
  if (const ValueId scale = c.opt(1); scale != kNoValue)
    y = c.binary(Binary::kMul, y, per_channel(c, c.cast(scale, w), r));
  if (const ValueId shift = c.opt(2); shift != kNoValue)
    y = c.binary(Binary::kAdd, y, per_channel(c, c.cast(shift, w), r));
  c.result(c.cast(y, t));
  c.result(mean);
  c.result(inverse);
}

/// no_stats(input, weight?, bias?, training, momentum, eps); else (..., running_mean, running_var, training, ...).
void batch_norm_legit(CallContext& c) {
  if (c.call.overload.starts_with("no_stats")) return batch_statistics(c, 5);
  if (!c.flag(5)) {
    const ValueId x = c.t(0);
    BatchNormAttrs a;
    a.epsilon = c.d(7, 1e-5);
    c.emit(Op::kBatchNorm, a, {x, c.opt(1), c.opt(2), c.t(3), c.t(4)});
    for (size_t k = 1; k < 3; ++k) c.result(c.filled(c.i64({0}), c.dtype(x), 0));
    return;
  }
  batch_statistics(c, 7);
  const ValueId x = c.t(0);
  if (!c.ok() || !c.type(x).is_static()) return c.unsupported("training batch norm of unknown shape");
  const double momentum = c.d(6, 0.1);
  const double n =
      static_cast<double>(c.type(x).shape.elements()) / static_cast<double>(std::max<int64_t>(1, c.dim(x, 1)));
  std::vector<int64_t> axes{0};
  for (int i = 2; i < c.rank(x); ++i) axes.push_back(i);
  const auto blend = [&](size_t at, ValueId fresh) {
    const ValueId old = c.t(at);
    const DType t = c.dtype(old);
    const ValueId next = c.binary(Binary::kAdd, c.binary(Binary::kMul, old, c.number(t, 1 - momentum)),
                                  c.binary(Binary::kMul, c.cast(fresh, t), c.number(t, momentum)));
    c.lowered.mutated.emplace_back(at, next);
  };
  blend(3, c.lowered.outputs[1]);
  blend(4, c.reduce(Reduction::kVar, x, axes, false, n > 1 ? 1 : 0));
}

/// rms_norm(input, normalized_shape, weight?, eps?).
void rms_norm(CallContext& c) {
  const ValueId x = c.t(0);
  LayerNormAttrs a;
  a.rms = true;
  a.axis = c.rank(x) - static_cast<int64_t>(c.arg(1).ints.size());
  a.epsilon = c.d(3, c.dtype(x) == DType::kF64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  std::vector<ValueId> in{x};
  if (!c.none(2)) in.push_back(c.cast(c.t(2), c.dtype(x)));
  c.emit(Op::kLayerNorm, a, in);
}

/// scaled_dot_product_attention(q, k, v, mask?, dropout, is_causal, *, scale?, enable_gqa).
void sdpa(CallContext& c) {
  AttentionAttrs a;
  a.causal = c.flag(5);
  a.scale = c.d(6, 0);
  const ValueId q = c.t(0), k = c.t(1), v = c.t(2);
  ValueId mask = c.opt(3);
  if (mask != kNoValue && c.dtype(mask) != DType::kBool) mask = c.cast(mask, c.dtype(q));
  const int r = c.rank(q);
  const auto four = [&](ValueId x) { return r == 3 ? c.unsqueeze(x, {0}) : x; };
  std::vector<ValueId> in{four(q), four(k), four(v)};
  if (mask != kNoValue) in.push_back(r == 3 && c.rank(mask) == 3 ? c.unsqueeze(mask, {0}) : mask);
  if (r != 3 && r != 4) return c.unsupported("attention of rank ", r);
  const ValueId y = c.add(Op::kAttention, a, in);
  c.result(r == 3 ? c.squeeze(y, {0}) : y);
}

constexpr OpEntry kEntries[] = {
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

std::span<const OpEntry> norm_entries() { return kEntries; }

}  // namespace smelt::aten
