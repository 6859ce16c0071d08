// Operators of training steps in Vulkan graphs.
#include <cmath>
#include <utility>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// fused_ce(logits [n, classes], labels [n], n_valid): the sum of the cross entropies over n_valid, and its gradient.
/// Rows with a negative label count nothing.
void fused_ce(L& l) {
  const ValueId logits = l.t(0), labels = l.cast(l.t(1), DType::kI64);
  const DType dtype = l.dtype(logits);
  if (l.rank(logits) != 2 || l.rank(labels) != 1)
    return l.fail(InvalidModel("logits ", l.type(logits).str(), " and labels ", l.type(labels).str(),
                               ": ranks 2 and 1 expected"));
  const auto number = [&](double v) { return l.number(dtype, v); };
  const ValueId n_valid = number(l.d(2)), zero = l.integer(DType::kI64, 0);
  const ValueId counts = l.unsqueeze(l.binary(Binary::kGreaterEqual, labels, zero), {1});
  const ValueId safe = l.binary(Binary::kMax, labels, zero), column = l.unsqueeze(safe, {1});
  SoftmaxAttrs softmax;
  softmax.axis = 1;
  const ValueId share = l.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(softmax), {logits});
  softmax.kind = SoftmaxAttrs::Kind::kLogSoftmax;
  GatherAttrs pick;
  pick.axis = 1;
  const ValueId logs = l.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(softmax), {logits});
  const ValueId picked = l.op(Op::kGatherElements, make_attrs<GatherAttrs>(pick), {logs, column});
  const ValueId losses = l.binary(Binary::kDiv, l.unary(Unary::kNeg, picked), n_valid);
  l.result(l.reduce(Reduction::kSum, l.where(counts, losses, number(0)), {0, 1}, false));

  OneHotAttrs one_hot;
  const ValueId classes = l.reshape(l.slice(l.shape_of(logits), 0, 1, 2), {});
  const ValueId truth = l.op(Op::kOneHot, make_attrs<OneHotAttrs>(one_hot), {safe, classes, number(1), number(0)});
  const ValueId gradient = l.binary(Binary::kDiv, l.binary(Binary::kSub, share, truth), n_valid);
  l.result(l.where(counts, gradient, number(0)));
}

/// adamw_step(param, m, v, grad, lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2) changes its
/// first three arguments.
void adamw_step(L& l) {
  const ValueId grad = l.t(3);
  const DType dtype = l.dtype(l.t(0));
  const double lr = l.d(4), beta1 = l.d(5), beta2 = l.d(6), eps = l.d(7), decay = l.d(8);
  const auto scaled = [&](ValueId v, double by) { return l.binary(Binary::kMul, v, l.number(dtype, by)); };
  const auto add = [&](ValueId a, ValueId b) { return l.binary(Binary::kAdd, a, b); };
  const ValueId m = add(scaled(l.t(1), beta1), scaled(grad, 1 - beta1));
  const ValueId v = add(scaled(l.t(2), beta2), scaled(l.binary(Binary::kMul, grad, grad), 1 - beta2));
  const ValueId mean = l.binary(Binary::kDiv, m, l.number(dtype, l.d(9)));
  const ValueId spread = l.unary(Unary::kSqrt, l.binary(Binary::kDiv, v, l.number(dtype, l.d(10))));
  const ValueId step = l.binary(Binary::kDiv, mean, add(spread, l.number(dtype, eps)));
  const ValueId param = l.binary(Binary::kSub, scaled(l.t(0), 1 - lr * decay), scaled(step, lr));
  for (const auto& [at, value] : {std::pair<size_t, ValueId>{0, param}, {1, m}, {2, v}}) {
    l.result(value);
    l.lowered.mutated.emplace_back(at, value);
  }
}

/// linear_dW(d_out [..., out], x [..., in]): d_out^T x over all rows.
void linear_dW(L& l) {
  const auto rows = [&](size_t at) {
    const ValueId v = l.t(at);
    return l.reshape(v, {-1, l.dim(v, l.rank(v) - 1)});
  };
  l.result(l.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {l.transpose(rows(0), {1, 0}), rows(1)}));
}

/// q4gsw_requant(latent [n, k], scales [groups, n], group): codes of 4 bits plus 8, two a byte, the first one low.
void q4gsw_requant(L& l) {
  const ValueId latent = l.t(0), scales = l.t(1);
  const int64_t group = l.i(2);
  if (!l.ok()) return;
  const int64_t n = l.dim(latent, 0), k = l.dim(latent, 1), groups = l.dim(scales, 0);
  if (l.rank(latent) != 2 || l.rank(scales) != 2 || group <= 0 || n <= 0 || k <= 0 || groups != (k + group - 1) / group)
    return l.fail(
        InvalidModel("weights ", l.type(latent).str(), " and scales ", l.type(scales).str(), " in groups of ", group));
  const DType dtype = l.dtype(latent);
  const auto number = [&](double v) { return l.number(dtype, v); };
  const ValueId column = l.reshape(l.transpose(scales, {1, 0}), {n, groups, 1});
  ValueId s = l.op(Op::kExpand, make_attrs<NoAttrs>(), {column, l.ints_const({n, groups, group})});
  s = l.slice(l.reshape(s, {n, groups * group}), 1, 0, k);
  const ValueId dead = l.binary(Binary::kEqual, s, number(0));
  ValueId q = l.unary(Unary::kRound, l.binary(Binary::kDiv, latent, l.where(dead, number(1), s)));
  q = l.unary(Unary::kClamp, l.where(dead, number(0), q), -8, 7);
  q = l.cast(l.binary(Binary::kAdd, q, number(8)), DType::kI32);
  const ValueId low = l.slice(q, 1, 0, k, 2);
  ValueId high = l.slice(q, 1, 1, k, 2);
  if (k % 2 != 0)
    high = l.op(Op::kConcat, make_attrs<AxisAttrs>(1), {high, l.fill(l.ints_const({n, 1}), DType::kI32, 0)});
  high = l.binary(Binary::kMul, high, l.integer(DType::kI32, 16));
  l.result(l.cast(l.binary(Binary::kAdd, low, high), DType::kU8));
}

constexpr Entry kEntries[] = {
    {"et_vk::fused_ce", fused_ce},
    {"et_vk::adamw_step", adamw_step},
    {"et_vk::linear_dW", linear_dW},
    {"et_vk::q4gsw_requant", q4gsw_requant},
};

}  // namespace

std::span<const Entry> vulkan_training_entries() { return kEntries; }

}  // namespace smelt::aten
