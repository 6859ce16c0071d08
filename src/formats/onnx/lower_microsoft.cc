// com.microsoft: fused and helper operators that exporters and optimizers write.
#include "formats/onnx/attr_readers.h"
#include "formats/onnx/microsoft.h"
#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/ml/ml.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"
#include "ops/strings/strings.h"

namespace smelt::onnx {

namespace {

ValueId add_optional(NodeContext& n, ValueId x, int index) {
  return n.has(index) ? n.binary(Binary::kAdd, x, n.in(index)) : x;
}

void lower_bias_gelu(NodeContext& n) {
  const Unary fn = n.op() == "FastGelu" || n.op() == "GemmFastGelu" ? Unary::kGeluTanh : Unary::kGelu;
  n.bind(0, n.unary(fn, add_optional(n, n.in(0), 1)));
}
void lower_gemm_fast_gelu(NodeContext& n) {
  const ValueId y = n.add(Op::kMatMul, MatMulAttrs(), {n.in(0), n.in(1)});
  n.bind(0, n.unary(Unary::kGeluTanh, add_optional(n, y, 2)));
}
void lower_quick_gelu(NodeContext& n) { n.bind(0, n.unary(Unary::kQuickGelu, n.in(0), n.f("alpha", 1.702f))); }
/// silu(x * scale), with x * scale in x's type.
void lower_scaled_silu(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.has(1) ? n.cast(n.in(1), n.dtype(x)) : n.scalar_like(x, n.f("alpha", 1));
  n.bind(0, n.unary(Unary::kSilu, n.binary(Binary::kMul, x, scale), 1));
}
void lower_bias_add(NodeContext& n) {
  n.bind(0, n.binary(Binary::kAdd, n.binary(Binary::kAdd, n.in(0), n.in(1)), n.in(2)));
}
void lower_bias_softmax(NodeContext& n) {
  SoftmaxAttrs a;
  a.axis = n.i("axis", 1);
  a.flatten = true;
  n.bind(0, n.add(Op::kSoftmax, a, {n.binary(Binary::kAdd, n.in(0), n.in(1))}));
}

/// The activation attributes of fused operators, as a node behind x.
ValueId activate(NodeContext& n, ValueId x, const std::string& name, const std::vector<double>& p) {
  const auto at = [&](size_t i, double def) { return i < p.size() ? p[i] : def; };
  if (name.empty()) return x;
  if (name == "Relu") return n.unary(Unary::kRelu, x);
  if (name == "Tanh") return n.unary(Unary::kTanh, x);
  if (name == "Sigmoid") return n.unary(Unary::kSigmoid, x);
  if (name == "LeakyRelu") return n.unary(Unary::kLeakyRelu, x, at(0, 0.01));
  if (name == "HardSigmoid") return n.unary(Unary::kHardSigmoid, x, at(0, 0.2), at(1, 0.5));
  if (name == "HardSwish") return n.unary(Unary::kHardSwish, x);
  if (name == "Elu") return n.unary(Unary::kElu, x, at(0, 1), 1, 1);
  if (name == "Selu")
    return n.unary(Unary::kSelu, x, at(0, 1.67326319217681884765625), at(1, 1.05070102214813232421875));
  if (name == "Softplus") return n.unary(Unary::kSoftplus, x, 1);
  if (name == "Softsign") return n.unary(Unary::kSoftsign, x);
  if (name == "ThresholdedRelu") return n.unary(Unary::kThresholdedRelu, x, at(0, 1));
  if (name == "Clip") return n.unary(Unary::kClamp, x, at(0, -3.4028234663852886e38), at(1, 3.4028234663852886e38));
  n.unsupported("activation '", name, "'");
  return x;
}

void lower_fused_conv(NodeContext& n) {
  const ValueId x = n.in(0), w = n.in(1);
  ConvAttrs a;
  read_conv(n, x, w, a);
  if (n.op() != "FusedConv") a.layout = Layout::kChannelsLast;
  std::vector<ValueId> in{x, w};
  if (n.has(2)) in.push_back(n.in(2));
  ValueId y = n.add(Op::kConv, a, in);
  y = add_optional(n, y, 3);
  n.bind(0, activate(n, y, n.s("activation"), n.doubles("activation_params")));
}

void lower_fused_gemm(NodeContext& n) {
  MatMulAttrs a;
  a.alpha = n.f("alpha", 1);
  a.beta = n.f("beta", 1);
  a.transpose_a = n.flag("transA");
  a.transpose_b = n.flag("transB");
  std::vector<ValueId> in = n.operands(2, 3);
  std::vector<double> p;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (n.has_attr(name)) p.push_back(n.f(name));
  n.bind(0, activate(n, n.add(Op::kMatMul, a, in), n.s("activation"), p));
}

void lower_fused_matmul(NodeContext& n) {
  MatMulAttrs a;
  a.alpha = n.f("alpha", 1);
  a.transpose_a = n.flag("transA");
  a.transpose_b = n.flag("transB");
  a.trans_batch_a = n.flag("transBatchA");
  a.trans_batch_b = n.flag("transBatchB");
  n.bind(0, activate(n, n.add(Op::kMatMul, a, {n.in(0), n.in(1)}), n.s("activation"), {}));
}

void lower_skip_layer_norm(NodeContext& n) {
  const bool simplified = n.op() == "SkipSimplifiedLayerNormalization";
  LayerNormAttrs a;
  a.axis = -1;
  a.rms = simplified;
  a.epsilon = n.f("epsilon", 1e-12f);
  const int bias = simplified ? 3 : 4;
  ValueId sum = n.binary(Binary::kAdd, n.in(0), n.in(1));
  sum = add_optional(n, sum, bias);
  std::vector<ValueId> in{sum, n.in(2)};
  if (!simplified && n.has(3)) in.push_back(n.in(3));
  const bool statistics = n.wants(1) || n.wants(2);
  const auto out = n.add_n(Op::kLayerNorm, a, in, statistics ? 3 : 1);
  n.bind(0, out[0]);
  if (statistics) {
    n.bind(1, out[1]);
    n.bind(2, out[2]);
  }
  n.bind(3, sum);
}

/// Embeddings summed and normalized; the tables and the affine parameters are already real.
void embed_layer_norm(NodeContext& n, ValueId word, ValueId position, ValueId segment, ValueId gamma, ValueId beta) {
  const ValueId ids = n.in(0);
  const auto gather = make_attrs<GatherAttrs>();
  ValueId sum = n.add(Op::kGather, gather, {word, ids});
  ValueId positions;
  if (n.proto().op_type == "EmbedLayerNormalization" && n.has(8)) {
    positions = n.in(8);
  } else {
    const ValueId s = n.squeeze(n.dims_of(ids, 1, 2), {0});
    positions = n.range(n.scalar(DType::kI64, 0), s, n.scalar(DType::kI64, 1));
  }
  sum = n.binary(Binary::kAdd, sum, n.add(Op::kGather, gather, {position, positions}));
  if (n.has(1)) sum = n.binary(Binary::kAdd, sum, n.add(Op::kGather, gather, {segment, n.in(1)}));
  LayerNormAttrs a;
  a.epsilon = n.f("epsilon", 1e-12f);
  n.bind(0, n.add(Op::kLayerNorm, a, {sum, gamma, beta}));
  const ValueId mask = n.opt(7);
  if (n.wants(1)) {
    if (mask != kNoValue) {
      n.bind(1, n.add(Op::kReduce, ReduceAttrs(), {mask, n.i64({1})}));
    } else {
      ShapeOfAttrs batch;
      batch.end = 1;
      const ValueId shape = n.add(Op::kShapeOf, batch, {ids});
      n.bind(1, n.fill(shape, n.scalar(DType::kI32, 0)));
    }
  }
  n.bind(2, sum);
}

void lower_embed_layer_norm(NodeContext& n) { embed_layer_norm(n, n.in(2), n.in(3), n.opt(4), n.in(5), n.in(6)); }

void lower_q_embed_layer_norm(NodeContext& n) {
  const auto real = [&](int i, int k) { return n.has(i) ? dequantized(n, {i, 8 + k, 13 + k}) : kNoValue; };
  embed_layer_norm(n, real(2, 0), real(3, 1), real(4, 2), real(5, 3), real(6, 4));
}

void lower_cdist(NodeContext& n) {
  EinsumAttrs a;
  a.equation = n.s("metric", "sqeuclidean");
  n.emit(Op::kPairwiseDistance, a, {n.in(0), n.in(1)});
}

void lower_crop_and_resize(NodeContext& n) {
  RoiAttrs a;
  a.crop_and_resize = true;
  const std::string mode = n.s("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest") return n.fail("mode is '", mode, "'");
  a.nearest = mode == "nearest";
  a.extrapolation = n.f("extrapolation_value", 0);
  n.emit(Op::kRoiPool, a, {n.in(0), n.in(1), n.in(2), n.in(3)});
}

void lower_conv_transpose_dynamic_pads(NodeContext& n) {
  const ValueId x = n.in(0), w = n.in(1);
  ConvTransposeAttrs a;
  read_conv(n, x, w, a);
  a.filter = FilterLayout::kIOS;
  const size_t s = a.strides.size();
  a.output_padding = spatial_list(n, "output_padding", s, 0);
  std::vector<ValueId> in{x, w};
  if (n.has(3)) in.push_back(n.in(3));
  if (const auto pads = n.has(2) ? n.const_ints(2) : std::vector<int64_t>(2 * s, 0)) {
    a.pads = *pads;
    if (a.pads.size() != 2 * s) return n.fail("pads have ", a.pads.size(), " entries, ", 2 * s, " expected");
    return n.emit(Op::kConvTranspose, a, in);
  }
  // Padding of a transposed convolution crops its result; run-time pads crop after it.
  a.pads.assign(2 * s, 0);
  const ValueId full = n.add(Op::kConvTranspose, a, in);
  const ValueId crop = n.unary(Unary::kNeg, n.in(2));
  std::vector<int64_t> axes;
  for (size_t k = 0; k < s; ++k) axes.push_back(static_cast<int64_t>(k) + 2);
  n.emit(Op::kPad, PadAttrs(), {full, crop, kNoValue, n.i64(axes)});
}

void lower_expand_dims(NodeContext& n) { n.bind(0, n.add(Op::kUnsqueeze, {n.in(0), n.in(1)})); }
void lower_inverse(NodeContext& n) { n.emit(Op::kInverse, {n.in(0)}); }
void lower_sample_op(NodeContext& n) { n.bind(0, n.in(0)); }

void lower_max_pool_with_mask(NodeContext& n) {
  PoolAttrs a;
  a.kernel = n.ints("kernel_shape");
  const size_t s = a.kernel.size();
  a.strides = spatial_list(n, "strides", s, 1);
  a.dilations = spatial_list(n, "dilations", s, 1);
  a.pads = spatial_list(n, "pads", 2 * s, 0);
  a.auto_pad = auto_pad(n);
  n.i("storage_order", 0);
  n.emit(Op::kMaxPoolWithMask, a, {n.in(0), n.in(1)});
}

void lower_murmur(NodeContext& n) {
  HashAttrs a;
  a.kind = HashAttrs::Kind::kMurmur3;
  a.positive = n.flag("positive", true);
  a.seed = n.i("seed", 0);
  n.emit(Op::kHash, a, {n.in(0)});
}

void lower_ngram_repeat(NodeContext& n) {
  NgramAttrs a;
  a.size = n.i("ngram_size", 0);
  if (a.size < 1) return n.fail("ngram_size is ", a.size);
  n.emit(Op::kBanRepeatedNgrams, a, {n.in(0), n.in(1)});
}
void lower_time_warping(NodeContext& n) { n.emit(Op::kTimeWarp, {n.in(0)}); }

void lower_tokenizer(NodeContext& n) {
  TokenizeAttrs a;
  a.mark = n.flag("mark");
  a.min_chars = n.i("mincharnum", 1);
  a.pad = n.s("pad_value");
  a.token_expression = n.s("tokenexp");
  a.separators = n.strings("separators");
  n.emit(Op::kTokenize, a, {n.in(0)});
}

void lower_unfold(NodeContext& n) {
  UnfoldAttrs a;
  a.axis = n.i("dim", -1);
  a.size = n.i("size", 1);
  a.step = n.i("step", 1);
  n.emit(Op::kUnfold, a, {n.in(0)});
}

void lower_word_conv_embedding(NodeContext& n) {
  // Characters' embeddings, convolved along the word, tanh, maximum over the positions within the word.
  const ValueId ids = n.in(0), w = n.in(1);
  const ValueType wt = n.type(w);
  if (!wt.ranked || wt.shape.rank() != 4 || wt.shape[2] < 1)
    return n.unsupported("the filter's shape must be known at load");
  const int64_t window = wt.shape[2];
  const ValueId letters = n.add(Op::kGather, GatherAttrs(), {n.in(3), ids});
  ConvAttrs a;
  a.strides = a.dilations = {1, 1};
  a.pads = {0, 0, 0, 0};
  ValueId y = n.add(Op::kConv, a, {n.unsqueeze(letters, {1}), w, n.in(2)});
  y = n.squeeze(n.unary(Unary::kTanh, y), {3});
  const ValueId used = n.cast(n.binary(Binary::kGreater, ids, n.scalar_like(ids, 0)), DType::kI64);
  ReduceAttrs keep;
  keep.keep_dims = true;
  const ValueId length = n.add(Op::kReduce, keep, {used, n.i64({1})});
  ShapeOfAttrs last;
  last.start = 2;
  const ValueId count = n.squeeze(n.add(Op::kShapeOf, last, {y}), {0});
  const ValueId index = n.range(n.scalar(DType::kI64, 0), count, n.scalar(DType::kI64, 1));
  const ValueId reach = n.binary(Binary::kMax, n.binary(Binary::kSub, length, n.scalar(DType::kI64, window - 1.0)),
                                 n.scalar(DType::kI64, 1));
  const ValueId inside = n.unsqueeze(n.binary(Binary::kLess, index, reach), {1});
  y = n.where(inside, y, n.scalar_like(y, -2));
  ReduceAttrs most;
  most.fn = Reduction::kMax;
  n.bind(0, n.add(Op::kReduce, most, {y, n.i64({2})}));
}

void lower_microsoft_group_norm(NodeContext& n) {
  GroupNormAttrs a;
  a.groups = n.i("groups", 1);
  a.epsilon = n.f("epsilon", 1e-5f);
  a.layout = n.flag("channels_last", true) ? Layout::kChannelsLast : Layout::kChannelsFirst;
  ValueId y = n.add(Op::kGroupNorm, a, {n.in(0), n.in(1), n.in(2)});
  if (n.flag("activation")) y = n.unary(Unary::kSilu, y, 1);
  n.bind(0, y);
}

constexpr OpEntry kOps[] = {
    {"BiasGelu", 1, lower_bias_gelu},
    {"FastGelu", 1, lower_bias_gelu},
    {"Gelu", 1, lower_bias_gelu},
    {"GemmFastGelu", 1, lower_gemm_fast_gelu},
    {"QuickGelu", 1, lower_quick_gelu},
    {"ScaledSiLU", 1, lower_scaled_silu},
    {"BiasAdd", 1, lower_bias_add},
    {"BiasSoftmax", 1, lower_bias_softmax},
    {"FusedConv", 1, lower_fused_conv},
    {"NhwcFusedConv", 1, lower_fused_conv},
    {"NhwcConv", 1, lower_fused_conv},
    {"FusedGemm", 1, lower_fused_gemm},
    {"FusedMatMul", 1, lower_fused_matmul},
    {"FusedMatMulActivation", 1, lower_fused_matmul},
    {"TransposeMatMul", 1, lower_fused_matmul},
    {"SkipLayerNormalization", 1, lower_skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", 1, lower_skip_layer_norm},
    {"SimplifiedLayerNormalization", 1, lower_layer_norm},
    {"LayerNormalization", 1, lower_layer_norm},
    {"EmbedLayerNormalization", 1, lower_embed_layer_norm},
    {"QEmbedLayerNormalization", 1, lower_q_embed_layer_norm},
    {"GroupNorm", 1, lower_microsoft_group_norm},
    {"CDist", 1, lower_cdist},
    {"CropAndResize", 1, lower_crop_and_resize},
    {"ConvTransposeWithDynamicPads", 1, lower_conv_transpose_dynamic_pads},
    {"ExpandDims", 1, lower_expand_dims},
    {"GatherND", 1, lower_gather_nd},
    {"GridSample", 1, lower_grid_sample},
    {"Inverse", 1, lower_inverse},
    {"SampleOp", 1, lower_sample_op},
    {"MaxpoolWithMask", 1, lower_max_pool_with_mask},
    {"MurmurHash3", 1, lower_murmur},
    {"NGramRepeatBlock", 1, lower_ngram_repeat},
    {"DynamicTimeWarping", 1, lower_time_warping},
    {"Pad", 1, lower_pad},
    {"Range", 1, lower_range},
    {"Trilu", 1, lower_trilu},
    {"Unique", 1, lower_unique},
    {"Tokenizer", 1, lower_tokenizer},
    {"UnfoldTensor", 1, lower_unfold},
    {"WordConvEmbedding", 1, lower_word_conv_embedding},
    {"CausalConvWithState", 1, lower_causal_conv},
};

}  // namespace

std::span<const OpEntry> microsoft_ops() { return kOps; }

}  // namespace smelt::onnx
