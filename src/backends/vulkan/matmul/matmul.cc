#include <algorithm>
#include <vector>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/cooperative_matrix.h"
#include "backends/vulkan/gemm/int64_accumulators.h"
#include "backends/vulkan/gemm/integer_dot_product.h"
#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/quantized_gemm.h"
#include "ops/matmul/matmul_shape.h"
#include "shaders/matmul.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

using Geometry = shaders::MatmulGeometry;

/// Strides of the addend c along the rows, columns and batch of the result. False: it does not broadcast.
bool addend_strides(const Shape& c, const MatMulShape& s, bool has_m, bool has_n, int64_t& row, int64_t& column,
                    Shape& batch) {
  const Shape& y = s.g.output;
  if (!s.broadcasts(c)) return false;
  const Shape all = broadcast_strides(c, y);
  const int rank = y.rank();
  column = has_n ? all[rank - 1] : 0;
  row = has_m ? all[rank - 1 - (has_n ? 1 : 0)] : 0;
  for (int i = 0; i < batch.rank(); ++i) batch[i] = all[i];
  return true;
}

/// Strides of an operand along the remaining batch dimensions; those folded into rows are left out.
Shape aligned(const MatrixView& v, const Shape& batch) {
  Shape s = Shape::of_rank(batch.rank(), 0);
  for (int i = 1; i <= std::min(v.batch.rank(), batch.rank()); ++i)
    if (v.batch[v.batch.rank() - i] != 1) s[batch.rank() - i] = v.batch_strides[v.batch.rank() - i];
  return s;
}

/// Strides of the addend.
struct Addend {
  int64_t row = 0, column = 0;
  Shape batch;  ///< empty: none
};

/// The product as the shader sees it. `batch`: the batch dimensions that are not folded into rows; `m`: rows of each
/// matrix. Nullopt if the batch has too many dimensions.
std::optional<Geometry> layout_of(const MatMulShape& s, int64_t m, const Shape& batch, Addend c, bool rows_in_lanes) {
  const MatrixView &av = s.g.a, &bv = s.g.b;
  const Shape a_batch = aligned(av, batch), b_batch = aligned(bv, batch);
  if (c.batch.rank() != batch.rank()) c.batch = Shape::of_rank(batch.rank(), 0);
  const auto walk =
      Walk<3>::make(batch, {rows_in_lanes ? a_batch : b_batch, rows_in_lanes ? b_batch : a_batch, c.batch});
  if (!walk || walk->rank > 3 || walk->n > 65535) return std::nullopt;
  Geometry g{};
  g.lanes = i32(rows_in_lanes ? m : s.n);
  g.tiles = i32(rows_in_lanes ? s.n : m);
  g.depth = i32(s.k);
  g.p_lane = i32(rows_in_lanes ? av.row_stride : bv.column_stride);
  g.p_k = i32(rows_in_lanes ? av.column_stride : bv.row_stride);
  g.q_tile = i32(rows_in_lanes ? bv.column_stride : av.row_stride);
  g.q_k = i32(rows_in_lanes ? bv.row_stride : av.column_stride);
  g.y_lane = i32(rows_in_lanes ? s.n : 1);
  g.y_tile = i32(rows_in_lanes ? 1 : s.n);
  g.c_lane = i32(rows_in_lanes ? c.row : c.column);
  g.c_tile = i32(rows_in_lanes ? c.column : c.row);
  for (uint32_t i = 0; i < 3; ++i) {
    const bool used = i < walk->rank;
    g.batch[i] = used ? walk->size[i] : 1;
    g.p_batch[i] = used ? walk->stride[0][i] : 0;
    g.q_batch[i] = used ? walk->stride[1][i] : 0;
    g.c_batch[i] = used ? walk->stride[2][i] : 0;
  }
  g.y_batch = i32(m * s.n);
  return g;
}

/// A product with its tiling and dispatch grid.
struct MatMulPlan {
  Geometry geometry;
  Tiling tiling;
  Grid grid;
  /// Nullopt if the product exceeds a dispatch.
  static std::optional<MatMulPlan> make(const Device& device, const std::optional<Geometry>& g, int64_t batches) {
    if (!g) return std::nullopt;
    const Tiling tiling = choose_tiling(device, g->lanes, g->tiles);
    const auto grid = gemm_grid(tiling, g->lanes, g->tiles, batches);
    return grid ? std::optional(MatMulPlan{*g, tiling, *grid}) : std::nullopt;
  }
  /// Rows along the tiles, without an addend; nullopt also if K is beyond the shader.
  static std::optional<MatMulPlan> of_rows(const Device& device, const MatMulShape& s) {
    if (s.k == 0 || s.k > kMaxLoopIterations) return std::nullopt;
    const Shape batch = s.batches == 1 ? Shape{} : s.g.batch;
    return make(device, layout_of(s, s.m, batch, {}, false), batch.elements());
  }
  /// The specialization constants that all variants have.
  template <class Constants>
  Constants constants() const {
    Constants c;
    c.width = tiling.width;
    c.tile = tiling.tile;
    c.lanes = tiling.lanes;
    return c;
  }
};

int column_axis(const MatMulAttrs& a, const Shape& b) {
  if (b.rank() < 2) return -1;
  if (a.trans_batch_b && b.rank() > 2) return a.transpose_b ? 0 : b.rank() - 1;
  return a.transpose_b ? b.rank() - 2 : b.rank() - 1;
}

}  // namespace

std::unique_ptr<Kernel> make_matmul_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto shape = MatMulShape::make(spec);
  const auto plan = shape ? MatMulPlan::of_rows(spec.device, *shape) : std::nullopt;
  if (!plan || !spec.device.stores(spec.inputs[1].dtype) || (spec.has(2) && !shape->is_row(spec.inputs[2].shape)))
    return nullptr;
  const auto product =
      QuantizedGemm::make(spec, column_axis(attrs, spec.inputs[1].shape), shape->n, attrs.rescale_rule());
  const auto w_zero = product ? product->w_zero() : std::nullopt;
  if (!w_zero) return nullptr;
  const QuantizedPair& p = product->pair;
  auto constants = plan->constants<shaders::MatmulQuantized::Constants>();
  constants.addend = true;
  constants.rounding = product->rounding();
  const RequantizeParams& q = product->requantize;
  return shader_kernel(p.x_signed   ? shaders::matmul_i8
                       : p.w_signed ? shaders::matmul_i8_u8
                                    : shaders::matmul_u8,
                       constants, {input(1), input(0), product->table_arg(), output(0)}, plan->grid,
                       {.geometry = plan->geometry,
                        .p_zero = *w_zero,
                        .q_zero = p.x_zero,
                        .zero = q.zero,
                        .low = q.low,
                        .high = q.high});
}

std::unique_ptr<Kernel> make_matmul_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1];
  const bool wide_a = a.dtype == DType::kI16;
  if (!spec.device.stores(b.dtype) || (wide_a ? b.dtype == DType::kU8 : a.dtype != b.dtype)) return nullptr;
  const auto shape = MatMulShape::make(spec);
  const auto plan = shape ? MatMulPlan::of_rows(spec.device, *shape) : std::nullopt;
  if (!plan || (spec.has(2) && (!shape->is_row(spec.inputs[2].shape) || attrs.beta != 1))) return nullptr;
  if (b.quant->kind == Quantization::Kind::kPerAxis && b.quant->axis != column_axis(attrs, b.shape)) return nullptr;
  const auto accumulators = Int64Accumulators::make(spec, shape->n, 1, attrs.rescale_rule());
  if (!accumulators) return nullptr;
  auto product = shader_kernel(
      wide_a ? (b.dtype == DType::kI8 ? shaders::matmul_int64_i8_i16 : shaders::matmul_int64_i16)
             : (b.dtype == DType::kI8 ? shaders::matmul_int64_i8 : shaders::matmul_int64_u8),
      plan->constants<shaders::MatmulInt64::Constants>(), {input(1), input(0), input(1), accumulators->arg()},
      plan->grid, {.geometry = plan->geometry, .p_zero = accumulators->w_zero(), .q_zero = accumulators->x_zero()});
  return accumulators->behind(std::move(product));
}

namespace {

/// A product of 8-bit matrices with int32 results. `a_zero` and `b_zero`: the bindings of zero points, not read where
/// there are none.
std::unique_ptr<Kernel> make_integer(const KernelSpec& spec, const MatMulShape& shape, ZeroPoints a_zeros,
                                     ZeroPoints b_zeros, Arg a_zero, Arg b_zero) {
  if (a_zeros == ZeroPoints::kUnsupported || b_zeros == ZeroPoints::kUnsupported) return nullptr;
  const auto plan = MatMulPlan::of_rows(spec.device, shape);
  if (!plan) return nullptr;
  const bool a_signed = spec.inputs[0].dtype == DType::kI8, b_signed = spec.inputs[1].dtype == DType::kI8;
  auto constants = plan->constants<shaders::MatmulInteger::Constants>();
  constants.lane_zeros = static_cast<uint32_t>(b_zeros);
  constants.tile_zeros = static_cast<uint32_t>(a_zeros);
  return shader_kernel(b_signed ? (a_signed ? shaders::matmul_integer_i8 : shaders::matmul_integer_i8_u8)
                                : (a_signed ? shaders::matmul_integer_u8_i8 : shaders::matmul_integer_u8),
                       constants, {input(1), input(0), std::move(b_zero), output(0), std::move(a_zero)}, plan->grid,
                       {.geometry = plan->geometry});
}

}  // namespace

std::unique_ptr<Kernel> make_matmul_integer(const KernelSpec& spec) {
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1];
  if (!is_int8(spec, a) || !is_int8(spec, b)) return nullptr;
  const auto shape = MatMulShape::make(spec);
  if (!shape) return nullptr;
  // Zero points per row or column are defined for matrices, not for batches of them.
  const auto a_zeros = zero_points(spec, 2, a.dtype, a.shape.rank() == 2 ? shape->m : 1);
  const auto b_zeros = zero_points(spec, 3, b.dtype, b.shape.rank() == 2 ? shape->n : 1);
  return make_integer(spec, *shape, a_zeros, b_zeros, input(spec.has(2) ? 2 : 0), input(spec.has(3) ? 3 : 1));
}

std::unique_ptr<Kernel> make_matmul_i8_accumulators(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1];
  if (!is_int8(spec, a) || !is_int8(spec, b) || !is_per_tensor(a.quant) || !is_per_tensor(b.quant)) return nullptr;
  if (spec.has(2) || attrs.alpha != 1 || attrs.act.kind != ActKind::kNone) return nullptr;
  const auto fits = [](const ValueType& t) {
    const int64_t zero = t.quant->zero_point();
    return zero >= int_min(t.dtype) && zero <= int_max(t.dtype);
  };
  const auto shape = MatMulShape::make(spec);
  if (!shape || !fits(a) || !fits(b)) return nullptr;
  const auto zero = [](const ValueType& t) {
    return table("zero point", std::vector(4, static_cast<uint8_t>(t.quant->zero_point())));
  };
  return make_integer(spec, *shape, ZeroPoints::kPerTensor, ZeroPoints::kPerTensor, zero(a), zero(b));
}

std::unique_ptr<Kernel> make_matmul_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const DType dtype = spec.outputs[0].dtype;
  if (attrs.dynamic_quant) return nullptr;
  FloatOperand a, b, c;
  if (!make_float_operand(spec, 0, a) || !make_float_operand(spec, 1, b)) return nullptr;
  if (!a.fits(spec.device) || !b.fits(spec.device)) return nullptr;
  const bool fp16 = dtype == DType::kF16;
  if (!fp16 && (a.fp16 || b.fp16)) return nullptr;
  if (fp16 && !a.fp16 && !b.fp16) return nullptr;
  if (spec.fp16) {
    round_to_fp16(spec, b);
    if (fp16 || !b.fp16) round_to_fp16(spec, a);
  }
  const bool has_c = spec.has(2) && attrs.beta != 0;
  if (has_c && !make_f32_operand(spec, 2, c)) return nullptr;
  const auto shape = MatMulShape::make(spec);
  if (!shape || shape->k == 0 || shape->k > kMaxLoopIterations || shape->batches > 65535) return nullptr;
  Shape batch = shape->g.batch;
  int64_t m = shape->m;
  if (shape->batches == 1) batch = Shape{};
  Shape c_batch = Shape::of_rank(batch.rank(), 0);
  int64_t c_row = 0, c_column = 0;
  if (has_c) {
    const Shape& cs = spec.inputs[2].shape;
    const bool has_m = spec.inputs[0].shape.rank() > 1 || attrs.flatten_a, has_n = spec.inputs[1].shape.rank() > 1;
    if (cs.elements() == 1) {
    } else if (shape->is_row(cs)) {
      c_column = 1;
    } else if (cs.elements() == shape->g.output.elements() && shape->batches == 1 && shape->broadcasts(cs)) {
      c_row = shape->n;
      c_column = 1;
    } else {
      if (m != shape->g.m) {  // the addend repeats along the batch
        batch = shape->g.batch;
        m = shape->g.m;
        c_batch = Shape::of_rank(batch.rank(), 0);
      }
      if (!addend_strides(cs, *shape, has_m, has_n, c_row, c_column, c_batch)) return nullptr;
    }
  }
  // Columns go along the lanes, so that lanes write contiguous elements; a tall result of few columns goes by rows.
  const bool rows_in_lanes = shape->n < 8 && m > shape->n;
  const auto plan = MatMulPlan::make(
      spec.device, layout_of(*shape, m, batch, {c_row, c_column, c_batch}, rows_in_lanes), batch.elements());
  if (!plan) return nullptr;
  const FloatOperand &lane = rows_in_lanes ? a : b, &tile = rows_in_lanes ? b : a;
  // By the elements of lanes and tiles: float32, float16.
  using Variants = shaders::Variant<shaders::Matmul>[2][2];
  static constexpr Variants fp16_multiply{{shaders::matmul_fp16_multiply_f32, shaders::matmul_fp16_multiply_f32_f16},
                                          {shaders::matmul_fp16_multiply_f16_f32, shaders::matmul_fp16_multiply_f16}},
      f32_multiply{{shaders::matmul_f32, shaders::matmul_f32_f16}, {shaders::matmul_f16_f32, shaders::matmul_f16}};
  const Variants& variants = spec.fp16 && (!fp16 || (a.fp16 && b.fp16)) ? fp16_multiply : f32_multiply;
  auto constants = plan->constants<shaders::Matmul::Constants>();
  constants.addend = has_c;
  return shader_kernel(variants[lane.fp16 ? 1 : 0][tile.fp16 ? 1 : 0], constants,
                       {float_arg(lane), float_arg(tile), float_arg(has_c ? c : lane), output(0)}, plan->grid,
                       {.geometry = plan->geometry,
                        .alpha = static_cast<float>(attrs.alpha),
                        .beta = static_cast<float>(attrs.beta),
                        .act = gpu_activation(attrs.act)});
}

std::unique_ptr<Kernel> make_matmul_cooperative_matrix(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (attrs.alpha != 1 || (spec.has(2) && attrs.beta != 1)) return nullptr;
  return cooperative_matrix_kernel(spec, matmul_as_conv(spec, attrs), attrs.act);
}

std::unique_ptr<Kernel> make_matmul_i8_dot_product(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = matmul_as_conv(spec, attrs);
  return s ? dot_product_kernel(spec, s, exact_quantized_gemm(spec, attrs, *s)) : nullptr;
}

std::unique_ptr<Kernel> make_matmul_integer_dot_product(const KernelSpec& spec) {
  return dot_product_accumulators(spec, matmul_as_conv(spec, {}, false));
}

}  // namespace smelt::vulkan
