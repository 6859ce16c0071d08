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
  return n.add(Op::kReduce, a, {x, n.i64({axis})});
}

ValueId like_shape_of(NodeContext& n, ValueId x, ValueId model) { return n.reshape_to(x, n.dims_of(model)); }

/// x / sqrt(mean(x^2) + epsilon) over the last axis, in float32.
ValueId rms(NodeContext& n, ValueId x, double epsilon) {
  LayerNormAttrs a;
  a.rms = true;
  a.epsilon = epsilon;
  const ValueId one = n.ok() ? n.scalar(DType::kF32, 1) : kNoValue;
  return n.add(Op::kLayerNorm, a, {n.cast(x, DType::kF32), n.reshape(one, {1})});
}

void lower_skip_group_norm(NodeContext& n) {
  GroupNormAttrs a;
  a.groups = n.i("groups", 1);
  a.epsilon = n.f("epsilon", 1e-5f);
  const bool last = n.flag("channels_last", true);
  a.layout = last ? Layout::kChannelsLast : Layout::kChannelsFirst;
  const auto channels = [&](ValueId v) { return last ? v : n.unsqueeze(v, {-1, -2}); };
  ValueId skip = n.in(3);
  if (n.rank_or_fail(skip) == 2)
    skip = n.unsqueeze(skip, last ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 3});
  ValueId sum = n.binary(Binary::kAdd, n.in(0), skip);
  if (n.has(4)) sum = n.binary(Binary::kAdd, sum, channels(n.in(4)));
  ValueId y = n.add(Op::kGroupNorm, a, {sum, n.in(1), n.in(2)});
  if (n.flag("activation")) y = n.unary(Unary::kSilu, y, 1);
  n.bind(0, y);
  n.bind(1, sum);
}

void lower_bias_split_gelu(NodeContext& n) {
  const auto parts = n.split(n.binary(Binary::kAdd, n.in(0), n.in(1)), -1, 2);
  n.bind(0, n.binary(Binary::kMul, parts[0], n.unary(Unary::kGelu, parts[1])));
}

void lower_torch_embedding(NodeContext& n) {
  n.ignore(2);
  n.ignore(3);
  n.emit(Op::kGather, GatherAttrs(), {n.in(0), n.in(1)});
}

/// Inference only: nothing is dropped.
void lower_bias_dropout(NodeContext& n) {
  n.ignore(3);
  if (n.has(4)) {
    const auto training = n.const_ints(4);
    if (!training || (!training->empty() && (*training)[0] != 0)) return n.unsupported("training");
    n.ignore(4);
  }
  ValueId y = n.binary(Binary::kAdd, n.in(0), n.in(1));
  if (n.has(2)) y = n.binary(Binary::kAdd, y, n.in(2));
  n.bind(0, y);
  if (!n.wants(1)) return;
  const ValueId shape = n.dims_of(n.in(0));
  n.bind(1, n.fill(shape, n.scalar(DType::kBool, 1)));
}

void lower_gated_add(NodeContext& n) {
  n.bind(0, n.binary(Binary::kAdd, n.in(0), n.binary(Binary::kMul, n.in(1), n.in(2))));
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
  ValueId y = rms(n, n.reshape(x, grouped), n.f("epsilon", 1e-5f));
  y = like_shape_of(n, n.binary(Binary::kMul, y, n.cast(scale, DType::kF32)), x);
  const ValueId gate = n.cast(n.in(2), DType::kF32);
  const std::string act = n.s("activation", "silu");
  if (act != "silu" && act != "swish" && act != "sigmoid") return n.fail("activation is '", act, "'");
  y = n.binary(Binary::kMul, y, act == "sigmoid" ? n.unary(Unary::kSigmoid, gate) : n.unary(Unary::kSilu, gate, 1));
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
  ValueId y = rms(n, grouped, n.f("epsilon", 1e-5f));
  if (n.has(1)) {
    ValueId scale = n.cast(n.in(1), DType::kF32);
    // A scale of all branches in one axis; one of a single branch broadcasts as it is.
    const ValueType st = n.type(scale), xt = n.type(grouped);
    if (st.ranked && st.shape.rank() == 1 && xt.ranked && xt.shape.rank() > 1) {
      const int64_t width = xt.shape[xt.shape.rank() - 1];
      if (st.shape[0] < 0 || width < 0) return n.unsupported("unknown sizes of branches");
      if (st.shape[0] != width) scale = n.reshape(scale, {-1, width});
    }
    y = n.binary(Binary::kMul, y, scale);
  }
  n.bind(0, n.cast(like_shape_of(n, y, x), n.dtype(x)));
}

void lower_linear_attention_gate(NodeContext& n) {
  const ValueId a = n.in(0);
  const DType dtype = n.dtype(a);
  const ValueId step = n.unary(Unary::kSoftplus, n.binary(Binary::kAdd, n.cast(a, DType::kF32), n.in(1)));
  n.bind(0, n.cast(n.binary(Binary::kMul, n.in(2), step), dtype));
  if (n.has(3) && n.wants(1))
    n.bind(1, n.cast(n.unary(Unary::kSigmoid, n.cast(n.in(3), DType::kF32)), dtype));
  else
    n.ignore(3);
}

void lower_mul_integer(NodeContext& n) {
  const auto real = [&](int x, int zero) {
    const ValueId v = n.cast(n.in(x), DType::kI32);
    return n.has(zero) ? n.binary(Binary::kSub, v, n.cast(n.in(zero), DType::kI32)) : v;
  };
  const ValueId a = real(0, 1);
  n.bind(0, n.binary(Binary::kMul, a, real(2, 3)));
}

void lower_reduce_sum_integer(NodeContext& n) {
  ReduceAttrs a;
  a.keep_dims = n.flag("keepdims", true);
  n.bind(0, n.add(Op::kReduce, a, {n.cast(n.in(0), DType::kI32), n.i64(n.ints("axes"))}));
}

/// Real and imaginary parts lie in the last axis.
void lower_complex_mul(NodeContext& n) {
  const bool conjugate = n.op() == "ComplexMulConj";
  const ValueId a = n.in(0), b = n.in(1);
  const auto part = [&](ValueId x, int64_t i) { return n.slice(x, -1, i, i + 1); };
  const ValueId ar = part(a, 0), ai = part(a, 1), br = part(b, 0);
  ValueId bi = part(b, 1);
  if (conjugate) bi = n.unary(Unary::kNeg, bi);
  const ValueId real = n.binary(Binary::kSub, n.binary(Binary::kMul, ar, br), n.binary(Binary::kMul, ai, bi));
  const ValueId imaginary = n.binary(Binary::kAdd, n.binary(Binary::kMul, ar, bi), n.binary(Binary::kMul, ai, br));
  n.bind(0, n.concat({real, imaginary}, -1));
}

void lower_rfft(NodeContext& n) {
  if (n.i("signal_ndim", 1) != 1) return n.unsupported("transforms of several dimensions");
  if (n.flag("normalized") || n.i("onesided", 1) != 1) return n.unsupported("normalized or two-sided transforms");
  const ValueId x = n.in(0);
  DftAttrs a;
  a.scale = 0;
  if (n.op() == "Rfft") {
    a.onesided = true;
    return n.emit(Op::kDft, a, {n.unsqueeze(x, {-1})});
  }
  // The other half of the spectrum is the mirrored conjugate of what lies between the first and the last entry.
  Tensor flip(DType::kF32, Shape{2});
  flip.data<float>()[0] = 1;
  flip.data<float>()[1] = -1;
  const ValueId mirror =
      n.binary(Binary::kMul, n.slice(x, -2, -2, 0, -1), n.cast(n.constant(std::move(flip)), n.dtype(x)));
  a.inverse = true;
  const ValueId full = n.add(Op::kDft, a, {n.concat({x, mirror}, -2)});
  n.bind(0, n.squeeze(n.slice(full, -1, 0, 1), {-1}));
}

void lower_gemma_rotary(NodeContext& n) {
  const ValueId angle = n.in(0);
  const auto table = [&](Unary fn) { return n.unsqueeze(n.cast(n.unary(fn, angle), n.dtype(n.in(1))), {1}); };
  const ValueId sine = table(Unary::kSin), cosine = table(Unary::kCos);
  const auto turned = [&](int x, int rotated) {
    return n.binary(Binary::kAdd, n.binary(Binary::kMul, n.in(x), cosine), n.binary(Binary::kMul, n.in(rotated), sine));
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
  const ValueId product = n.binary(Binary::kMul, n.cast(x, DType::kF32), n.cast(mix, DType::kF32));
  const ValueId y = n.binary(Binary::kMul, sum_over(n, product, -2), n.scalar(DType::kF32, n.f("reduction_scale", 1)));
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
    streams = n.add(Op::kMatMul, MatMulAttrs(), {mix, streams});
  }
  const ValueId block = n.unsqueeze(n.cast(n.in(1), DType::kF32), {-2});
  const ValueId y = n.binary(Binary::kAdd, streams, n.binary(Binary::kMul, post, block));
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
