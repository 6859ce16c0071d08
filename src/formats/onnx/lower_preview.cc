// ai.onnx.preview: attention whose scores and probabilities pass through graphs of the model.
#include <cmath>

#include "formats/onnx/ops.h"
#include "ops/attention/attention.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/softmax/softmax.h"

namespace smelt::onnx {
namespace {

/// A rank-4 tensor after the graph of an attribute; the tensor itself when the node has no such attribute.
ValueId modified(NodeContext& n, const char* attribute, ValueId x, DType dtype) {
  if (!n.has_attr(attribute)) return x;
  const ValueType type = ValueType::tensor(dtype, Shape{-1, -1, -1, -1});
  auto body = n.body(attribute, {type});
  if (!body) return kNoValue;
  const Graph& g = n.builder().module().graphs[static_cast<size_t>(body->graph)];
  if (g.outputs.size() != 1) {
    n.fail(attribute, " gives ", g.outputs.size(), " results, 1 expected");
    return kNoValue;
  }
  std::vector<ValueId> in{x};
  attach_captures(n, *body, in);
  CallAttrs a;
  a.graph = body->graph;
  return n.add_as(Op::kCall, a, in, type);
}

/// [B, Hkv, S, E] -> [B, Hkv * groups, S, E]: each head stands `groups` times side by side.
ValueId repeat_heads(NodeContext& n, ValueId x, int64_t heads, int64_t groups, int64_t depth) {
  if (groups == 1) return x;
  const ValueId apart = n.unsqueeze(x, {2});
  const ValueId many = n.expand(apart, n.i64({1, 1, groups, 1, 1}));
  return n.reshape(many, {0, heads * groups, -1, depth});
}

void lower_flex_attention(NodeContext& n) {
  const ValueId q = n.in(0), k = n.in(1), v = n.in(2);
  const DType dtype = n.dtype(q);
  DType compute = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (const int64_t code = n.i("softmax_precision", 0)) compute = dtype_of(code);
  if (!is_float(compute))
    return n.fail("softmax_precision is ", to_string(compute), ", a floating-point type expected");
  for (const ValueId id : {q, k, v})
    if (n.rank_or_fail(id) != 4) return n.fail("rank ", n.rank(id), ", 4 expected");
  if (!n.has_attr("score_mod") && !n.has_attr("prob_mod")) {
    AttentionAttrs a;
    a.scale = n.f("scale", 0);
    a.softmax_dtype = compute;
    return n.emit(Op::kAttention, a, {q, k, v});
  }
  const Shape qs = n.type(q).shape, ks = n.type(k).shape, vs = n.type(v).shape;
  if (qs[1] < 0 || ks[1] < 0 || qs[3] < 0 || vs[3] < 0)
    return n.unsupported("unknown numbers of heads or head sizes with score_mod or prob_mod");
  if (ks[1] < 1 || qs[1] % ks[1] != 0) return n.fail(qs[1], " query heads for ", ks[1], " key heads");
  const int64_t groups = qs[1] / ks[1];
  MatMulAttrs product;
  product.transpose_b = true;
  product.alpha = n.has_attr("scale") ? n.f("scale") : 1 / std::sqrt(static_cast<double>(qs[3]));
  ValueId scores = n.add(Op::kMatMul, product, {q, repeat_heads(n, k, ks[1], groups, qs[3])});
  scores = modified(n, "score_mod", n.cast(scores, compute), compute);
  ValueId probs = n.add(Op::kSoftmax, SoftmaxAttrs(), {scores});
  probs = modified(n, "prob_mod", probs, compute);
  const ValueId values = n.cast(repeat_heads(n, v, ks[1], groups, vs[3]), compute);
  n.bind(0, n.cast(n.add(Op::kMatMul, MatMulAttrs(), {probs, values}), dtype));
}

constexpr OpEntry kOps[] = {{"FlexAttention", 1, lower_flex_attention}};

}  // namespace

std::span<const OpEntry> preview_ops() { return kOps; }

}  // namespace smelt::onnx
