// SessionOptions::deterministic: one hash for every number of threads, every run and every row of a batch; on integers
// for every level of the CPU's kernels too.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string_view>

#include "backends/cpu/core/isa.h"
#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "support/paths.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

size_t hash_of(const void* data, size_t bytes) {
  return std::hash<std::string_view>()({static_cast<const char*>(data), bytes});
}

Tensor sample(DType dtype, Shape shape, uint64_t seed, bool quantized) {
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] < 0) shape[i] = 1;
  Tensor t(dtype, shape);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int64_t i = 0; i < t.elements(); ++i)
    is_float(dtype) ? set_double(t, i, unit(random))
                    : set_int(t, i, static_cast<int64_t>(random() % (quantized ? 256 : 2)));
  return t;
}

/// `count` copies of the tensor along its first dimension.
Tensor repeated(const Tensor& t, int64_t count) {
  Shape shape = t.shape();
  shape[0] *= count;
  Tensor out(t.dtype(), shape);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(out.data<char>() + static_cast<size_t>(i) * t.bytes(), t.raw(), t.bytes());
  return out;
}

struct Hashes {
  std::vector<size_t> of;  ///< each output
  bool rows_agree = true;  ///< of a batch of equal samples
};

Result<Hashes> run_hashed(const Model& model, const std::vector<Datum>& inputs, const SessionOptions& options,
                          int64_t batch) {
  SMELT_ASSIGN(Session session, Session::create(model, options));
  SMELT_ASSIGN(const std::vector<Datum> out, session.run(inputs));
  Hashes h;
  for (const Datum& d : out) {
    if (!d.is_tensor()) continue;
    const Tensor& t = d.tensor;
    h.of.push_back(hash_of(t.raw(), t.bytes()));
    if (batch <= 1 || t.rank() == 0 || t.dim(0) % batch != 0) continue;
    const size_t row = t.bytes() / static_cast<size_t>(batch);
    for (int64_t k = 1; k < batch; ++k)
      h.rows_agree = h.rows_agree && std::memcmp(t.raw(), t.data<char>() + static_cast<size_t>(k) * row, row) == 0;
  }
  return h;
}

std::vector<Datum> samples_for(const Model& model, int64_t batch) {
  std::vector<Datum> in;
  uint64_t seed = 1;
  for (const Port& p : model.inputs()) {
    const Tensor t = sample(p.dtype, p.shape, seed++, p.quant != nullptr);
    in.emplace_back(batch > 1 && t.rank() > 0 ? repeated(t, batch) : t);
  }
  return in;
}

/// Hashes for threads 1 to 4, of one number twice, on every level. `any_level`: one hash for all of them.
void expect_one_hash(const Model& model, int64_t batch, bool any_level) {
  const std::vector<Datum> inputs = samples_for(model, batch);
  std::vector<size_t> all;
  for (const Isa isa : machine_isas()) {
    std::vector<size_t> first = any_level ? all : std::vector<size_t>();
    for (int threads = 1; threads <= 4; ++threads)
      for (int again = 0; again < (threads == 2 ? 2 : 1); ++again) {
        SessionOptions options;
        options.deterministic = true;
        options.threads = threads;
        options.isa = to_string(isa);
        const auto h = run_hashed(model, inputs, options, batch);
        ASSERT_TRUE(h.ok()) << h.error().message();
        if (first.empty()) first = h->of;
        EXPECT_EQ(h->of, first) << to_string(isa) << ", " << threads << " threads, batch " << batch;
        EXPECT_TRUE(h->rows_agree) << to_string(isa) << ", " << threads << " threads: rows of the batch differ";
      }
    all = first;
  }
}

Tensor noise(const Shape& shape, uint64_t seed) { return sample(DType::kF32, shape, seed, false); }

/// A convolution, layer normalization, attention, products and functions of sizes that fill no vector.
Model float_network(int64_t batch) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{batch, 5, 9, 7}));
  ConvAttrs conv;
  conv.strides = conv.dilations = {1, 1};
  conv.pads = {1, 1, 1, 1};
  const auto op = [&](Op o, AttrsPtr a, std::vector<ValueId> in) {
    return b.op(o, std::move(a), std::move(in)).value();
  };
  x = op(Op::kConv, make_attrs<ConvAttrs>(conv), {x, b.constant("w", noise({21, 5, 3, 3}, 2))});
  x = op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kSigmoid), {x});
  x = op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, b.i64({batch, 63, 21})});
  x = op(Op::kLayerNorm, make_attrs<LayerNormAttrs>(), {x, b.constant("s", noise({21}, 3))});
  const auto product = [&](ValueId of, uint64_t seed) {
    return op(Op::kMatMul, make_attrs<MatMulAttrs>(), {of, b.constant("m", noise({21, 21}, seed))});
  };
  const ValueId q = product(x, 4), k = product(x, 5), v = product(x, 6);
  AttentionAttrs attention;
  attention.num_heads = 3;
  attention.kv_heads = 3;
  x = op(Op::kAttention, make_attrs<AttentionAttrs>(attention), {q, k, v});
  x = op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {product(x, 7)});
  x = op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x});
  b.graph().outputs = {x};
  return ModelAccess::make(std::move(module));
}

TEST(Deterministic, FloatsDoNotDependOnThreadsNorOnTheRow) {
  expect_one_hash(float_network(1), 1, false);
  // The batch is the graph's own here: rows of the input are copies.
  const Model eight = float_network(8);
  std::vector<Datum> in{repeated(sample(DType::kF32, {1, 5, 9, 7}, 1, false), 8)};
  for (const Isa isa : machine_isas())
    for (int threads = 1; threads <= 4; ++threads) {
      SessionOptions options;
      options.deterministic = true;
      options.threads = threads;
      options.isa = to_string(isa);
      const auto h = run_hashed(eight, in, options, 8);
      ASSERT_TRUE(h.ok()) << h.error().message();
      EXPECT_TRUE(h->rows_agree) << to_string(isa) << ", " << threads << " threads";
    }
}

TEST(Deterministic, ALevelThatTheMachineLacksIsAnError) {
  SessionOptions options;
  options.isa = "avx9";
  const auto s = Session::create(float_network(1), options);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message().find("SessionOptions::isa is avx9; this machine has"), std::string::npos);
}

TEST(Deterministic, NetworksGiveOneHash) {
  struct Network {
    const char* file;
    bool integers, resizes;
  };
  const Network networks[] = {{"onnx/nets/mobilenetv2s_op13/model.onnx", false, false},
                              {"onnx/nets/vit_op17/model.onnx", false, false},
                              {"onnx/nets/unet_dynamo/model.onnx", false, false},
                              {"onnx/nets/bert_dyn_op13/model.onnx", false, false},
                              {"onnx/nets/gru_op18/model.onnx", false, false},
                              {"onnx/nets/whisper_enc_op10/model.onnx", false, false},
                              {"onnx/nets/convnext_op12/model.onnx", false, false},
                              {"onnx/nets/resnet18_op17_qop_u8s8/model.onnx", true, false},
                              {"onnx/nets/mobilenetv2s_op13_qdq_u8s8pt/model.onnx", true, false},
                              {"tflite/nets/mobilenet_v1_025_128_f32/model.tflite", false, false},
                              {"tflite/nets/mobilenet_v1_025_128_int8io/model.tflite", true, false},
                              {"tflite/nets/resnet_mini_64_f32/model.tflite", false, true},
                              {"tflite/nets/resnet_mini_64_int8io/model.tflite", true, true},
                              {"tflite/nets/kws_dscnn_f32/model.tflite", false, true},
                              {"tflite/nets/unet_f32/model.tflite", false, true},
                              {"tflite/nets/unet_int8io/model.tflite", true, true}};
  int found = 0;
  for (const Network& n : networks) {
    const auto path = source_folder().parent_path() / "shared/corpus" / n.file;
    if (!std::filesystem::exists(path)) continue;
    ++found;
    SCOPED_TRACE(n.file);
    const auto model = Model::load(path.string());
    ASSERT_TRUE(model.ok()) << model.error().message();
    expect_one_hash(*model, 1, n.integers);
    if (n.resizes) expect_one_hash(*model, 8, n.integers);
  }
  if (found == 0) GTEST_SKIP() << "no ../shared/corpus beside this checkout";
}

}  // namespace
}  // namespace smelt
