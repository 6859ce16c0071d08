// com.microsoft: small fusions of exporters and optimizers, each expanded into the operators that it stands for.
#include "formats/onnx/microsoft.h"
#include "formats/onnx/ops.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/signal/signal.h"

namespace smelt::onnx {
namespace {

ValueId sum_over(NodeContext& n, ValueId x, int64_t axis, bool keep = false) {
  ReduceAttrs a;
  a.keep_dims = keep;
  return n.add(Op::kReduce, pack(a), {x, n.ints1d({axis})});
}

ValueId joined(NodeContext& n, const std::vector<ValueId>& parts, int64_t axis) {
  return n.add(Op::kConcat, make_attrs<AxisAttrs>(axis), parts);
}

/// x[..., begin:end:step, ...] along one axis.
ValueId sliced(NodeContext& n, ValueId x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1) {
  return n.add(Op::kSlice, make_attrs<NoAttrs>(),
               {x, n.ints1d({begin}), n.ints1d({end}), n.ints1d({axis}), n.ints1d({step})});
}

/// The two halves of the last axis.
std::vector<ValueId> halves(NodeContext& n, ValueId x) {
  SplitAttrs a;
  a.axis = -1;
  a.count = 2;
  return n.add_n(Op::kSplit, pack(a), {x}, 2);
}

ValueId like_shape_of(NodeContext& n, ValueId x, ValueId model) {
  return n.add(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, n.add(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {model})});
}

/// x / sqrt(mean(x^2) + epsilon) over the last axis, in float32.
ValueId rms(NodeContext& n, ValueId x, double epsilon) {
  LayerNormAttrs a;
  a.rms = true;
  a.epsilon = epsilon;
  const ValueId one = n.ok() ? n.scalar(DType::kF32, 1) : kNoValue;
  return n.add(Op::kLayerNorm, pack(a), {n.cast(x, DType::kF32), n.reshape(one, {1})});
}

void lower_skip_group_norm(NodeContext& n) {
  GroupNormAttrs a;
  a.groups = n.i("groups", 1);
  a.epsilon = n.f("epsilon", 1e-5f);
  const bool last = n.i("channels_last", 1) != 0;
  a.layout = last ? Layout::kChannelsLast : Layout::kChannelsFirst;
  const auto channels = [&](ValueId v) { return last ? v : n.unsqueeze(v, {-1, -2}); };
  ValueId skip = n.in(3);
  if (n.rank_or_fail(skip) == 2)
    skip = n.unsqueeze(skip, last ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 3});
  ValueId sum = binary(n, Binary::kAdd, n.in(0), skip);
  if (n.has(4)) sum = binary(n, Binary::kAdd, sum, channels(n.in(4)));
  ValueId y = n.add(Op::kGroupNorm, pack(a), {sum, n.in(1), n.in(2)});
  if (n.i("activation", 0) != 0) y = unary(n, Unary::kSilu, y, 1);
  n.bind(0, y);
  n.bind(1, sum);
}

void lower_bias_split_gelu(NodeContext& n) {
  const auto parts = halves(n, binary(n, Binary::kAdd, n.in(0), n.in(1)));
  n.bind(0, binary(n, Binary::kMul, parts[0], unary(n, Unary::kGelu, parts[1])));
}

void lower_torch_embedding(NodeContext& n) {
  n.ignore(2);
  n.ignore(3);
  n.emit(Op::kGather, make_attrs<GatherAttrs>(), {n.in(0), n.in(1)});
}

/// Inference only: nothing is dropped.
void lower_bias_dropout(NodeContext& n) {
  n.ignore(3);
  if (n.has(4)) {
    const auto training = n.const_ints(4);
    if (!training || (!training->empty() && (*training)[0] != 0)) return n.unsupported("training");
    n.ignore(4);
  }
  ValueId y = binary(n, Binary::kAdd, n.in(0), n.in(1));
  if (n.has(2)) y = binary(n, Binary::kAdd, y, n.in(2));
  n.bind(0, y);
  if (!n.wants(1)) return;
  const ValueId shape = n.add(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {n.in(0)});
  n.bind(1, n.add(Op::kFill, make_attrs<NoAttrs>(), {shape, n.scalar(DType::kBool, 1)}));
}

void lower_gated_add(NodeContext& n) {
  n.bind(0, binary(n, Binary::kAdd, n.in(0), binary(n, Binary::kMul, n.in(1), n.in(2))));
}

void lower_gated_rms_norm(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1);
  const DType dtype = n.dtype(x);
  const ValueType st = n.type(scale);
  if (!st.ranked || st.shape.rank() != 1 || st.shape[0] < 1) return n.unsupported("an unknown shape of scale");
  const int rank = n.rank_or_fail(x);
  if (rank < 1) return n.fail("x is a scalar");
  std::vector<int64_t> grouped(static_cast<size_t>(rank) - 1, 0);
  grouped.insert(grouped.end(), {-1, st.shape[0]});
  ValueId y = rms(n, n.reshape(x, grouped), n.f("epsilon", 1e-6f));
  y = like_shape_of(n, binary(n, Binary::kMul, y, n.cast(scale, DType::kF32)), x);
  const ValueId gate = n.cast(n.in(2), DType::kF32);
  const std::string act = n.s("activation", "silu");
  if (act != "silu" && act != "swish" && act != "sigmoid") return n.fail("activation is '", act, "'");
  y = binary(n, Binary::kMul, y, act == "sigmoid" ? unary(n, Unary::kSigmoid, gate) : unary(n, Unary::kSilu, gate, 1));
  n.bind(0, n.cast(y, dtype));
}

/// [..., C * H] -> [..., C, H] when num_branches says that the branches lie in one axis.
ValueId branches(NodeContext& n, ValueId x) {
  const int64_t count = n.i("num_branches", 0);
  if (count <= 0) return x;
  const int rank = n.rank_or_fail(x);
  if (rank < 1) return x;
  std::vector<int64_t> shape(static_cast<size_t>(rank) - 1, 0);
  shape.insert(shape.end(), {count, -1});
  return n.reshape(x, shape);
}

void lower_branchwise_rms_norm(NodeContext& n) {
  const ValueId x = n.in(0);
  const ValueId grouped = branches(n, x);
  ValueId y = rms(n, grouped, n.f("epsilon", 1e-6f));
  if (n.has(1)) {
    ValueId scale = n.cast(n.in(1), DType::kF32);
    // A scale of all branches in one axis; one of a single branch broadcasts as it is.
    const ValueType st = n.type(scale), xt = n.type(grouped);
    if (st.ranked && st.shape.rank() == 1 && xt.ranked && xt.shape.rank() > 1) {
      const int64_t width = xt.shape[xt.shape.rank() - 1];
      if (st.shape[0] < 0 || width < 0) return n.unsupported("unknown sizes of branches");
      if (st.shape[0] != width) scale = n.reshape(scale, {-1, width});
    }
    y = binary(n, Binary::kMul, y, scale);
  }
  n.bind(0, n.cast(like_shape_of(n, y, x), n.dtype(x)));
}

void lower_linear_attention_gate(NodeContext& n) {
  const ValueId a = n.in(0);
  const DType dtype = n.dtype(a);
  const ValueId step = unary(n, Unary::kSoftplus, binary(n, Binary::kAdd, n.cast(a, DType::kF32), n.in(1)));
  n.bind(0, n.cast(binary(n, Binary::kMul, n.in(2), step), dtype));
  if (n.has(3) && n.wants(1))
    n.bind(1, n.cast(unary(n, Unary::kSigmoid, n.cast(n.in(3), DType::kF32)), dtype));
  else
    n.ignore(3);
}

void lower_mul_integer(NodeContext& n) {
  const auto real = [&](int x, int zero) {
    const ValueId v = n.cast(n.in(x), DType::kI32);
    return n.has(zero) ? binary(n, Binary::kSub, v, n.cast(n.in(zero), DType::kI32)) : v;
  };
  const ValueId a = real(0, 1);
  n.bind(0, binary(n, Binary::kMul, a, real(2, 3)));
}

void lower_reduce_sum_integer(NodeContext& n) {
  ReduceAttrs a;
  a.keep_dims = n.i("keepdims", 1) != 0;
  n.bind(0, n.add(Op::kReduce, pack(a), {n.cast(n.in(0), DType::kI32), n.ints1d(n.ints("axes"))}));
}

/// Real and imaginary parts lie in the last axis.
void lower_complex_mul(NodeContext& n) {
  const bool conjugate = n.op() == "ComplexMulConj";
  const ValueId a = n.in(0), b = n.in(1);
  const auto part = [&](ValueId x, int64_t i) { return sliced(n, x, -1, i, i + 1); };
  const ValueId ar = part(a, 0), ai = part(a, 1), br = part(b, 0);
  ValueId bi = part(b, 1);
  if (conjugate) bi = unary(n, Unary::kNeg, bi);
  const ValueId real = binary(n, Binary::kSub, binary(n, Binary::kMul, ar, br), binary(n, Binary::kMul, ai, bi));
  const ValueId imaginary = binary(n, Binary::kAdd, binary(n, Binary::kMul, ar, bi), binary(n, Binary::kMul, ai, br));
  n.bind(0, joined(n, {real, imaginary}, -1));
}

void lower_rfft(NodeContext& n) {
  if (n.i("signal_ndim", 1) != 1) return n.unsupported("transforms of several dimensions");
  if (n.i("normalized", 0) != 0 || n.i("onesided", 1) != 1) return n.unsupported("normalized or two-sided transforms");
  const ValueId x = n.in(0);
  DftAttrs a;
  a.scale = 0;
  if (n.op() == "Rfft") {
    a.onesided = true;
    return n.emit(Op::kDft, pack(a), {n.unsqueeze(x, {-1})});
  }
  // The other half of the spectrum is the mirrored conjugate of what lies between the first and the last entry.
  Tensor flip(DType::kF32, Shape{2});
  flip.data<float>()[0] = 1;
  flip.data<float>()[1] = -1;
  const ValueId mirror =
      binary(n, Binary::kMul, sliced(n, x, -2, -2, 0, -1), n.cast(n.constant_value(std::move(flip)), n.dtype(x)));
  a.inverse = true;
  const ValueId full = n.add(Op::kDft, pack(a), {joined(n, {x, mirror}, -2)});
  n.bind(0, n.squeeze(sliced(n, full, -1, 0, 1), {-1}));
}

void lower_gemma_rotary(NodeContext& n) {
  const ValueId angle = n.in(0);
  const auto table = [&](Unary fn) { return n.unsqueeze(n.cast(unary(n, fn, angle), n.dtype(n.in(1))), {1}); };
  const ValueId sine = table(Unary::kSin), cosine = table(Unary::kCos);
  const auto turned = [&](int x, int rotated) {
    return binary(n, Binary::kAdd, binary(n, Binary::kMul, n.in(x), cosine),
                  binary(n, Binary::kMul, n.in(rotated), sine));
  };
  n.bind(0, turned(1, 2));
  n.bind(1, turned(3, 4));
}

void lower_hyper_pre_mix(NodeContext& n) {
  const ValueId x = branches(n, n.in(0));
  const int rank = n.rank_or_fail(x);
  ValueId mix = n.in(1);
  const ValueType mt = n.type(mix);
  if (!mt.ranked) return n.unsupported("an unknown rank of pre_mix");
  if (mt.shape.rank() == rank - 1) {
    // One entry a branch, or as many as the flattened streams have.
    const int64_t count = n.type(x).shape[rank - 2], last = mt.shape[mt.shape.rank() - 1];
    if (count < 0 || last < 0) return n.unsupported("unknown sizes of branches");
    mix = last == count ? n.unsqueeze(mix, {-1}) : branches(n, mix);
  }
  const DType dtype = n.dtype(x);
  const ValueId product = binary(n, Binary::kMul, n.cast(x, DType::kF32), n.cast(mix, DType::kF32));
  const ValueId y = binary(n, Binary::kMul, sum_over(n, product, -2), n.scalar(DType::kF32, n.f("reduction_scale", 1)));
  n.bind(0, n.cast(y, dtype));
}

void lower_hyper_post_mix(NodeContext& n) {
  const ValueId given = n.in(0);
  const DType dtype = n.dtype(given);
  ValueId streams = n.cast(branches(n, given), DType::kF32);
  ValueId post = n.cast(n.in(2), DType::kF32);
  const int rank = n.rank_or_fail(streams);
  if (n.rank_or_fail(post) == rank - 1) post = n.unsqueeze(post, {-1});
  if (n.has(3)) {
    std::vector<int64_t> perm(static_cast<size_t>(std::max(rank, 2)));
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    const ValueId mix = n.transpose(n.cast(n.in(3), DType::kF32), perm);
    streams = n.add(Op::kMatMul, make_attrs<MatMulAttrs>(), {mix, streams});
  }
  const ValueId block = n.unsqueeze(n.cast(n.in(1), DType::kF32), {-2});
  const ValueId y = binary(n, Binary::kAdd, streams, binary(n, Binary::kMul, post, block));
  n.bind(0, n.cast(like_shape_of(n, y, given), dtype));
}

constexpr OpEntry kOps[] = {
    {"SkipGroupNorm", 1, lower_skip_group_norm},
    {"BiasSplitGelu", 1, lower_bias_split_gelu},
    {"TorchEmbedding", 1, lower_torch_embedding},
    {"BiasDropout", 1, lower_bias_dropout},
    {"GatedAdd", 1, lower_gated_add},
    {"GatedRMSNorm", 1, lower_gated_rms_norm},
    {"BranchwiseRMSNorm", 1, lower_branchwise_rms_norm},
    {"LinearAttentionGate", 1, lower_linear_attention_gate},
    {"MulInteger", 1, lower_mul_integer},
    {"ReduceSumInteger", 1, lower_reduce_sum_integer},
    {"ComplexMul", 1, lower_complex_mul},
    {"ComplexMulConj", 1, lower_complex_mul},
    {"Rfft", 1, lower_rfft},
    {"Irfft", 1, lower_rfft},
    {"GemmaRotaryEmbedding", 1, lower_gemma_rotary},
    {"HyperConnectionPreMix", 1, lower_hyper_pre_mix},
    {"HyperConnectionPostMix", 1, lower_hyper_post_mix},
};

}  // namespace

std::span<const OpEntry> microsoft_fused_ops() { return kOps; }

}  // namespace smelt::onnx
