#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/resize/resize.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanSliceAt : public VulkanTest {};

constexpr DType kTypes[] = {DType::kU8, DType::kI16, DType::kF32, DType::kI64};

/// Starts are clamped where an update would reach beyond x.
TEST_F(VulkanSliceAt, Updates) {
  for (DType dtype : kTypes)
    for (DType index : {DType::kI32, DType::kI64})
      for (double start : {0.0, 1.0, -3.0, 7.0}) {
        OpCase c{Cat(to_string(dtype), " ", to_string(index), " ", start),
                 Op::kDynamicUpdateSlice,
                 make_attrs<NoAttrs>(),
                 {random_tensor(dtype, {2, 4, 3, 5}, 0, 100, 1), random_tensor(dtype, {1, 2, 3, 4}, 0, 100, 2),
                  Tensor(index, {4})}};
        for (int64_t d = 0; d < 4; ++d) set_double(c.inputs[2], d, d == 1 ? start : d == 2 ? 0 : 1);
        if (start == 7 && index == DType::kI64) c.inputs[2].data<int64_t>()[3] = -(int64_t{1} << 40);
        if (start == 1 && index == DType::kI64) c.inputs[2].data<int64_t>()[3] = int64_t{1} << 40;
        check_on_gpu(c, "dynamic_update_slice");
      }
}

OpCase slice_case(DType dtype, DType index, double start) {
  OpCase c{Cat(to_string(dtype), " ", to_string(index), " ", start),
           Op::kSliceSize,
           make_attrs<NoAttrs>(),
           {random_tensor(dtype, {3, 6, 5}, 0, 100, 1), Tensor(index, {3}), Tensor(index, {3})},
           {2}};
  for (int64_t d = 0; d < 3; ++d) {
    set_double(c.inputs[1], d, d == 1 ? start : d);
    set_double(c.inputs[2], d, d + 1.0);
  }
  return c;
}

TEST_F(VulkanSliceAt, Slices) {
  for (DType dtype : kTypes)
    for (DType index : {DType::kI32, DType::kI64})
      for (double start : {0.0, 4.0}) check_on_gpu(slice_case(dtype, index, start), "dynamic_slice");
}

TEST_F(VulkanSliceAt, RefusesStartsOutside) {
  for (DType index : {DType::kI32, DType::kI64})
    for (double start : {-1.0, 5.0})
      EXPECT_FALSE(run_on_gpu(slice_case(DType::kF32, index, start)).ok()) << to_string(index) << " " << start;
}

/// Tables of embeddings: packed in bytes or of narrow types, with and without zero points.
TEST_F(VulkanSliceAt, GathersBlocks) {
  struct Row {
    DType dtype;
    int64_t bits;
  };
  for (const Row& r : {Row{DType::kU8, 4}, Row{DType::kU8, 8}, Row{DType::kI4, 4}, Row{DType::kU4, 4}})
    for (DType to : {DType::kF32, DType::kF16})
      for (DType index : {DType::kI32, DType::kI64})
        for (bool zeros : {false, true}) {
          GatherBlockQuantizedAttrs a;
          a.bits = r.bits;
          a.block = 16;
          a.quantize_axis = 2;
          const int64_t per = r.dtype == DType::kU8 && r.bits == 4 ? 2 : 1;
          const bool wide = r.dtype == DType::kU8;
          const double low = r.dtype == DType::kI4 ? -8 : 0, high = wide ? 255 : low + 15;
          OpCase c{Cat(to_string(r.dtype), " of ", r.bits, " bits to ", to_string(to), zeros ? ", zero points" : ""),
                   Op::kGatherBlockQuantized,
                   make_attrs<GatherBlockQuantizedAttrs>(a),
                   {random_tensor(r.dtype, {7, 3, 40 / per}, low, high, 1), random_tensor(index, {2, 3}, -7, 6, 2),
                    random_tensor(to, {7, 3, 3}, 0.1, 1, 3)},
                   {0, 2, 3}};
          if (zeros) c.inputs.push_back(random_tensor(r.dtype, {7, 3, per == 2 ? 2 : 3}, low, high, 4));
          check_on_gpu(c, "gather_block_quantized", {to == DType::kF16 ? 1e-2 : 1e-5, to == DType::kF16 ? 1e-3 : 1e-6});
        }
}

/// Stored values are put together and multiplied as they are.
TEST_F(VulkanSliceAt, QuantizedValues) {
  for (DType dtype : {DType::kI8, DType::kU8}) {
    const bool is_signed = dtype == DType::kI8;
    Tensor updates = random_tensor(dtype, {4, 3}, is_signed ? -60 : 0, 60, 1);
    updates.set_quant(per_tensor(0.1f, 3));
    const ValueType y{.dtype = dtype, .quant = per_tensor(0.1f, 3)};
    Tensor indices = random_tensor(DType::kI32, {4, 1}, 0, 5, 2);
    check_on_gpu({.label = "scattered",
                  .op = Op::kScatterNew,
                  .attrs = make_attrs<NoAttrs>(),
                  .inputs = {indices, updates, Tensor::from<int32_t>(DType::kI32, {2}, std::vector<int32_t>{6, 3})},
                  .constants = {2},
                  .outputs = {y}},
                 "legalized_types");
    for (bool transposed : {false, true}) {
      MatMulAttrs m;
      m.transpose_b = transposed;
      Tensor a = random_tensor(dtype, {2, 3, 40}, is_signed ? -128 : 0, is_signed ? 127 : 255, 3);
      Tensor b = random_tensor(dtype, transposed ? Shape{2, 5, 40} : Shape{2, 40, 5}, is_signed ? -128 : 0,
                               is_signed ? 127 : 255, 4);
      a.set_quant(per_tensor(0.1f, is_signed ? -7 : 130));
      b.set_quant(per_tensor(0.2f, is_signed ? 12 : 9));
      check_on_gpu({.label = "sums",
                    .op = Op::kMatMul,
                    .attrs = make_attrs<MatMulAttrs>(m),
                    .inputs = {a, b},
                    .outputs = {ValueType::tensor(DType::kI32)}},
                   "matmul_i8_accumulators");
    }
  }
}

TEST_F(VulkanSliceAt, NarrowFloats) {
  check_on_gpu({.label = "float16",
                .op = Op::kDequantize,
                .attrs = make_attrs<NoAttrs>(),
                .inputs = {random_tensor(DType::kF16, {3, 5}, -2, 2, 1)},
                .outputs = {ValueType::tensor(DType::kF32)}},
               "cast");
}

/// Plain bytes between neighbours: by kernels of reals where sums are exact, else on the host.
TEST_F(VulkanSliceAt, ResizesBytes) {
  for (DType dtype : {DType::kU8, DType::kI8})
    for (int64_t size : {8, 16, 7}) {
      ResizeAttrs a;
      a.mode = ResizeAttrs::Mode::kLinear;
      a.coord = ResizeAttrs::Coord::kHalfPixel;
      check_on_gpu({.label = Cat(to_string(dtype), " ", size),
                    .op = Op::kResize,
                    .attrs = make_attrs<ResizeAttrs>(a),
                    .inputs = {random_tensor(dtype, {1, 3, 4, 4}, dtype == DType::kI8 ? -128 : 0,
                                             dtype == DType::kI8 ? 127 : 255, 1),
                               Tensor(), Tensor(),
                               Tensor::from<int64_t>(DType::kI64, {4}, std::vector<int64_t>{1, 3, size, size})},
                    .constants = {1, 2, 3}},
                   size == 7 ? "" : "resize_unquantized");
    }
}

}  // namespace
}  // namespace smelt::vulkan
