// Kernels that give a texture's elements one by one, or indices of them.
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "tests/support/vulkan_texture.h"

namespace smelt::vulkan {
namespace {

constexpr DType kReals[] = {DType::kF32, DType::kF16};

class VulkanTextureElements : public VulkanTest {};

TEST_F(VulkanTextureElements, Lrn) {
  for (DType dtype : kReals)
    for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
      for (const Shape& shape : {Shape{2, 5, 3, 7}, Shape{3, 9}}) {
        LrnAttrs a;
        a.layout = layout;
        a.size = 4;
        a.alpha = 0.5;
        check_forms(make_case("norm " + shape.str(), Op::kLRN, a, {random_tensor(dtype, shape, -2, 2, 1)}),
                    "lrn_texture");
      }
}

TEST_F(VulkanTextureElements, ArgReduce) {
  for (DType index : {DType::kI64, DType::kI32})
    for (int64_t axis : {0, 1, 2, 3})
      for (bool min : {false, true}) {
        ArgReduceAttrs a;
        a.axis = axis;
        a.min = min;
        a.select_last = min;
        a.to = index;
        // Few values: there are equals.
        Tensor x(DType::kF32, {3, 4, 130, 5});
        for (int64_t i = 0; i < x.elements(); ++i) set_double(x, i, static_cast<double>(i * 7919 % 63));
        auto c = make_case(Cat("axis ", axis), Op::kArgReduce, a, {x});
        c.outputs[0].dtype = index;
        check_forms(c, "arg_reduce_texture");
      }
  ArgReduceAttrs flat;
  flat.flatten = true;
  auto c = make_case("all", Op::kArgReduce, flat, {random_tensor(DType::kF16, {2, 5, 7}, -2, 2, 1)});
  c.outputs[0].dtype = DType::kI64;
  check_forms(c, "arg_reduce_texture");
}

TEST_F(VulkanTextureElements, CastToIntegers) {
  for (DType from : kReals)
    for (DType to : {DType::kI32, DType::kI64, DType::kI8, DType::kU8, DType::kBool})
      for (bool clamp : {false, true}) {
        CastAttrs a(to);
        a.clamp = clamp;
        Tensor x = random_tensor(from, {2, 5, 3, 7}, -400, 400, 1);
        set_double(x, 3, 0);
        auto c = make_case(Cat("to ", to_string(to)), Op::kCast, a, {x});
        c.outputs[0].dtype = to;
        check_forms(c, "cast_from_texture");
      }
}

TEST_F(VulkanTextureElements, CastOfBytes) {
  for (DType from : {DType::kI8, DType::kU8}) {
    auto c = make_case("cast", Op::kCast, CastAttrs(DType::kF32), {random_tensor(from, {2, 5, 3, 7}, 0, 127, 1)});
    c.outputs[0].dtype = DType::kF32;
    check_forms(c, "cast_texture");
  }
}

TEST_F(VulkanTextureElements, PoolIndices) {
  for (DType index : {DType::kI64, DType::kI32})
    for (auto rule : {PoolAttrs::Index::kTensorRow, PoolAttrs::Index::kTensorColumn, PoolAttrs::Index::kPlane,
                      PoolAttrs::Index::kWindowColumn})
      for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        PoolAttrs a;
        a.kernel = {3, 2};
        a.strides = {2, 1};
        a.pads = {1, 1, 1, 0};
        a.dilations = {1, 2};
        a.index = rule;
        a.index_dtype = index;
        a.layout = layout;
        const bool last = layout == Layout::kChannelsLast;
        OpRunner op(Op::kPool, make_attrs<PoolAttrs>(a));
        op.input(random_tensor(DType::kF32, last ? Shape{2, 7, 6, 5} : Shape{2, 5, 7, 6}, -1, 1, 3)).outputs(2);
        check_forms(op, "pool_texture", {}, {last ? Packing::kWidth : Packing::kChannels});
      }
  AdaptivePoolAttrs a;
  a.kind = PoolKind::kMax;
  a.output = {3, 4};
  OpRunner op(Op::kAdaptivePool, make_attrs<AdaptivePoolAttrs>(a));
  op.input(random_tensor(DType::kF16, {2, 3, 7, 9}, -1, 1, 3)).outputs(2);
  check_forms(op, "adaptive_pool_texture", {1e-3, 1e-3}, {Packing::kChannels});
}

TEST_F(VulkanTextureElements, Rotary) {
  const auto ids = [](DType dtype, const Shape& shape) {
    Tensor t(dtype, shape);
    for (int64_t i = 0; i < t.elements(); ++i) set_int(t, i, (3 + 5 * i) % 11);
    return t;
  };
  for (const auto& [dtype, table] :
       {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kF16, DType::kF16}, std::pair{DType::kF16, DType::kF32}})
    for (int layout = 0; layout < 3; ++layout)
      for (bool interleaved : {false, true}) {
        RotaryAttrs a;
        a.interleaved = interleaved;
        a.num_heads = layout == 0 ? 3 : 0;
        a.batch_seq_heads = layout == 2;
        a.rotary_dim = interleaved ? 6 : 0;
        const Shape x = layout == 0 ? Shape{2, 5, 24} : layout == 1 ? Shape{2, 3, 5, 8} : Shape{2, 5, 3, 8};
        const Shape rows{16, interleaved ? 3 : 4};
        std::vector<Tensor> in{random_tensor(dtype, x, -2, 2, 1), random_tensor(table, rows, -1, 1, 2),
                               random_tensor(table, rows, -1, 1, 3)};
        in.push_back(layout == 0   ? ids(DType::kI64, {2, 5})
                     : layout == 1 ? ids(DType::kI32, {5})
                                   : ids(DType::kI64, {1}));
        auto c = make_case(Cat("layout ", layout), Op::kRotary, a, in);
        c.constants.clear();
        check_forms(c, "rotary_texture");
      }
}

TEST_F(VulkanTextureElements, RotaryPositionOutOfRange) {
  OpRunner op(Op::kRotary, make_attrs<RotaryAttrs>());
  op.input(random_tensor(DType::kF32, {1, 2, 5, 8}, -1, 1, 1));
  for (uint32_t seed : {2u, 3u}) op.input(random_tensor(DType::kF32, {16, 4}, -1, 1, seed));
  op.input(tensor(DType::kI64, Shape{1}, {12}));
  EXPECT_FALSE(op.device(DeviceStorage::kTexture).run_all().ok());
}

}  // namespace
}  // namespace smelt::vulkan
