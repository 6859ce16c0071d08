#include <algorithm>

#include "cpu/matmul_shape.h"
#include "vulkan/activation.h"
#include "vulkan/device.h"
#include "vulkan/kernels/common.h"
#include "vulkan/kernels/weights.h"
#include "vulkan/strides.h"

namespace smelt::vulkan {
namespace {

/// The layout of shaders/matmul.comp.
struct Geometry {
  int32_t lanes, tiles, depth;
  int32_t p_lane, p_k, q_tile, q_k, y_lane, y_tile, c_lane, c_tile;
  uint32_t batch[3];
  int32_t p_batch[3], q_batch[3], c_batch[3], y_batch;
};
struct Push {
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

Shape aligned(const MatrixView& v, const Shape& batch) {
  Shape s = Shape::of_rank(batch.rank(), 0);
  for (int i = 1; i <= v.batch.rank(); ++i)
    if (v.batch[v.batch.rank() - i] != 1) s[batch.rank() - i] = v.batch_strides[v.batch.rank() - i];
  return s;
}

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const Push& push, const Tiling& tiling, RealOperand lane, RealOperand tile, bool half, bool has_c,
               uint32_t batches)
      : push_(push),
        tiling_(tiling),
        lane_(std::move(lane)),
        tile_(std::move(tile)),
        half_(half),
        has_c_(has_c),
        batches_(batches) {}
  void set_addend(RealOperand c) { addend_ = std::move(c); }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding lane, lane_.bind(r));
    SMELT_ASSIGN(const Binding tile, tile_.bind(r));
    Binding c = lane;
    if (has_c_) {
      SMELT_ASSIGN(c, addend_.bind(r));
    }
    const char* shader = !half_        ? "matmul_f32"
                         : !lane_.half ? "matmul_f32_f16"
                         : !tile_.half ? "matmul_f16_f32"
                                       : "matmul_f16";
    Dispatch d{
        shader, {tiling_.width, tiling_.tile, tiling_.lanes, has_c_ ? 1u : 0u, 0u}, {lane, tile, c, r.output(0)}};
    const uint32_t across = tiling_.width * tiling_.lanes;
    d.x = (static_cast<uint32_t>(push_.g.lanes) + across - 1) / across;
    d.y = (static_cast<uint32_t>(push_.g.tiles) + tiling_.tile - 1) / tiling_.tile;
    d.z = batches_;
    return r.dispatch(d, push_);
  }

 private:
  Push push_;
  Tiling tiling_;
  RealOperand lane_, tile_, addend_;
  bool half_, has_c_;
  uint32_t batches_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_real(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const DType dtype = spec.outputs[0].dtype;
  if ((dtype != DType::kF32 && dtype != DType::kF16) || spec.outputs[0].quant || attrs.hybrid) return nullptr;
  RealOperand a, b, c;
  if (!make_real_operand(spec, 0, a) || !make_real_operand(spec, 1, b)) return nullptr;
  const bool half = dtype == DType::kF16;
  if (!half && (a.half || b.half)) return nullptr;
  if (half && !a.half && !b.half) return nullptr;
  const bool has_c = spec.has(2) && attrs.beta != 0;
  if (has_c) {
    if (!make_real_operand(spec, 2, c)) return nullptr;
    if (c.half) {
      if (!spec.constant(2)) return nullptr;
      c = {false, FloatConstant(2, *spec.constant(2)), 2};
    }
  }
  const auto shape = MatMulShape::make(cpu_spec(spec));
  if (!shape || shape->k == 0 || shape->k > kMaxRounds || shape->batches > 65535) return nullptr;
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
  const MatrixView &av = shape->g.a, &bv = shape->g.b;
  // Columns go along the lanes, so that writes are neighbours; a tall result of few columns goes the other way.
  const bool rows_in_lanes = shape->n < 8 && m > shape->n;
  const Shape a_batch = aligned(av, batch), b_batch = aligned(bv, batch);
  const auto walk =
      Walk<3>::make(batch, {rows_in_lanes ? a_batch : b_batch, rows_in_lanes ? b_batch : a_batch, c_batch});
  if (!walk || walk->rank > 3 || walk->n > 65535) return nullptr;
  const auto i32 = [](int64_t v) { return static_cast<int32_t>(v); };
  Push push{};
  Geometry& g = push.g;
  g.lanes = i32(rows_in_lanes ? m : shape->n);
  g.tiles = i32(rows_in_lanes ? shape->n : m);
  g.depth = i32(shape->k);
  g.p_lane = i32(rows_in_lanes ? av.row_stride : bv.column_stride);
  g.p_k = i32(rows_in_lanes ? av.column_stride : bv.row_stride);
  g.q_tile = i32(rows_in_lanes ? bv.column_stride : av.row_stride);
  g.q_k = i32(rows_in_lanes ? bv.row_stride : av.column_stride);
  g.y_lane = i32(rows_in_lanes ? shape->n : 1);
  g.y_tile = i32(rows_in_lanes ? 1 : shape->n);
  g.c_lane = i32(rows_in_lanes ? c_row : c_column);
  g.c_tile = i32(rows_in_lanes ? c_column : c_row);
  for (int i = 0; i < 3; ++i) {
    const bool used = static_cast<uint32_t>(i) < walk->rank;
    g.batch[i] = used ? walk->size[i] : 1;
    g.p_batch[i] = used ? walk->stride[0][i] : 0;
    g.q_batch[i] = used ? walk->stride[1][i] : 0;
    g.c_batch[i] = used ? walk->stride[2][i] : 0;
  }
  g.y_batch = i32(m * shape->n);
  push.alpha = static_cast<float>(attrs.alpha);
  push.beta = static_cast<float>(attrs.beta);
  push.act = gpu_activation(attrs.act);
  const Tiling tiling = choose_tiling(spec.device, g.lanes, g.tiles);
  if ((g.tiles + tiling.tile - 1) / tiling.tile > 65535) return nullptr;
  auto kernel =
      std::make_unique<MatMulKernel>(push, tiling, rows_in_lanes ? a : b, rows_in_lanes ? b : a, half, has_c, walk->n);
  if (has_c) kernel->set_addend(c);
  return kernel;
}

}  // namespace smelt::vulkan
