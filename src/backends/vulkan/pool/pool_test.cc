#include "ops/pool/pool.h"

#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

std::vector<PoolAttrs> windows() {
  std::vector<PoolAttrs> all(5);
  all[0].kernel = {3, 2};
  all[0].pads = {1, 0, 1, 1};
  all[1].kernel = {2, 2};
  all[1].strides = {2, 3};
  all[1].ceil_mode = true;
  all[2].kernel = {3, 3};
  all[2].dilations = {2, 1};
  all[2].auto_pad = AutoPad::kSameUpper;
  all[3].global = true;
  all[4].kernel = {3, 3};
  all[4].strides = {2, 2};
  all[4].pads = {1, 1, 1, 1};
  all[4].count_include_pad = true;
  all[4].act.kind = ActKind::kRelu;
  return all;
}

OpCase pool_case(PoolAttrs attrs, PoolKind kind, Layout layout, DType dtype) {
  attrs.kind = kind;
  attrs.layout = layout;
  OpCase c;
  c.op = Op::kPool;
  const Shape x = layout == Layout::kChannelsLast ? Shape{2, 9, 10, 6} : Shape{2, 6, 9, 10};
  c.label = std::string(to_string(kind)) + " " + to_string(layout) + " " + to_string(dtype);
  const bool bytes = is_integer(dtype);
  Tensor t = random_tensor(dtype, x, dtype == DType::kU8 ? 0 : bytes ? -128 : -1, bytes ? 127 : 1, 1);
  c.outputs[0].dtype = dtype;
  if (bytes) {
    attrs.rounding = Rounding::kFixedDouble;
    t.set_quant(per_tensor(0.05f, 3));
    c.outputs[0].quant = t.quant();
  }
  c.attrs = std::make_shared<PoolAttrs>(attrs);
  c.inputs = {t};
  return c;
}

TEST(VulkanPool, Windows) {
  SKIP_WITHOUT_GPU();
  for (const PoolAttrs& a : windows())
    for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
      for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
        check_on_gpu(pool_case(a, kind, layout, DType::kF32), "pool_float");
        check_on_gpu(pool_case(a, kind, layout, DType::kF16), "pool_float", 2e-3);
        check_on_gpu(pool_case(a, kind, layout, DType::kI8), "pool_i8");
        check_on_gpu(pool_case(a, kind, layout, DType::kU8), "pool_i8");
      }
}

TEST(VulkanPool, UnquantizedInt8) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : {DType::kI8, DType::kU8}) {
    OpCase c = pool_case(windows()[1], PoolKind::kMax, Layout::kChannelsFirst, dtype);
    c.inputs[0].set_quant(nullptr);
    c.outputs[0].quant = nullptr;
    check_on_gpu(c, "pool_i8");
  }
}

TEST(VulkanPool, Adaptive) {
  SKIP_WITHOUT_GPU();
  for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
    for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst})
      for (DType dtype : {DType::kF32, DType::kF16}) {
        auto attrs = std::make_shared<AdaptivePoolAttrs>();
        attrs->kind = kind;
        attrs->layout = layout;
        attrs->output = {4, 3};
        OpCase c;
        c.op = Op::kAdaptivePool;
        c.attrs = attrs;
        c.label = std::string(to_string(kind)) + " " + to_string(layout);
        c.inputs = {
            random_tensor(dtype, layout == Layout::kChannelsLast ? Shape{2, 9, 10, 6} : Shape{2, 6, 9, 10}, -1, 1, 1)};
        c.outputs[0].dtype = dtype;
        check_on_gpu(c, "adaptive_pool_float", dtype == DType::kF16 ? 2e-3 : 1e-5);
      }
}

TEST(VulkanPool, Norms) {
  SKIP_WITHOUT_GPU();
  for (double p : {1.0, 2.0, 3.0, 2.5})
    for (bool mean_square : {false, true}) {
      PoolAttrs a = windows()[0];
      a.p = p;
      a.mean_square = mean_square;
      check_on_gpu(pool_case(a, PoolKind::kLp, Layout::kChannelsFirst, DType::kF32), "pool_float", 2e-5);
      check_on_gpu(pool_case(a, PoolKind::kLp, Layout::kChannelsLast, DType::kF16), "pool_float", 2e-3);
    }
}

}  // namespace
}  // namespace smelt::vulkan
