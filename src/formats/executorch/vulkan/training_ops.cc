// Operators of training steps in Vulkan graphs.
#include <cmath>
#include <utility>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// fused_ce(logits [n, classes], labels [n], n_valid): the sum of the cross entropies over n_valid, and its gradient.
/// Rows with a negative label count nothing.
void fused_ce(CallContext& c) {
  const ValueId logits = c.t(0), labels = c.cast(c.t(1), DType::kI64);
  const DType dtype = c.dtype(logits);
  if (c.rank(logits) != 2 || c.rank(labels) != 1)
    return c.fail("logits ", c.type(logits).str(), " and labels ", c.type(labels).str(), ": ranks 2 and 1 expected");
  const auto number = [&](double v) { return c.number(dtype, v); };
  const ValueId n_valid = number(c.d(2)), zero = c.integer(DType::kI64, 0);
  const ValueId counts = c.unsqueeze(c.binary(Binary::kGreaterEqual, labels, zero), {1});
  const ValueId safe = c.binary(Binary::kMax, labels, zero), column = c.unsqueeze(safe, {1});
  SoftmaxAttrs softmax;
  softmax.axis = 1;
  const ValueId share = c.add(Op::kSoftmax, softmax, {logits});
  softmax.kind = SoftmaxAttrs::Kind::kLogSoftmax;
  GatherAttrs by_column;
  by_column.axis = 1;
  const ValueId logs = c.add(Op::kSoftmax, softmax, {logits});
  const ValueId gathered = c.add(Op::kGatherElements, by_column, {logs, column});
  const ValueId losses = c.binary(Binary::kDiv, c.unary(Unary::kNeg, gathered), n_valid);
  c.result(c.reduce(Reduction::kSum, c.where(counts, losses, number(0)), {0, 1}, false));

  OneHotAttrs one_hot;
  const ValueId classes = c.reshape(c.slice(c.shape_of(logits), 0, 1, 2), {});
  const ValueId truth = c.add(Op::kOneHot, one_hot, {safe, classes, number(1), number(0)});
  const ValueId gradient = c.binary(Binary::kDiv, c.binary(Binary::kSub, share, truth), n_valid);
  c.result(c.where(counts, gradient, number(0)));
}

/// adamw_step(param, m, v, grad, lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2) changes its
/// first three arguments.
void adamw_step(CallContext& c) {
  const ValueId grad = c.t(3);
  const DType dtype = c.dtype(c.t(0));
  const double lr = c.d(4), beta1 = c.d(5), beta2 = c.d(6), eps = c.d(7), decay = c.d(8);
  const auto scaled = [&](ValueId v, double by) { return c.binary(Binary::kMul, v, c.number(dtype, by)); };
  const auto add = [&](ValueId a, ValueId b) { return c.binary(Binary::kAdd, a, b); };
  const ValueId m = add(scaled(c.t(1), beta1), scaled(grad, 1 - beta1));
  const ValueId v = add(scaled(c.t(2), beta2), scaled(c.binary(Binary::kMul, grad, grad), 1 - beta2));
  const ValueId mean = c.binary(Binary::kDiv, m, c.number(dtype, c.d(9)));
  const ValueId spread = c.unary(Unary::kSqrt, c.binary(Binary::kDiv, v, c.number(dtype, c.d(10))));
  const ValueId step = c.binary(Binary::kDiv, mean, add(spread, c.number(dtype, eps)));
  const ValueId param = c.binary(Binary::kSub, scaled(c.t(0), 1 - lr * decay), scaled(step, lr));
  for (const auto& [at, value] : {std::pair<size_t, ValueId>{0, param}, {1, m}, {2, v}}) {
    c.result(value);
    c.lowered.mutated.emplace_back(at, value);
  }
}

/// linear_dW(d_out [..., out], x [..., in]): d_out^T x over all rows.
void linear_dW(CallContext& c) {
  const auto rows = [&](size_t at) {
    const ValueId v = c.t(at);
    return c.reshape(v, {-1, c.dim(v, c.rank(v) - 1)});
  };
  c.emit(Op::kMatMul, MatMulAttrs(), {c.transpose(rows(0), {1, 0}), rows(1)});
}

/// q4gsw_requant(latent [n, k], scales [groups, n], group): codes of 4 bits plus 8, two a byte, the first one low.
void q4gsw_requant(CallContext& c) {
  const ValueId latent = c.t(0), scales = c.t(1);
  const int64_t group = c.i(2);
  if (!c.ok()) return;
  const int64_t n = c.dim(latent, 0), k = c.dim(latent, 1), groups = c.dim(scales, 0);
  if (c.rank(latent) != 2 || c.rank(scales) != 2 || group <= 0 || n <= 0 || k <= 0 || groups != (k + group - 1) / group)
    return c.fail("weights ", c.type(latent).str(), " and scales ", c.type(scales).str(), " in groups of ", group);
  const DType dtype = c.dtype(latent);
  const auto number = [&](double v) { return c.number(dtype, v); };
  const ValueId column = c.reshape(c.transpose(scales, {1, 0}), {n, groups, 1});
  ValueId s = c.expand(column, c.i64({n, groups, group}));
  s = c.slice(c.reshape(s, {n, groups * group}), 1, 0, k);
  const ValueId dead = c.binary(Binary::kEqual, s, number(0));
  ValueId q = c.unary(Unary::kRound, c.binary(Binary::kDiv, latent, c.where(dead, number(1), s)));
  q = c.unary(Unary::kClamp, c.where(dead, number(0), q), -8, 7);
  q = c.cast(c.binary(Binary::kAdd, q, number(8)), DType::kI32);
  const ValueId low = c.slice(q, 1, 0, k, 2);
  ValueId high = c.slice(q, 1, 1, k, 2);
  if (k % 2 != 0) high = c.concat({high, c.filled(c.i64({n, 1}), DType::kI32, 0)}, 1);
  high = c.binary(Binary::kMul, high, c.integer(DType::kI32, 16));
  c.result(c.cast(c.binary(Binary::kAdd, low, high), DType::kU8));
}

constexpr OpEntry kEntries[] = {
    {"et_vk::fused_ce", fused_ce},
    {"et_vk::adamw_step", adamw_step},
    {"et_vk::linear_dW", linear_dW},
    {"et_vk::q4gsw_requant", q4gsw_requant},
};

}  // namespace

std::span<const OpEntry> vulkan_training_entries() { return kEntries; }

}  // namespace smelt::aten
