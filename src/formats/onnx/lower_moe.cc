// com.microsoft: mixtures of experts, with real and with packed integer weights.
#include <cmath>

#include "formats/onnx/microsoft.h"
#include "formats/onnx/ops.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"

namespace smelt::onnx {
namespace {

ValueId einsum(NodeContext& n, const char* equation, ValueId a, ValueId b) {
  EinsumAttrs e;
  e.equation = equation;
  return n.add(Op::kEinsum, e, {a, b});
}

/// One layer of all experts: weights [E, out, in] and bias [E, out], which may be kNoValue.
struct Layer {
  ValueId weights = kNoValue, bias = kNoValue;
};

ValueId plus(NodeContext& n, ValueId x, ValueId bias) { return bias == kNoValue ? x : n.binary(Binary::kAdd, x, bias); }

ValueId clamped(NodeContext& n, ValueId x, bool both, double limit) {
  x = n.binary(Binary::kMin, x, n.scalar_like(x, limit));
  return both ? n.binary(Binary::kMax, x, n.scalar_like(x, -limit)) : x;
}

/// act(g) of a hidden layer h [T, E, I]; `linear` is the third layer's result or kNoValue.
ValueId activated(NodeContext& n, ValueId h, ValueId linear) {
  const std::string act = n.s("activation_type", "relu");
  const double alpha = n.f("activation_alpha", 1), beta = n.f("activation_beta", 0);
  const bool limited = n.has_attr("swiglu_limit");
  const double limit = n.f("swiglu_limit", 0);
  const int64_t fusion = n.i("swiglu_fusion", 0);
  n.only("swiglu_limit_after_activation", 0);
  if (act == "swiglu") {
    ValueId gate = h;
    if (fusion != 0) {
      // Interleaved: [..., I, 2]. Else the gate's half comes first: [..., 2, I].
      const int64_t axis = fusion == 1 ? 3 : 2;
      const ValueId pairs =
          n.reshape(h, fusion == 1 ? std::vector<int64_t>{0, 0, -1, 2} : std::vector<int64_t>{0, 0, 2, -1});
      SplitAttrs split;
      split.axis = axis;
      split.count = 2;
      const auto parts = n.add_n(Op::kSplit, split, {pairs}, 2);
      gate = n.squeeze(parts[0], {axis});
      linear = n.squeeze(parts[1], {axis});
    }
    if (linear == kNoValue) {
      n.fail("swiglu needs a fused or a third layer");
      return kNoValue;
    }
    if (limited) {
      gate = clamped(n, gate, false, limit);
      linear = clamped(n, linear, true, limit);
    }
    const ValueId sigmoid = n.unary(Unary::kSigmoid, n.binary(Binary::kMul, gate, n.scalar_like(gate, alpha)));
    return n.binary(Binary::kMul, n.binary(Binary::kMul, gate, sigmoid),
                    n.binary(Binary::kAdd, linear, n.scalar_like(linear, beta)));
  }
  if (act == "relu")
    h = n.unary(Unary::kRelu, h);
  else if (act == "gelu")
    h = n.unary(Unary::kGeluTanh, h);
  else if (act == "silu")
    h = n.unary(Unary::kSilu, h, 1);
  else if (act != "identity")
    n.unsupported("activation '", act, "'");
  return linear == kNoValue ? h : n.binary(Binary::kMul, h, linear);
}

/// Weights of the experts for each token, [T, E]: zero outside the k best. `of_best`: probabilities among the best
/// alone instead of among all. `given` replaces the probabilities.
ValueId routing(NodeContext& n, ValueId router, bool of_best, ValueId given) {
  const auto softmax = make_attrs<SoftmaxAttrs>();
  const ValueId k = n.i64({n.i("k", 1)});
  const ValueId ranked = of_best ? router : n.add(Op::kSoftmax, softmax, {router});
  const auto best = n.add_n(Op::kTopK, TopKAttrs(), {ranked, k}, 2);
  ScatterAttrs along;
  along.axis = 1;
  ValueId top = best[0];
  if (given != kNoValue) {
    GatherAttrs by_column;
    by_column.axis = 1;
    top = n.add(Op::kGatherElements, by_column, {given, best[1]});
  } else if (of_best) {
    top = n.add(Op::kSoftmax, softmax, {top});
  }
  if (n.flag("normalize_routing_weights")) {
    ReduceAttrs r;
    r.keep_dims = true;
    top = n.binary(Binary::kDiv, top, n.add(Op::kReduce, r, {top, n.i64({-1})}));
  }
  const ValueId shape = n.dims_of(router);
  const ValueId zeros = n.fill(shape, n.scalar_like(router, 0));
  return n.add(Op::kScatterElements, along, {zeros, best[1], top});
}

/// Every expert runs on every token; the routing weights are zero outside the k best.
void experts(NodeContext& n, int64_t hidden, const Layer& fc1, const Layer& fc2, const Layer& fc3, ValueId weights) {
  const ValueId x = n.in(0);
  const ValueId rows = n.reshape(x, {-1, hidden});
  const ValueId linear =
      fc3.weights == kNoValue ? kNoValue : plus(n, einsum(n, "th,eih->tei", rows, fc3.weights), fc3.bias);
  const ValueId h = activated(n, plus(n, einsum(n, "th,eih->tei", rows, fc1.weights), fc1.bias), linear);
  const ValueId y = plus(n, einsum(n, "tei,ehi->teh", h, fc2.weights), fc2.bias);
  const ValueId mixed = einsum(n, "teh,te->th", y, weights);
  n.i("use_sparse_mixer", 0);
  n.bind(0, n.reshape_to(mixed, n.dims_of(x)));
}

void lower_moe(NodeContext& n) {
  const ValueType w1 = n.type(n.in(2));
  if (!w1.ranked || w1.shape.rank() != 3 || w1.shape[2] < 1) return n.unsupported("fc1's shape must be known at load");
  const Layer fc1{n.in(2), n.opt(3)}, fc2{n.in(4), n.opt(5)}, fc3{n.opt(6), n.opt(7)};
  experts(n, w1.shape[2], fc1, fc2, fc3, routing(n, n.in(1), false, kNoValue));
}

/// Packed weights [E, out, in * bits / 8] as real numbers [E, out, in].
ValueId unpacked_weights(NodeContext& n, int weights, int scales, int zeros, int64_t bits, int64_t block, DType dtype) {
  const ValueType wt = n.type(n.in(weights));
  if (!wt.ranked || wt.shape.rank() != 3 || wt.shape[1] < 1 || wt.shape[2] < 1) {
    n.unsupported("the weights' shape must be known at load");
    return kNoValue;
  }
  const int64_t rows = wt.shape[1], in = wt.shape[2] * 8 / bits, group = block > 0 ? block : in;
  if (in % group != 0) {
    n.fail("block_size ", group, " does not divide ", in);
    return kNoValue;
  }
  const int64_t groups = in / group;
  // [E, out, groups, group] against [E, out, groups, 1].
  const std::vector<int64_t> grouped{0, rows, groups, -1};
  ValueId w = n.reshape(n.cast(unpack_bits(n, n.in(weights), bits), dtype), grouped);
  if (n.has(zeros)) {
    const ValueId z = first_of_last(n, unpack_bits(n, n.in(zeros), bits), block > 0 ? groups : rows);
    w = n.binary(Binary::kSub, w, n.reshape(n.cast(z, dtype), {0, rows, groups, 1}));
  } else {
    w = n.binary(Binary::kSub, w, n.scalar(dtype, std::exp2(static_cast<double>(bits - 1))));
  }
  w = n.binary(Binary::kMul, w, n.reshape(n.cast(n.in(scales), dtype), {0, rows, groups, 1}));
  return n.reshape(w, {0, rows, in});
}

void lower_q_moe(NodeContext& n) {
  const std::string kind = n.s("quant_type", "int");
  if (kind != "int") return n.unsupported("quant_type '", kind, "'");
  if (n.i("weights_prepacked", -1) == 1) return n.unsupported("prepacked weights");
  n.i("accuracy_level", 0);
  const int64_t bits = n.i("expert_weight_bits", 4), block = n.i("block_size", 0);
  const DType dtype = n.dtype(n.in(0));
  const auto layer = [&](int first, int zeros, const char* own_bits) -> Layer {
    if (!n.has(first)) return {};
    const int64_t b = n.i(own_bits, bits);
    if (b != 2 && b != 4 && b != 8) {
      n.fail(own_bits, " is ", b);
      return {};
    }
    return {unpacked_weights(n, first, first + 1, zeros, b, block, dtype), n.opt(first + 2)};
  };
  const Layer fc1 = layer(2, 11, "fc1_expert_weight_bits"), fc2 = layer(5, 12, "fc2_expert_weight_bits"),
              fc3 = layer(8, 13, "fc3_expert_weight_bits");
  const ValueType wt = n.type(fc1.weights);
  if (!n.ok()) return;
  const int64_t hidden = wt.ranked && wt.shape.rank() == 3 ? wt.shape[2] : -1;
  experts(n, hidden, fc1, fc2, fc3, routing(n, n.in(1), true, n.opt(14)));
}

constexpr OpEntry kOps[] = {
    {"MoE", 1, lower_moe},
    {"QMoE", 1, lower_q_moe},
};

}  // namespace

std::span<const OpEntry> moe_ops() { return kOps; }

}  // namespace smelt::onnx
