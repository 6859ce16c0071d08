#include "cases.h"

#include <cmath>

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"

namespace smelt::bench {
namespace {
using testing::KernelCase;
using testing::per_axis;
using testing::per_tensor;
using testing::random_tensor;

struct ConvRow {
  const char* name;
  int64_t size, c_in, c_out, kernel, stride, groups;
};
const ConvRow kConvs[] = {
    {"mbv2_first", 224, 3, 32, 3, 2, 1},       {"mbv2_expand_112", 112, 16, 96, 1, 1, 1},
    {"mbv2_project_56", 56, 144, 24, 1, 1, 1}, {"mbv2_expand_14", 14, 64, 384, 1, 1, 1},
    {"mbv2_project_7", 7, 960, 160, 1, 1, 1},  {"mbv2_last", 7, 320, 1280, 1, 1, 1},
    {"mbv2_dw_112", 112, 32, 32, 3, 1, 32},    {"mbv2_dw_112_s2", 112, 96, 96, 3, 2, 96},
    {"mbv2_dw_14", 14, 576, 576, 3, 1, 576},   {"mbv2_dw_7", 7, 960, 960, 3, 1, 960},
    {"resnet50_first", 224, 3, 64, 7, 2, 1},   {"resnet50_56", 56, 64, 64, 3, 1, 1},
    {"resnet50_14", 14, 256, 256, 3, 1, 1},
};

BenchCase conv(const ConvRow& r, Layout layout, bool integers) {
  auto attrs = std::make_shared<ConvAttrs>();
  const bool last = layout == Layout::kChannelsLast, depthwise = r.groups > 1;
  attrs->strides = {r.stride, r.stride};
  attrs->auto_pad = AutoPad::kSameUpper;
  attrs->groups = r.groups;
  attrs->layout = layout;
  attrs->filter = !last ? FilterLayout::kOIS : depthwise ? FilterLayout::kISO : FilterLayout::kOSI;
  attrs->act.kind = ActKind::kRelu6;
  attrs->rounding = Rounding::kFixedDouble;
  const int64_t i = r.c_in / r.groups, k = r.kernel;
  const Shape x = last ? Shape{1, r.size, r.size, r.c_in} : Shape{1, r.c_in, r.size, r.size};
  const Shape w = attrs->filter == FilterLayout::kOSI   ? Shape{r.c_out, k, k, i}
                  : attrs->filter == FilterLayout::kISO ? Shape{i, k, k, r.c_out}
                                                        : Shape{r.c_out, i, k, k};
  const int64_t out = (r.size + r.stride - 1) / r.stride;
  BenchCase b;
  b.c.label = Cat(r.name, last ? "/nhwc" : "/nchw", integers ? "/int8" : "/f32");
  b.c.op = Op::kConv;
  b.c.attrs = attrs;
  b.operations = 2.0 * static_cast<double>(out * out * r.c_out * i * k * k);
  if (!integers) {
    b.c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, w, -1, 1, 2),
                  random_tensor(DType::kF32, {r.c_out}, -1, 1, 3)};
    return b;
  }
  Tensor tx = random_tensor(DType::kI8, x, -128, 127, 1), tw = random_tensor(DType::kI8, w, -127, 127, 2);
  tx.set_quant(per_tensor(0.02f, -3));
  tw.set_quant(per_axis(std::vector<float>(static_cast<size_t>(r.c_out), 0.004f), depthwise && last ? 3 : 0));
  b.c.inputs = {tx, tw, random_tensor(DType::kI32, {r.c_out}, -1000, 1000, 3)};
  b.c.output.dtype = DType::kI8;
  b.c.output.quant = per_tensor(0.02f * 0.3f * std::sqrt(static_cast<float>(i * k * k)), 5);
  return b;
}

BenchCase matmul(const char* name, int64_t m, int64_t k, int64_t n, bool integers) {
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_b = true;
  attrs->rounding = Rounding::kFixedSingle;
  BenchCase b;
  b.c.label = Cat(name, '/', m, 'x', k, 'x', n, integers ? "/int8" : "/f32");
  b.c.op = Op::kMatMul;
  b.c.attrs = attrs;
  b.operations = 2.0 * static_cast<double>(m * n * k);
  if (!integers) {
    b.c.inputs = {random_tensor(DType::kF32, {m, k}, -1, 1, 1), random_tensor(DType::kF32, {n, k}, -1, 1, 2)};
    return b;
  }
  Tensor x = random_tensor(DType::kI8, {m, k}, -128, 127, 1), w = random_tensor(DType::kI8, {n, k}, -127, 127, 2);
  x.set_quant(per_tensor(0.02f, -3));
  w.set_quant(per_tensor(0.004f, 0));
  b.c.inputs = {x, w};
  b.c.output.dtype = DType::kI8;
  b.c.output.quant = per_tensor(0.02f * 0.3f * std::sqrt(static_cast<float>(k)), 5);
  return b;
}

BenchCase simple(const char* name, Op op, AttrsPtr attrs, std::vector<Tensor> inputs) {
  BenchCase b;
  b.operations = static_cast<double>(inputs[0].elements());
  b.c.label = Cat(name, inputs[0].shape().str(), '/', to_string(inputs[0].dtype()));
  b.c.op = op;
  b.c.attrs = std::move(attrs);
  b.c.inputs = std::move(inputs);
  return b;
}

Tensor f32(const Shape& shape) { return random_tensor(DType::kF32, shape, -2, 2, 1); }
Tensor i8(const Shape& shape) {
  Tensor t = random_tensor(DType::kI8, shape, -128, 127, 1);
  t.set_quant(per_tensor(0.05f, 3));
  return t;
}

}  // namespace

std::vector<BenchCase> all_cases() {
  std::vector<BenchCase> cases;
  for (const ConvRow& r : kConvs)
    for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst})
      for (bool integers : {false, true}) cases.push_back(conv(r, layout, integers));
  for (bool integers : {false, true}) {
    cases.push_back(matmul("mbv2_classifier", 1, 1280, 1000, integers));
    cases.push_back(matmul("bert_ffn", 128, 768, 3072, integers));
    cases.push_back(matmul("square", 512, 512, 512, integers));
  }
  for (Unary fn : {Unary::kHardSwish, Unary::kGelu, Unary::kTanh, Unary::kSigmoid, Unary::kExp})
    cases.push_back(simple(to_string(fn), Op::kUnary, make_attrs<UnaryAttrs>(fn), {f32({1, 56, 56, 64})}));
  for (Binary fn : {Binary::kAdd, Binary::kMul}) {
    cases.push_back(
        simple(to_string(fn), Op::kBinary, make_attrs<BinaryAttrs>(fn), {f32({1, 56, 56, 24}), f32({1, 56, 56, 24})}));
    cases.push_back(simple(to_string(fn), Op::kBinary, make_attrs<BinaryAttrs>(fn), {f32({1, 56, 56, 24}), f32({24})}));
    cases.push_back(
        simple(to_string(fn), Op::kBinary, make_attrs<BinaryAttrs>(fn), {i8({1, 56, 56, 24}), i8({1, 56, 56, 24})}));
    cases.back().c.output.dtype = DType::kI8;
    cases.back().c.output.quant = per_tensor(0.1f, 1);
  }
  cases.push_back(simple("softmax", Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {f32({12, 128, 128})}));
  cases.push_back(
      simple("layer_norm", Op::kLayerNorm, make_attrs<LayerNormAttrs>(), {f32({128, 768}), f32({768}), f32({768})}));
  auto pool = std::make_shared<PoolAttrs>();
  pool->kernel = {3, 3};
  pool->strides = {2, 2};
  pool->auto_pad = AutoPad::kSameUpper;
  cases.push_back(simple("max_pool_3x3/nchw", Op::kPool, pool, {f32({1, 64, 112, 112})}));
  auto pool_last = std::make_shared<PoolAttrs>(*pool);
  pool_last->layout = Layout::kChannelsLast;
  cases.push_back(simple("max_pool_3x3/nhwc", Op::kPool, pool_last, {f32({1, 112, 112, 64})}));
  auto mean = std::make_shared<ReduceAttrs>();
  mean->fn = Reduction::kMean;
  const int64_t axes[] = {1, 2};
  cases.push_back(
      simple("global_mean", Op::kReduce, mean, {f32({1, 7, 7, 1280}), Tensor::from<int64_t>(DType::kI64, {2}, axes)}));
  return cases;
}

}  // namespace smelt::bench
