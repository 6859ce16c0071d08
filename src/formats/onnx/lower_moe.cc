// com.microsoft: mixtures of experts, with real and with packed integer weights.
#include <cmath>
#include <vector>

#include "base/checked.h"
#include "formats/onnx/microsoft.h"
#include "formats/onnx/ops.h"
#include "ops/gather/gather.h"
#include "ops/matmul/experts.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"

namespace smelt::onnx {
namespace {

/// One layer of all experts: a matrix [out, in] of each, and the biases [E, out], which may be kNoValue.
struct Layer {
  std::vector<ValueId> matrices;
  ValueId bias = kNoValue;
};

/// Products of rows [T, in] or [T, K, in] with the matrices of experts ids [T, K], and their biases.
ValueId of_experts(NodeContext& n, const Layer& layer, ValueId rows, ValueId ids) {
  std::vector<ValueId> in{rows, ids};
  in.insert(in.end(), layer.matrices.begin(), layer.matrices.end());
  const ValueId product = n.add(Op::kExpertMatMul, ExpertMatMulAttrs(), in);
  return layer.bias == kNoValue ? product
                                : n.binary(Binary::kAdd, product, n.add(Op::kGather, GatherAttrs(), {layer.bias, ids}));
}

/// A matrix of each expert, of weights [E, out, in].
std::vector<ValueId> unstacked(NodeContext& n, ValueId weights, int64_t experts) {
  return n.add_n(Op::kUnstack, AxisAttrs(0), {weights}, static_cast<int>(experts));
}

ValueId clamped(NodeContext& n, ValueId x, bool both, double limit) {
  x = n.binary(Binary::kMin, x, n.scalar_like(x, limit));
  return both ? n.binary(Binary::kMax, x, n.scalar_like(x, -limit)) : x;
}

/// act(h) of a hidden layer h [T, K, I]; `linear` is the third layer's result or kNoValue.
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

/// The k best experts of each token, [T, k], and their weights.
struct Routing {
  ValueId ids = kNoValue, weights = kNoValue;
};

/// of_best: probabilities among the best alone instead of among all. `given` replaces the probabilities.
Routing routing(NodeContext& n, ValueId router, bool of_best, ValueId given) {
  const auto softmax = make_attrs<SoftmaxAttrs>();
  const ValueId k = n.i64({n.i("k", 1)});
  const ValueId ranked = of_best ? router : n.add(Op::kSoftmax, softmax, {router});
  const auto best = n.add_n(Op::kTopK, TopKAttrs(), {ranked, k}, 2);
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
  return {best[1], top};
}

void experts(NodeContext& n, int64_t hidden, const Layer& fc1, const Layer& fc2, const Layer& fc3,
             const Routing& best) {
  const ValueId x = n.in(0);
  const ValueId rows = n.reshape(x, {-1, hidden});
  const ValueId linear = fc3.matrices.empty() ? kNoValue : of_experts(n, fc3, rows, best.ids);
  const ValueId h = activated(n, of_experts(n, fc1, rows, best.ids), linear);
  const ValueId y = of_experts(n, fc2, h, best.ids);
  const ValueId mixed = n.add(Op::kMatMul, MatMulAttrs(), {n.unsqueeze(best.weights, {1}), y});
  n.i("use_sparse_mixer", 0);
  n.bind(0, n.reshape_to(mixed, n.dims_of(x)));
}

void lower_moe(NodeContext& n) {
  const auto layer = [&](int weights) -> Layer {
    if (!n.has(weights)) return {};
    const ValueType w = n.type(n.in(weights));
    if (!w.ranked || w.shape.rank() != 3 || w.shape[0] < 1 || w.shape[2] < 1) {
      n.unsupported("the weights' shape must be known at load");
      return {};
    }
    Layer all{{}, n.opt(weights + 1)};
    const Tensor* const constant = n.const_tensor(weights);
    for (int64_t e = 0; constant && e < w.shape[0]; ++e) all.matrices.push_back(n.constant(matrix_of(*constant, e)));
    if (!constant) all.matrices = unstacked(n, n.in(weights), w.shape[0]);
    return all;
  };
  const Layer fc1 = layer(2), fc2 = layer(4), fc3 = layer(6);
  if (!n.ok()) return;
  experts(n, n.type(n.in(2)).shape[2], fc1, fc2, fc3, routing(n, n.in(1), false, kNoValue));
}

/// Packed weights of a layer: [E, out, in * bits / 8], with a scale and zero point of each row or block.
struct PackedLayer {
  int weights, scales, zeros;  // inputs
  int64_t bits, experts, out, in, group, groups;
  bool blocked;
};

/// The matrices as real numbers, where what they are made of is computed.
std::vector<ValueId> dynamic_matrices(NodeContext& n, const PackedLayer& l, DType dtype) {
  // [E, out, groups, group] against [E, out, groups, 1].
  const std::vector<int64_t> grouped{0, l.out, l.groups, -1};
  ValueId w = n.reshape(n.cast(unpack_bits(n, n.in(l.weights), l.bits), dtype), grouped);
  if (n.has(l.zeros)) {
    const ValueId z = first_of_last(n, unpack_bits(n, n.in(l.zeros), l.bits), l.blocked ? l.groups : l.out);
    w = n.binary(Binary::kSub, w, n.reshape(n.cast(z, dtype), {0, l.out, l.groups, 1}));
  } else {
    w = n.binary(Binary::kSub, w, n.scalar(dtype, std::exp2(static_cast<double>(l.bits - 1))));
  }
  w = n.binary(Binary::kMul, w, n.reshape(n.cast(n.in(l.scales), dtype), {0, l.out, l.groups, 1}));
  return unstacked(n, n.reshape(w, {0, l.out, l.in}), l.experts);
}

/// The matrices as quantized constants; empty where something is computed.
std::vector<ValueId> constant_matrices(NodeContext& n, const PackedLayer& l) {
  const Tensor *const w = n.const_tensor(l.weights), *const zeros = n.has(l.zeros) ? n.const_tensor(l.zeros) : nullptr;
  const auto scales = n.const_floats(l.scales);
  if (!w || !scales || (n.has(l.zeros) && !zeros)) return {};
  const int64_t count = l.out * l.groups;
  const int64_t row_of_zeros = ceil_div((l.blocked ? l.groups : l.out) * l.bits, 8);
  const int64_t rows_of_zeros = l.blocked ? l.out : 1;
  if (static_cast<int64_t>(scales->size()) != l.experts * count || w->dtype() != DType::kU8 ||
      (zeros && (zeros->dtype() != DType::kU8 || zeros->elements() != l.experts * rows_of_zeros * row_of_zeros))) {
    n.fail("weights, scales or zero points do not fit: ", l.experts * count, " scales expected");
    return {};
  }
  std::vector<ValueId> matrices;
  for (int64_t e = 0; e < l.experts; ++e) {
    std::vector<double> z(static_cast<size_t>(count), std::exp2(static_cast<double>(l.bits - 1)));
    for (int64_t i = 0; zeros && i < count; ++i) {
      const int64_t row = e * rows_of_zeros + (l.blocked ? i / l.groups : 0);
      z[static_cast<size_t>(i)] = static_cast<double>(
          packed_code(zeros->data<uint8_t>() + row * row_of_zeros, l.blocked ? i % l.groups : i, l.bits));
    }
    const auto first = scales->begin() + e * count;
    matrices.push_back(typed_weights(n, {l.out, l.in, l.bits, l.group, l.groups}, matrix_of(*w, e),
                                     std::vector<float>(first, first + count), z));
  }
  return matrices;
}

void lower_q_moe(NodeContext& n) {
  const std::string kind = n.s("quant_type", "int");
  if (kind != "int") return n.unsupported("quant_type '", kind, "'");
  if (n.i("weights_prepacked", -1) == 1) return n.unsupported("prepacked weights");
  n.i("accuracy_level", 0);
  const int64_t bits = n.i("expert_weight_bits", 4), block = n.i("block_size", 0);
  const DType dtype = n.dtype(n.in(0));
  int64_t hidden = -1;
  const auto layer = [&](int first, int zeros, const char* own_bits) -> Layer {
    if (!n.has(first)) return {};
    const int64_t b = n.i(own_bits, bits);
    if (b != 2 && b != 4 && b != 8) {
      n.fail(own_bits, " is ", b);
      return {};
    }
    const ValueType w = n.type(n.in(first));
    if (!w.ranked || w.shape.rank() != 3 || w.shape[0] < 1 || w.shape[1] < 1 || w.shape[2] < 1) {
      n.unsupported("the weights' shape must be known at load");
      return {};
    }
    const int64_t in = w.shape[2] * 8 / b, group = block > 0 ? block : in;
    if (in % group != 0) {
      n.fail("block_size ", group, " does not divide ", in);
      return {};
    }
    if (first == 2) hidden = in;
    const PackedLayer packed{first, first + 1, zeros, b, w.shape[0], w.shape[1], in, group, in / group, block > 0};
    Layer all{constant_matrices(n, packed), n.opt(first + 2)};
    if (all.matrices.empty() && n.ok()) all.matrices = dynamic_matrices(n, packed, dtype);
    return all;
  };
  const Layer fc1 = layer(2, 11, "fc1_expert_weight_bits"), fc2 = layer(5, 12, "fc2_expert_weight_bits"),
              fc3 = layer(8, 13, "fc3_expert_weight_bits");
  if (!n.ok()) return;
  experts(n, hidden, fc1, fc2, fc3, routing(n, n.in(1), true, n.opt(14)));
}

constexpr OpEntry kOps[] = {
    {"MoE", 1, lower_moe},
    {"QMoE", 1, lower_q_moe},
};

}  // namespace

std::span<const OpEntry> moe_ops() { return kOps; }

}  // namespace smelt::onnx
