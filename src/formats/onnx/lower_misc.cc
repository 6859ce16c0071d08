// Random numbers, attention, signals, strings, images and detection of ai.onnx.
#include "formats/onnx/ops.h"
#include "ops/attention/attention.h"
#include "ops/detection/detection.h"
#include "ops/elementwise/elementwise.h"
#include "ops/random/random.h"
#include "ops/shape/shape.h"
#include "ops/signal/signal.h"
#include "ops/strings/strings.h"

namespace smelt::onnx {
namespace {

void seed(NodeContext& n, RandomAttrs& a) {
  a.seeded = n.has_attr("seed");
  a.seed = n.f("seed", 0);
}

void lower_random(NodeContext& n) {
  RandomAttrs a;
  const bool normal = n.op().starts_with("RandomNormal"), like = n.op().ends_with("Like");
  a.kind = normal ? RandomAttrs::Kind::kNormal : RandomAttrs::Kind::kUniform;
  a.a = normal ? n.f("mean", 0) : n.f("low", 0);
  a.b = normal ? n.f("scale", 1) : n.f("high", 1);
  seed(n, a);
  ValueId shape;
  if (like) {
    const ValueId x = n.in(0);
    a.to = n.has_attr("dtype") ? dtype_of(n.i("dtype")) : n.dtype(x);
    shape = n.dims_of(x);
  } else {
    a.to = dtype_of(n.i("dtype", 1));
    if (!n.has_attr("shape")) return n.fail("attribute 'shape' is missing");
    shape = n.i64(n.ints("shape"));
  }
  if (!is_float(a.to)) return n.fail("dtype is no floating-point type");
  n.emit(Op::kRandom, a, {shape});
}

void lower_bernoulli(NodeContext& n) {
  RandomAttrs a;
  a.kind = RandomAttrs::Kind::kBernoulli;
  const ValueId x = n.in(0);
  a.to = n.has_attr("dtype") ? dtype_of(n.i("dtype")) : n.dtype(x);
  seed(n, a);
  n.emit(Op::kRandom, a, {x});
}

void lower_multinomial(NodeContext& n) {
  RandomAttrs a;
  a.kind = RandomAttrs::Kind::kMultinomial;
  a.to = dtype_of(n.i("dtype", 6));
  a.samples = n.i("sample_size", 1);
  if (a.samples < 0) return n.fail("sample_size is ", a.samples);
  seed(n, a);
  n.emit(Op::kRandom, a, {n.in(0)});
}

void lower_attention(NodeContext& n) {
  AttentionAttrs a;
  a.num_heads = n.i("q_num_heads", 0);
  a.kv_heads = n.i("kv_num_heads", 0);
  a.scale = n.f("scale", 0);
  a.causal = n.flag("is_causal");
  a.causal_from_end = n.has(4) || n.has(6);
  a.softcap = n.f("softcap", 0);
  a.qk_output = n.i("qk_matmul_output_mode", 0);
  if (const int64_t code = n.i("softmax_precision", 0)) a.softmax_dtype = dtype_of(code);
  a.window = n.i("left_window_size", -1);
  a.window_right = n.i("right_window_size", -1);
  n.emit(Op::kAttention, a, n.operands(3, 7));
}

void lower_rotary(NodeContext& n) {
  RotaryAttrs a;
  a.interleaved = n.flag("interleaved");
  a.rotary_dim = n.i("rotary_embedding_dim", 0);
  a.num_heads = n.i("num_heads", 0);
  n.emit(Op::kRotary, a, n.operands(3, 4));
}

void lower_nms(NodeContext& n) {
  NmsAttrs a;
  a.center = n.flag("center_point_box");
  n.emit(Op::kNonMaxSuppression, a, n.operands(2, 5));
}

void lower_dft(NodeContext& n) {
  DftAttrs a;
  a.scale = 0;
  a.inverse = n.flag("inverse");
  a.onesided = n.flag("onesided");
  a.axis = n.version() < 20 ? n.i("axis", 1) : -2;
  n.emit(Op::kDft, a, n.operands(1, 3));
}

void lower_stft(NodeContext& n) {
  StftAttrs a;
  a.onesided = n.flag("onesided", true);
  n.emit(Op::kStft, a, n.operands(2, 4));
}

void lower_window(NodeContext& n) {
  WindowAttrs a;
  a.kind = n.op() == "HannWindow"      ? WindowAttrs::Kind::kHann
           : n.op() == "HammingWindow" ? WindowAttrs::Kind::kHamming
                                       : WindowAttrs::Kind::kBlackman;
  a.periodic = n.flag("periodic", true);
  a.to = dtype_of(n.i("output_datatype", 1));
  n.emit(Op::kWindow, a, {n.in(0)});
}

void lower_mel(NodeContext& n) {
  MelAttrs a;
  a.to = dtype_of(n.i("output_datatype", 1));
  n.emit(Op::kMelWeights, a, {n.in(0), n.in(1), n.in(2), n.in(3), n.in(4)});
}

void lower_image_decoder(NodeContext& n) {
  ImageDecodeAttrs a;
  a.pixel_format = n.s("pixel_format", "RGB");
  n.emit(Op::kImageDecode, a, {n.in(0)});
}

void lower_string_normalizer(NodeContext& n) {
  StringNormalizeAttrs a;
  a.change_case = n.s("case_change_action", "NONE");
  a.case_sensitive = n.flag("is_case_sensitive");
  a.stopwords = n.strings("stopwords");
  a.locale = n.s("locale");
  n.emit(Op::kStringNormalize, a, {n.in(0)});
}
void lower_string_concat(NodeContext& n) { n.emit(Op::kStringConcat, {n.in(0), n.in(1)}); }
void lower_string_split(NodeContext& n) {
  StringSplitAttrs a;
  a.delimiter = n.s("delimiter");
  a.max_splits = n.has_attr("maxsplit") ? n.i("maxsplit") : -1;
  n.emit(Op::kStringSplit, a, {n.in(0)}, 2);
}
void lower_regex(NodeContext& n) {
  StringPatternAttrs a;
  a.pattern = n.s("pattern");
  n.emit(Op::kRegexMatch, a, {n.in(0)});
}
void lower_tfidf(NodeContext& n) {
  TfIdfAttrs a;
  a.mode = n.s("mode");
  a.min_gram = n.i("min_gram_length", 1);
  a.max_gram = n.i("max_gram_length", 1);
  a.max_skip = n.i("max_skip_count", 0);
  a.ngram_counts = n.ints("ngram_counts");
  a.ngram_indexes = n.ints("ngram_indexes");
  a.pool_ints = n.ints("pool_int64s");
  a.pool_strings = n.strings("pool_strings");
  a.weights = n.doubles("weights");
  n.emit(Op::kTfIdf, a, {n.in(0)});
}

constexpr OpEntry kOps[] = {
    {"RandomNormal", 1, lower_random},
    {"RandomUniform", 1, lower_random},
    {"RandomNormalLike", 1, lower_random},
    {"RandomUniformLike", 1, lower_random},
    {"Bernoulli", 15, lower_bernoulli},
    {"Multinomial", 7, lower_multinomial},
    {"Attention", 23, lower_attention},
    {"LinearAttention", 27, lower_linear_attention},
    {"RotaryEmbedding", 23, lower_rotary},
    {"NonMaxSuppression", 10, lower_nms},
    {"DFT", 17, lower_dft},
    {"STFT", 17, lower_stft},
    {"HannWindow", 17, lower_window},
    {"HammingWindow", 17, lower_window},
    {"BlackmanWindow", 17, lower_window},
    {"MelWeightMatrix", 17, lower_mel},
    {"ImageDecoder", 20, lower_image_decoder},
    {"StringNormalizer", 10, lower_string_normalizer},
    {"StringConcat", 20, lower_string_concat},
    {"StringSplit", 20, lower_string_split},
    {"RegexFullMatch", 20, lower_regex},
    {"TfIdfVectorizer", 9, lower_tfidf},
};

}  // namespace

std::span<const OpEntry> misc_ops() { return kOps; }

}  // namespace smelt::onnx
