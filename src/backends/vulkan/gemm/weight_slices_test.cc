// Weights beyond what the device binds, by a device that seems to bind little.
#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanWeightSlices : public VulkanTest {
 protected:
  const Forced little_{"SMELT_VULKAN_BINDING", "4096"};
};

TEST_F(VulkanWeightSlices, FloatMatMul) {
  struct Row {
    Shape a, c;  ///< c of rank 0: absent
    ActKind act = ActKind::kNone;
    bool dynamic = false;
  };
  for (const Row& r : {Row{{3, 32}, {}}, Row{{1, 32}, {100}, ActKind::kRelu}, Row{{2, 3, 32}, {100}, {}, true},
                       Row{{4, 32}, {4, 100}, ActKind::kSigmoid}, Row{{4, 32}, {4, 1}}, Row{{32}, {}}})
    for (bool transposed : {false, true})
      for (DType dtype : {DType::kF32, DType::kF16}) {
        MatMulAttrs m;
        m.transpose_b = transposed;
        m.act.kind = r.act;
        OpCase c{Cat(r.a.str(), " ", r.c.str(), " ", to_string(dtype), transposed ? " transposed" : ""),
                 Op::kMatMul,
                 make_attrs<MatMulAttrs>(m),
                 {random_tensor(dtype, r.a, -1, 1, 1),
                  random_tensor(dtype, transposed ? Shape{100, 32} : Shape{32, 100}, -1, 1, 2)},
                 {1}};
        if (!r.dynamic) c.constants.push_back(2);
        if (r.c.rank() > 0) c.inputs.push_back(random_tensor(dtype, r.c, -1, 1, 3));
        check_on_gpu(c, "matmul_weight_slices", dtype == DType::kF16 ? Tolerance{5e-3, 5e-3} : Tolerance{});
      }
}

/// Integer weights of float32 rows: bound as they are, or as float32.
TEST_F(VulkanWeightSlices, QuantizedWeights) {
  for (DType dtype : {DType::kI8, DType::kI4})
    for (bool transposed : {false, true})
      for (int kind = 0; kind < 3; ++kind) {
        const int64_t n = 200;
        MatMulAttrs m;
        m.transpose_b = transposed;
        Tensor w = random_tensor(dtype, transposed ? Shape{n, 64} : Shape{64, n}, -7, 7, 2);
        auto q = std::make_shared<Quantization>(*per_tensor(0.1f, 1));
        if (kind > 0) {
          q->kind = kind == 1 ? Quantization::Kind::kPerAxis : Quantization::Kind::kPerBlock;
          q->axis = (kind == 1) == transposed ? 0 : 1;
          q->block = 32;
          q->scales.clear();
          for (int64_t i = 0; i < (kind == 1 ? n : 2 * n); ++i)
            q->scales.push_back(0.01f * static_cast<float>(1 + i % 17));
          q->zero_points.assign(q->scales.size(), 1);
          q->zero_points[5] = 2;
        }
        w.set_quant(q);
        OpCase c{Cat(to_string(dtype), transposed ? " transposed " : " ", kind),
                 Op::kMatMul,
                 make_attrs<MatMulAttrs>(m),
                 {random_tensor(DType::kF32, {3, 64}, -1, 1, 1), w, random_tensor(DType::kF32, {n}, -1, 1, 3)},
                 {1, 2}};
        check_on_gpu(c, "matmul_weight_slices", {1e-4, 1e-5});
      }
}

TEST_F(VulkanWeightSlices, QuantizedRows) {
  for (bool channels : {false, true})
    for (bool transposed : {false, true}) {
      MatMulAttrs m;
      m.transpose_b = transposed;
      const int64_t n = 150;
      Tensor x = random_tensor(DType::kI8, {3, 40}, -128, 127, 1), bias = random_tensor(DType::kI32, {n}, -99, 99, 3);
      Tensor w = random_tensor(DType::kI8, transposed ? Shape{n, 40} : Shape{40, n}, -127, 127, 2);
      x.set_quant(per_tensor(0.05f, 3));
      std::vector<float> scales, bias_scales;
      for (int64_t i = 0; i < n; ++i) scales.push_back(channels ? 0.01f * static_cast<float>(1 + i % 7) : 0.02f);
      for (float s : scales) bias_scales.push_back(s * 0.05f);
      w.set_quant(channels ? per_axis(scales, transposed ? 0 : 1) : per_tensor(0.02f, 0));
      bias.set_quant(channels ? per_axis(bias_scales, 0) : per_tensor(0.02f * 0.05f, 0));
      OpCase c{Cat(channels ? "channels" : "one", transposed ? " transposed" : ""),
               Op::kMatMul,
               make_attrs<MatMulAttrs>(m),
               {x, w, bias},
               {1, 2}};
      c.outputs[0].dtype = DType::kI8;
      c.outputs[0].quant = per_tensor(0.5f, -4);
      check_on_gpu(c, "matmul_weight_slices");
    }
}

TEST_F(VulkanWeightSlices, Convolutions) {
  for (bool last : {false, true})
    for (FilterLayout filter : {FilterLayout::kOIS, FilterLayout::kOSI})
      for (int64_t kernel : {1, 3}) {
        ConvAttrs a;
        a.layout = last ? Layout::kChannelsLast : Layout::kChannelsFirst;
        a.filter = filter;
        const Shape w = filter == FilterLayout::kOIS ? Shape{40, 32, kernel, kernel} : Shape{40, kernel, kernel, 32};
        OpCase c;
        c.op = Op::kConv;
        c.attrs = make_attrs<ConvAttrs>(a);
        c.label = Cat(w.str(), last ? " last" : " first");
        c.inputs = {random_tensor(DType::kF32, last ? Shape{1, 4, 5, 32} : Shape{1, 32, 4, 5}, -1, 1, 1),
                    random_tensor(DType::kF32, w, -1, 1, 2), random_tensor(DType::kF32, {40}, -1, 1, 3)};
        c.constants = {1, 2};
        check_on_gpu(c, "conv_weight_slices", 1e-4);
      }
}

/// A matrix of which not even one column is bound stays with the host.
TEST_F(VulkanWeightSlices, TooDeep) {
  OpCase c{"deep",
           Op::kMatMul,
           make_attrs<MatMulAttrs>(),
           {random_tensor(DType::kF32, {1, 2048}, -1, 1, 1), random_tensor(DType::kF32, {2048, 3}, -1, 1, 2)},
           {1}};
  check_on_gpu(c, "", {1e-4, 1e-5});
}

}  // namespace
}  // namespace smelt::vulkan
