#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/int64_accumulators.h"
#include "backends/vulkan/gemm/quantized_gemm.h"
#include "ops/matmul/matmul_shape.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

/// The layout of matmul.comp.
struct Geometry {
  int32_t lanes, tiles, depth;
  int32_t p_lane, p_k, q_tile, q_k, y_lane, y_tile, c_lane, c_tile;
  uint32_t batch[3];
  int32_t p_batch[3], q_batch[3], c_batch[3], y_batch;
};
struct MatMulPush {
  Geometry g;
  float alpha, beta;
  GpuActivation act;
};

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
  const auto i32 = [](int64_t v) { return static_cast<int32_t>(v); };
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

void set_product_grid(Dispatch& d, const Geometry& g, const Tiling& t, uint32_t batches) {
  const uint32_t across = t.width * t.lanes;
  d.x = (static_cast<uint32_t>(g.lanes) + across - 1) / across;
  d.y = (static_cast<uint32_t>(g.tiles) + t.tile - 1) / t.tile;
  d.z = batches;
}

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const MatMulPush& push, const Tiling& tiling, FloatOperand lane, FloatOperand tile, bool has_c,
               uint32_t batches)
      : push_(push),
        tiling_(tiling),
        lane_(std::move(lane)),
        tile_(std::move(tile)),
        has_c_(has_c),
        batches_(batches) {}
  void set_addend(FloatOperand c) { addend_ = std::move(c); }
  bool fp16_multiply = false;
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding lane, lane_.bind(r));
    SMELT_ASSIGN(const Binding tile, tile_.bind(r));
    Binding c = lane;
    if (has_c_) {
      SMELT_ASSIGN(c, addend_.bind(r));
    }
    // By the elements of lanes and tiles: float32, float16.
    static const char* const products[2][2] = {{"matmul_fp16_multiply_f32", "matmul_fp16_multiply_f32_f16"},
                                               {"matmul_fp16_multiply_f16_f32", "matmul_fp16_multiply_f16"}};
    static const char* const plain[2][2] = {{"matmul_f32", "matmul_f32_f16"}, {"matmul_f16_f32", "matmul_f16"}};
    const char* shader = (fp16_multiply ? products : plain)[lane_.fp16 ? 1 : 0][tile_.fp16 ? 1 : 0];
    Dispatch d{
        shader, {tiling_.width, tiling_.tile, tiling_.lanes, has_c_ ? 1u : 0u, 0u}, {lane, tile, c, r.output(0)}};
    set_product_grid(d, push_.g, tiling_, batches_);
    return r.dispatch(d, push_);
  }

 private:
  MatMulPush push_;
  Tiling tiling_;
  FloatOperand lane_, tile_, addend_;
  bool has_c_;
  uint32_t batches_;
};

struct StoredPush {
  Geometry g;
  IntegerPush q;  ///< x: along the lanes
};

class QuantizedMatMul final : public Kernel {
 public:
  QuantizedMatMul(const Geometry& g, QuantizedGemm product, const Tiling& tiling, uint32_t batches)
      : product_(std::move(product)), tiling_(tiling), batches_(batches) {
    const RequantParams& q = product_.requant;
    push_ = {g, {*product_.w_zero(), product_.pair.x_zero, q.zero, q.low, q.high}};
  }
  bool reads(size_t i) const override { return i < 2; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding a, r.input(0));
    SMELT_ASSIGN(const Binding b, r.input(1));
    SMELT_ASSIGN(const Binding channels, product_.table(r));
    const QuantizedPair& p = product_.pair;
    Dispatch d{p.x_signed   ? "matmul_i8"
               : p.w_signed ? "matmul_i8_u8"
                            : "matmul_u8",
               {tiling_.width, tiling_.tile, tiling_.lanes, 1u, product_.rounding()},
               {b, a, channels, r.output(0)}};
    set_product_grid(d, push_.g, tiling_, batches_);
    return r.dispatch(d, push_);
  }

 private:
  StoredPush push_;
  QuantizedGemm product_;
  Tiling tiling_;
  uint32_t batches_;
};

/// Products of 8-bit matrices with int32 results; zero points are inputs, or constants set by set_zeros().
class IntegerMatMul final : public Kernel {
 public:
  void set_zeros(int32_t a, int32_t b) { constant_zeros_ = {a, b}; }
  bool reads(size_t i) const override { return i < 2 || constant_zeros_.empty(); }
  IntegerMatMul(const Geometry& g, const Tiling& tiling, uint32_t batches, bool a_signed, bool b_signed,
                uint32_t a_zeros, uint32_t b_zeros)
      : g_(g), tiling_(tiling), batches_(batches), a_zeros_(a_zeros), b_zeros_(b_zeros) {
    shader_ = b_signed ? (a_signed ? "matmul_integer_i8" : "matmul_integer_i8_u8")
                       : (a_signed ? "matmul_integer_u8_i8" : "matmul_integer_u8");
  }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding a, r.input(0));
    SMELT_ASSIGN(const Binding b, r.input(1));
    Binding a_zero = a, b_zero = b;
    if (a_zeros_) {
      SMELT_ASSIGN(a_zero, zeros(r, 0));
    }
    if (b_zeros_) {
      SMELT_ASSIGN(b_zero, zeros(r, 1));
    }
    Dispatch d{shader_,
               {tiling_.width, tiling_.tile, tiling_.lanes, 0u, 0u, b_zeros_, a_zeros_},
               {b, a, b_zero, r.output(0), a_zero}};
    set_product_grid(d, g_, tiling_, batches_);
    return r.dispatch(d, g_);
  }

 private:
  Result<Binding> zeros(KernelRecorder& r, size_t operand) const {
    if (constant_zeros_.empty()) return r.input(2 + operand);
    const auto byte = static_cast<uint8_t>(constant_zeros_[operand]);
    return r.table(Cat("zero point ", byte), sizeof(uint32_t),
                   [&](void* to) { std::memset(to, byte, sizeof(uint32_t)); });
  }

  Geometry g_;
  Tiling tiling_;
  uint32_t batches_, a_zeros_, b_zeros_;
  const char* shader_;
  std::vector<int32_t> constant_zeros_;  ///< of a and b; empty: inputs 2 and 3
};

/// 8- and 16-bit matrices with int64 accumulators and int16 results.
class Int16MatMul final : public Kernel {
 public:
  struct Push {
    Geometry g;
    int32_t b_zero, a_zero;
  };
  Int16MatMul(const char* shader, const Geometry& g, Int64Accumulators sums, const Tiling& tiling, uint32_t batches)
      : shader_(shader),
        accumulators_(std::move(sums)),
        tiling_(tiling),
        batches_(batches),
        push_{g, accumulators_.w_zero(), accumulators_.x_zero()} {}
  bool reads(size_t i) const override { return i < 2; }
  size_t scratch_bytes() const override { return accumulators_.scratch_bytes(); }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding a, r.input(0));
    SMELT_ASSIGN(const Binding b, r.input(1));
    Dispatch d{
        shader_, {tiling_.width, tiling_.tile, tiling_.lanes, 0u, 0u}, {b, a, b, accumulators_.accumulators(r, true)}};
    set_product_grid(d, push_.g, tiling_, batches_);
    SMELT_TRY(r.dispatch(d, push_));
    return accumulators_.record(r);
  }

 private:
  const char* shader_;
  Int64Accumulators accumulators_;
  Tiling tiling_;
  uint32_t batches_;
  Push push_;
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
  if (!shape || shape->k == 0 || shape->k > kMaxLoopIterations) return nullptr;
  if (!spec.device.stores(spec.inputs[1].dtype) || (spec.has(2) && !shape->is_row(spec.inputs[2].shape)))
    return nullptr;
  auto product = QuantizedGemm::make(spec, column_axis(attrs, spec.inputs[1].shape), shape->n, attrs.rescale_rule());
  if (!product || !product->w_zero()) return nullptr;
  const Shape batch = shape->batches == 1 ? Shape{} : shape->g.batch;
  const auto g = layout_of(*shape, shape->m, batch, {}, false);
  if (!g) return nullptr;
  const Tiling tiling = choose_tiling(spec.device, g->lanes, g->tiles);
  if ((g->tiles + tiling.tile - 1) / tiling.tile > 65535) return nullptr;
  return std::make_unique<QuantizedMatMul>(*g, std::move(*product), tiling, static_cast<uint32_t>(batch.elements()));
}

std::unique_ptr<Kernel> make_matmul_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1];
  if (spec.outputs[0].dtype != DType::kI16 || !spec.device.stores(b.dtype)) return nullptr;
  const char* shader = a.dtype == DType::kI16 && b.dtype == DType::kI8    ? "matmul_int64_i8_i16"
                       : a.dtype == DType::kI16 && b.dtype == DType::kI16 ? "matmul_int64_i16"
                       : a.dtype == DType::kI8 && b.dtype == DType::kI8   ? "matmul_int64_i8"
                       : a.dtype == DType::kU8 && b.dtype == DType::kU8   ? "matmul_int64_u8"
                                                                          : nullptr;
  const auto shape = MatMulShape::make(spec);
  if (!shader || !shape || shape->k == 0 || shape->k > kMaxLoopIterations) return nullptr;
  if (spec.has(2) && (!shape->is_row(spec.inputs[2].shape) || attrs.beta != 1)) return nullptr;
  if (b.quant && b.quant->kind == Quantization::Kind::kPerAxis && b.quant->axis != column_axis(attrs, b.shape))
    return nullptr;
  auto sums = Int64Accumulators::make(spec, shape->n, 1, attrs.rescale_rule());
  const Shape batch = shape->batches == 1 ? Shape{} : shape->g.batch;
  const auto g = layout_of(*shape, shape->m, batch, {}, false);
  if (!sums || !g) return nullptr;
  const Tiling tiling = choose_tiling(spec.device, g->lanes, g->tiles);
  if ((g->tiles + tiling.tile - 1) / tiling.tile > 65535) return nullptr;
  return std::make_unique<Int16MatMul>(shader, *g, std::move(*sums), tiling, static_cast<uint32_t>(batch.elements()));
}

namespace {

std::unique_ptr<IntegerMatMul> make_integer(const KernelSpec& spec, const MatMulShape& shape, ZeroPoints a_zeros,
                                            ZeroPoints b_zeros) {
  if (shape.k == 0 || shape.k > kMaxLoopIterations) return nullptr;
  if (a_zeros == ZeroPoints::kUnsupported || b_zeros == ZeroPoints::kUnsupported) return nullptr;
  const Shape batch = shape.batches == 1 ? Shape{} : shape.g.batch;
  const auto g = layout_of(shape, shape.m, batch, {}, false);
  if (!g) return nullptr;
  const Tiling tiling = choose_tiling(spec.device, g->lanes, g->tiles);
  if ((g->tiles + tiling.tile - 1) / tiling.tile > 65535) return nullptr;
  return std::make_unique<IntegerMatMul>(*g, tiling, static_cast<uint32_t>(batch.elements()),
                                         spec.inputs[0].dtype == DType::kI8, spec.inputs[1].dtype == DType::kI8,
                                         static_cast<uint32_t>(a_zeros), static_cast<uint32_t>(b_zeros));
}

}  // namespace

std::unique_ptr<Kernel> make_matmul_integer(const KernelSpec& spec) {
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1];
  if (!is_int8(spec, a) || !is_int8(spec, b)) return nullptr;
  if (spec.outputs[0].dtype != DType::kI32 || spec.outputs[0].quant) return nullptr;
  const auto shape = MatMulShape::make(spec);
  if (!shape) return nullptr;
  // Zero points per row or column are defined for matrices, not for batches of them.
  const auto a_zeros = zero_points(spec, 2, a.dtype, a.shape.rank() == 2 ? shape->m : 1);
  const auto b_zeros = zero_points(spec, 3, b.dtype, b.shape.rank() == 2 ? shape->n : 1);
  return make_integer(spec, *shape, a_zeros, b_zeros);
}

std::unique_ptr<Kernel> make_matmul_i8_accumulators(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1];
  if (!is_int8(spec, a) || !is_int8(spec, b) || !is_per_tensor(a.quant) || !is_per_tensor(b.quant)) return nullptr;
  if (spec.outputs[0].dtype != DType::kI32 || spec.outputs[0].quant || spec.has(2)) return nullptr;
  if (attrs.alpha != 1 || attrs.act.kind != ActKind::kNone) return nullptr;
  const auto fits = [](const ValueType& t) {
    const int64_t zero = t.quant->zero_point();
    return zero >= int_min(t.dtype) && zero <= int_max(t.dtype);
  };
  const auto shape = MatMulShape::make(spec);
  if (!shape || !fits(a) || !fits(b)) return nullptr;
  auto kernel = make_integer(spec, *shape, ZeroPoints::kPerTensor, ZeroPoints::kPerTensor);
  if (kernel) kernel->set_zeros(a.quant->zero_point(), b.quant->zero_point());
  return kernel;
}

std::unique_ptr<Kernel> make_matmul_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const DType dtype = spec.outputs[0].dtype;
  if ((dtype != DType::kF32 && dtype != DType::kF16) || spec.outputs[0].quant || attrs.hybrid) return nullptr;
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
  const auto g = layout_of(*shape, m, batch, {c_row, c_column, c_batch}, rows_in_lanes);
  if (!g) return nullptr;
  MatMulPush push{*g};
  push.alpha = static_cast<float>(attrs.alpha);
  push.beta = static_cast<float>(attrs.beta);
  push.act = gpu_activation(attrs.act);
  const Tiling tiling = choose_tiling(spec.device, g->lanes, g->tiles);
  if ((g->tiles + tiling.tile - 1) / tiling.tile > 65535) return nullptr;
  auto kernel = std::make_unique<MatMulKernel>(push, tiling, rows_in_lanes ? a : b, rows_in_lanes ? b : a, has_c,
                                               static_cast<uint32_t>(batch.elements()));
  if (has_c) kernel->set_addend(c);
  kernel->fp16_multiply = spec.fp16 && (!fp16 || (a.fp16 && b.fp16));
  return kernel;
}

}  // namespace smelt::vulkan
