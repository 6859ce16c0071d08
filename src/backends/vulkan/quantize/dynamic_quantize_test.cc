#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanDynamicQuant : public VulkanTest {};

/// Rows of other ranges, one of zeros, one without negative values.
Tensor rows(DType dtype, const Shape& shape) {
  Tensor t = random_tensor(dtype, shape, -3, 5, 11);
  const int64_t length = shape.back(), n = t.elements() / length;
  for (int64_t i = 0; i < length; ++i) {
    set_double(t, i, 0);
    if (n > 1) set_double(t, (n - 1) * length + i, 0.25 * static_cast<double>(i % 9));
  }
  return t;
}

TEST_F(VulkanDynamicQuant, DynamicQuantize) {
  for (const Shape& shape : {Shape{3, 7}, Shape{5, 300}, Shape{2, 40000}})
    for (DType to : {DType::kI8, DType::kU8})
      for (int rule = 0; rule < 3; ++rule)
        for (bool per_row : {false, true}) {
          DynamicQuantizeAttrs a;
          a.to = to;
          a.symmetric = rule == 1;
          a.xnnpack_rule = rule == 2;
          a.per_row = per_row;
          a.eps = rule == 2 ? 1e-5 : 0;
          check_on_gpu({.label = Cat(shape.str(), " ", to_string(to), " ", rule, per_row),
                        .op = Op::kDynamicQuantize,
                        .attrs = make_attrs<DynamicQuantizeAttrs>(a),
                        .inputs = {rows(DType::kF32, shape)},
                        .outputs = std::vector<ValueType>(3)},
                       "dynamic_quantize");
        }
}

/// Products whose rows are quantized as they come: rounded rows times reals.
TEST_F(VulkanDynamicQuant, MatMulAndConv) {
  for (bool asymmetric : {false, true}) {
    MatMulAttrs m;
    m.dynamic_quant = true;
    m.asymmetric_inputs = asymmetric;
    m.transpose_b = true;
    Tensor b = random_tensor(DType::kI8, {24, 40}, -127, 127, 2);
    b.set_quant(per_tensor(0.01f, 0));
    check_on_gpu({.label = "rows",
                  .op = Op::kMatMul,
                  .attrs = make_attrs<MatMulAttrs>(m),
                  .inputs = {rows(DType::kF32, {6, 40}), b, random_tensor(DType::kF32, {24}, -1, 1, 3)},
                  .constants = {1, 2}},
                 "matmul_dynamic_quant", {1e-3, 1e-4});
    m.flatten_a = true;
    check_on_gpu({.label = "flattened",
                  .op = Op::kMatMul,
                  .attrs = make_attrs<MatMulAttrs>(m),
                  .inputs = {rows(DType::kF32, {2, 5, 8}), b},
                  .constants = {1}},
                 "matmul_dynamic_quant", {1e-3, 1e-4});
    ConvAttrs c;
    c.dynamic_quant = true;
    c.asymmetric_inputs = asymmetric;
    c.layout = Layout::kChannelsLast;
    c.filter = FilterLayout::kOSI;
    c.pads = {1, 1, 1, 1};
    Tensor filter = random_tensor(DType::kI8, {10, 3, 3, 8}, -127, 127, 4);
    filter.set_quant(per_axis({.01f, .02f, .03f, .01f, .02f, .03f, .01f, .02f, .03f, .04f}, 0));
    check_on_gpu({.label = "images",
                  .op = Op::kConv,
                  .attrs = make_attrs<ConvAttrs>(c),
                  .inputs = {random_tensor(DType::kF32, {2, 6, 7, 8}, -2, 3, 5), filter},
                  .constants = {1}},
                 "conv_dynamic_quant", {1e-3, 1e-4});
  }
}

/// QuantizeLinear and DequantizeLinear whose parameters are computed: one, one an entry of an axis, one a block.
TEST_F(VulkanDynamicQuant, DynamicParameters) {
  for (const Shape& scale : {Shape{}, Shape{6}, Shape{3, 2}})
    for (DType quantized : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32})
      for (bool zeros : {false, true}) {
        QuantizeLinearAttrs a;
        a.axis = 1;
        a.to = quantized;
        a.block = scale.rank() == 2 ? 3 : 0;
        const bool positive = quantized == DType::kU8 || quantized == DType::kU16;
        OpCase c{Cat(to_string(quantized), " ", scale.str(), " ", zeros),
                 Op::kDequantizeLinear,
                 nullptr,
                 {random_tensor(quantized, {3, 6}, positive ? 0 : -100, 100, 1),
                  random_tensor(DType::kF32, scale, 0.1, 1, 2)}};
        if (zeros) c.inputs.push_back(random_tensor(quantized, scale, positive ? 0 : -5, 5, 3));
        a.to = DType::kF32;
        c.attrs = make_attrs<QuantizeLinearAttrs>(a);
        check_on_gpu(c, "dequantize_linear_dynamic");
        if (quantized == DType::kI32) continue;
        a.to = quantized;
        c.op = Op::kQuantizeLinear;
        c.attrs = make_attrs<QuantizeLinearAttrs>(a);
        c.inputs[0] = random_tensor(DType::kF32, {3, 6}, -30, 30, 4);
        check_on_gpu(c, "quantize_linear_dynamic");
      }
}

}  // namespace
}  // namespace smelt::vulkan
