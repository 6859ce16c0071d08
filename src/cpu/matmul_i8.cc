#include <algorithm>
#include <cmath>
#include <vector>

#include "base/cat.h"
#include "cpu/activation.h"
#include "cpu/gemm_i8.h"
#include "cpu/kernel.h"
#include "cpu/quantized.h"
#include "cpu/requant.h"
#include "cpu/row_quant.h"
#include "ops/common/quantized_pair.h"
#include "ops/matmul/matmul_shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

int64_t align(int64_t bytes) { return (bytes + 127) / 64 * 64; }

/// Weights of a constant b as [n][k], zero points subtracted, cut along k into blocks of one scale each.
struct IntegerWeights {
  int64_t blocks = 1, block = 0;  ///< entries of k in a block; the last may be shorter
  std::vector<float> scales;      ///< [block][n]
  std::vector<int16_t> values;
  const int8_t* plain = nullptr;  ///< the constant itself, where it is just that; `values` are empty then

  bool fit_int8() const { return plain || fits_int8(values); }
  int64_t depth(int64_t i, int64_t k) const { return std::min(block, k - i * block); }
  /// nullopt: no integers of at most 8 bits whose scales are one for all, one a column, or one a block and column.
  static std::optional<IntegerWeights> make(const Tensor& b, const MatMulShape& s);
};

int32_t stored_weight(const Tensor& b, int64_t i) {
  switch (b.dtype()) {
    case DType::kI8:
      return b.data<int8_t>()[i];
    case DType::kU8:
      return b.data<uint8_t>()[i];
    case DType::kU4:
      return b.data<uint8_t>()[i / 2] >> (i % 2 * 4) & 15;
    case DType::kI4:
      return static_cast<int8_t>(b.data<uint8_t>()[i / 2] >> (i % 2 * 4) << 4) >> 4;
    default:
      return static_cast<int32_t>(get_int(b, i));
  }
}

std::optional<IntegerWeights> IntegerWeights::make(const Tensor& b, const MatMulShape& s) {
  if (!b.quant() || !is_integer(b.dtype()) || bit_width(b.dtype()) > 8 || b.rank() != 2) return std::nullopt;
  const Quantization& q = *b.quant();
  const int k_axis = s.g.b.column_stride == 1 && s.g.b.row_stride != 1 ? 0 : 1;
  const int n_axis = 1 - k_axis;
  IntegerWeights w;
  w.block = std::max<int64_t>(s.k, 1);
  const auto scales = static_cast<int64_t>(q.scales.size());
  if (q.kind == Quantization::Kind::kPerBlock) {
    if (q.axis != k_axis || q.block <= 0 || b.dim(k_axis) != s.k || b.dim(n_axis) != s.n) return std::nullopt;
    w.block = q.block;
    w.blocks = (s.k + q.block - 1) / q.block;
    if (scales != w.blocks * s.n) return std::nullopt;
  } else if (q.kind == Quantization::Kind::kPerAxis) {
    if (scales != 1 && (q.axis != n_axis || scales != s.n)) return std::nullopt;
  } else if (q.kind != Quantization::Kind::kPerTensor || scales != 1) {
    return std::nullopt;
  }
  if (q.zero_points.size() > 1 && static_cast<int64_t>(q.zero_points.size()) != scales) return std::nullopt;
  const auto parameter = [&](int64_t n, int64_t i) {
    if (scales == 1) return int64_t{0};
    if (w.blocks == 1 && q.kind != Quantization::Kind::kPerBlock) return n;
    return k_axis == 1 ? n * w.blocks + i : i * s.n + n;
  };
  w.scales.resize(static_cast<size_t>(w.blocks * s.n));
  if (b.dtype() == DType::kI8 && w.blocks == 1 && s.g.b.row_stride == 1 && s.g.b.column_stride == s.k &&
      std::all_of(q.zero_points.begin(), q.zero_points.end(), [](int32_t z) { return z == 0; })) {
    for (int64_t n = 0; n < s.n; ++n) w.scales[static_cast<size_t>(n)] = q.scale(parameter(n, 0));
    w.plain = b.data<int8_t>();
    return w;
  }
  w.values.resize(static_cast<size_t>(s.n * s.k));
  int16_t* to = w.values.data();
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t i = 0; i < w.blocks; ++i) {
      const int64_t p = parameter(n, i);
      const int32_t zero = q.zero_point(q.zero_points.size() > 1 ? p : 0);
      if (zero < -255 || zero > 255) return std::nullopt;
      w.scales[static_cast<size_t>(i * s.n + n)] = q.scale(p);
      for (int64_t k = i * w.block; k < std::min(s.k, (i + 1) * w.block); ++k)
        *to++ = static_cast<int16_t>(stored_weight(b, k * s.g.b.row_stride + n * s.g.b.column_stride) - zero);
    }
  return w;
}

/// Rows of 8-bit integers times integer weights; the result is rescaled to integers, or to real numbers by a scale a
/// row.
class MatMulI8 final : public Kernel {
 public:
  enum class Rows : uint8_t {
    kOneGrid,  ///< a has one scale; the output is 8-bit
    kDynamic,  ///< a carries a scale and zero point a row
    kHybrid,   ///< a is float32, quantized as it comes
  };
  MatMulI8(const MatMulShape& s, Rows rows, const KernelSpec& spec, IntegerWeights weights,
           std::optional<Requant> requant)
      : s_(s),
        rows_(rows),
        attrs_(spec.attrs<MatMulAttrs>()),
        gemm_(gemm_i8(spec.isa, weights.fit_int8())),
        quant_(row_quant(spec.isa)),
        requant_(std::move(requant)),
        rescale_(requant_ ? requant_rows(spec.isa, *requant_) : nullptr),
        threads_(std::max(spec.threads, 1)),
        blocks_(weights.blocks),
        block_(weights.block) {
    x_signed_ = rows == Rows::kHybrid || spec.inputs[0].dtype == DType::kI8;
    if (rows == Rows::kOneGrid) x_zero_ = spec.inputs[0].quant->zero_point();
    depth_steps_ = 0;
    for (int64_t i = 0; i < blocks_; ++i) depth_steps_ += gemm_.a_row_bytes(depth(i));
    lda_ = depth_steps_;
    scales_at_ = align(panels_bytes());
    sums_at_ = scales_at_ + align(blocks_ * s.n * 4);
    const Tensor* c = spec.constant(2);
    packed_ = spec.packs.get(spec.constant(1)->raw(),
                             Cat("matmul_i8 ", s.k, ' ', s.n, ' ', s.g.b.row_stride, ' ', s.g.b.column_stride, ' ',
                                 gemm_.bytes, ' ', gemm_.lanes, ' ', blocks_, ' ', static_cast<int>(rows), ' ', x_zero_,
                                 ' ', x_signed_, ' ', reinterpret_cast<uintptr_t>(requant_ && c ? c->raw() : nullptr)),
                             [&] { return pack(weights); });
    has_bias_ = !requant_ && spec.has(2);
    direct_ = rows == Rows::kOneGrid && gemm_.bytes && s.k % 4 == 0;
    a_bytes_ = direct_ ? 0 : align(s.m * lda_);
    stored_bytes_ = rows == Rows::kHybrid ? align(threads_ * s.k) : 0;
  }
  size_t scratch_bytes() const override {
    if (direct_) return 0;
    return static_cast<size_t>(a_bytes_ + stored_bytes_ + align(s_.m * static_cast<int64_t>(sizeof(RowGrid))));
  }
  Status run(KernelContext& ctx) const override {
    if (direct_) {
      products(ctx, ctx.input(0).data<uint8_t>(), nullptr);
      return Ok();
    }
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the rows of a matrix product");
    auto* grids = reinterpret_cast<RowGrid*>(scratch + a_bytes_ + stored_bytes_);
    const Tensor& a = ctx.input(0);
    if (rows_ == Rows::kDynamic && !a.quant()) return Error(ErrorCode::kInternal, "a dynamic operand has no scales");
    if (rows_ == Rows::kDynamic && a.quant()->scales.size() != 1 &&
        static_cast<int64_t>(a.quant()->scales.size()) < s_.m)
      return Error(ErrorCode::kInvalidInput, "a dynamically quantized operand has too few scales");
    const int64_t parts = std::min(threads_, s_.m);
    ctx.threads().parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        for (int64_t r = s_.m * part / parts; r < s_.m * (part + 1) / parts; ++r)
          prepare(a, r, reinterpret_cast<int8_t*>(scratch + a_bytes_ + part * s_.k), grids[r], scratch + r * lda_);
    });
    products(ctx, scratch, grids);
    return Ok();
  }

 private:
  void products(KernelContext& ctx, const uint8_t* a, const RowGrid* grids) const {
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    Tensor& y = ctx.output(0);
    ctx.threads().parallel_for(threads_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece)
        split_product(
            s_.m, gemm_.mr, gemm_.panels(s_.n), piece, threads_,
            [&](int64_t r0, int64_t r1, int64_t p0, int64_t p1) { multiply(a, grids, bias, y, r0, r1, p0, p1); });
    });
  }
  int64_t depth(int64_t i) const { return std::min(block_, s_.k - i * block_); }
  int64_t panels_bytes() const {
    int64_t bytes = 0;
    for (int64_t i = 0; i < blocks_; ++i) bytes += align(gemm_.packed_bytes(depth(i), s_.n));
    return bytes;
  }
  Packed pack(const IntegerWeights& w) const {
    auto packed = std::make_shared<AlignedBytes>(static_cast<size_t>(sums_at_ + align(blocks_ * s_.n * 4)));
    char* to = packed->data<char>();
    auto* scales = reinterpret_cast<float*>(packed->data<char>() + scales_at_);
    auto* sums = reinterpret_cast<uint32_t*>(packed->data<char>() + sums_at_);
    std::copy(w.scales.begin(), w.scales.end(), scales);
    const int32_t zero = rows_ == Rows::kOneGrid ? GemmI8::byte_zero(x_signed_, x_zero_) : 0;
    const auto sum = [](const auto* values, int64_t n) {
      uint32_t total = 0;
      for (int64_t j = 0; j < n; ++j) total += static_cast<uint32_t>(static_cast<int32_t>(values[j]));
      return total;
    };
    const int32_t* bias = requant_ ? requant_->bias.data() : nullptr;
    if (w.plain) {
      for (int64_t n = 0; n < s_.n; ++n) sums[n] = sum(w.plain + n * s_.k, s_.k);
      gemm_.pack(w.plain, s_.k, s_.n, bias, zero, to);
      return packed;
    }
    std::vector<int16_t> part;
    for (int64_t i = 0; i < blocks_; ++i) {
      const int64_t k = depth(i);
      part.resize(static_cast<size_t>(s_.n * k));
      for (int64_t n = 0; n < s_.n; ++n) {
        const int16_t* from = w.values.data() + n * s_.k + i * block_;
        std::copy_n(from, k, part.data() + n * k);
        sums[i * s_.n + n] = sum(from, k);
      }
      gemm_.pack(part.data(), k, s_.n, bias, zero, to);
      to += align(gemm_.packed_bytes(k, s_.n));
    }
    return packed;
  }
  /// Brings row r of a into the form of the tiles, block by block; grid.zero_point is what is left to subtract.
  void prepare(const Tensor& a, int64_t r, int8_t* room, RowGrid& grid, uint8_t* to) const {
    const uint8_t* from;
    int32_t zero = x_zero_;
    if (rows_ == Rows::kHybrid) {
      grid = quant_.quantize_row(a.data<float>() + r * s_.k, s_.k, attrs_.asymmetric_inputs, room);
      from = reinterpret_cast<const uint8_t*>(room);
      zero = grid.zero_point;
    } else {
      from = a.data<uint8_t>() + r * s_.k;
      if (rows_ == Rows::kDynamic) {
        grid = {a.quant()->scale(r), a.quant()->zero_point(r)};
        zero = grid.zero_point;
      }
    }
    for (int64_t i = 0; i < blocks_; ++i) {
      gemm_.convert(from + i * block_, s_.k, 1, depth(i), x_signed_, zero, to, lda_);
      to += gemm_.a_row_bytes(depth(i));
    }
    grid.zero_point = gemm_.bytes ? GemmI8::byte_zero(x_signed_, zero) : 0;
  }
  void multiply(const uint8_t* a, const RowGrid* grids, const float* bias, Tensor& y, int64_t r0, int64_t r1,
                int64_t p0, int64_t p1) const {
    const char* panels = packed_->data<char>();
    const auto* scales = reinterpret_cast<const float*>(packed_->data<char>() + scales_at_);
    const auto* column_sums = reinterpret_cast<const int32_t*>(packed_->data<char>() + sums_at_);
    const Bounds bounds = activation_bounds(attrs_.act);
    const uint8_t* rows = a + r0 * lda_;
    for (int64_t i = 0; i < blocks_; ++i) {
      gemm_.run(r1 - r0, s_.n, depth(i), rows, lda_, x_signed_, panels, p0, p1,
                [&](const int32_t* sums, int64_t row, int64_t count, int64_t column, int64_t n) {
                  if (requant_) {
                    rescale_(*requant_, sums, gemm_.nr(), count, n, column,
                             y.data<uint8_t>() + (r0 + row) * s_.n + column, s_.n);
                    return;
                  }
                  for (int64_t j = 0; j < count; ++j) {
                    const RowGrid& grid = grids[r0 + row + j];
                    const int64_t at = i * s_.n + column;
                    quant_.rescale(sums + j * gemm_.nr(), grid.zero_point, column_sums + at, grid.scale, scales + at,
                                   bias ? bias + column : nullptr, i == 0, i == blocks_ - 1, bounds.lo, bounds.hi, n,
                                   y.data<float>() + (r0 + row + j) * s_.n + column);
                  }
                });
      rows += gemm_.a_row_bytes(depth(i));
      panels += align(gemm_.packed_bytes(depth(i), s_.n));
    }
    if (!requant_) {
      const int64_t column = p0 * gemm_.nr(), n = std::min(s_.n, p1 * gemm_.nr()) - column;
      activate_rows(attrs_.act, y.data<float>() + r0 * s_.n + column, r1 - r0, n, s_.n);
    }
  }

  MatMulShape s_;
  Rows rows_;
  MatMulAttrs attrs_;
  const GemmI8& gemm_;
  const RowQuant& quant_;
  std::optional<Requant> requant_;
  RequantRows rescale_;
  int64_t threads_, blocks_, block_, depth_steps_ = 0, lda_ = 0, scales_at_ = 0, sums_at_ = 0;
  int64_t a_bytes_ = 0, stored_bytes_ = 0;
  bool x_signed_ = true, has_bias_ = false, direct_ = false;
  int32_t x_zero_ = 0;
  Packed packed_;
};

/// A product of dense rows of a with one constant b.
std::optional<MatMulShape> rows_times_constant(const KernelSpec& spec) {
  if (!spec.constant(1) || !spec.inputs[1].quant) return std::nullopt;
  auto s = MatMulShape::make(spec);
  if (!s || s->batches != 1 || s->b_matrices != 1 || s->k == 0 || s->g.a.column_stride != 1 ||
      (s->m > 1 && s->g.a.row_stride != s->k))
    return std::nullopt;
  return s;
}

bool float_bias(const KernelSpec& spec, const MatMulShape& s) {
  return !spec.has(2) || (spec.inputs[2].dtype == DType::kF32 && s.is_row(spec.inputs[2].shape));
}

}  // namespace

std::unique_ptr<Kernel> make_matmul_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = rows_times_constant(spec);
  if (!s || spec.inputs[1].shape.rank() != 2 || (spec.has(2) && !s->is_row(spec.inputs[2].shape))) return nullptr;
  const int axis = attrs.transpose_b ? 0 : 1;
  if (!QuantizedPair::make(spec.inputs[0], spec.inputs[1], axis, s->n)) return nullptr;
  auto requant = Requant::make(spec, s->n, attrs.act, attrs.rounding, attrs.alpha);
  if (!requant) return nullptr;
  auto weights = IntegerWeights::make(*spec.constant(1), *s);
  if (!weights || weights->blocks != 1) return nullptr;
  return std::make_unique<MatMulI8>(*s, MatMulI8::Rows::kOneGrid, spec, std::move(*weights), std::move(requant));
}

std::unique_ptr<Kernel> make_matmul_dynamic(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = rows_times_constant(spec);
  const ValueType& a = spec.inputs[0];
  if (!s || spec.outputs[0].dtype != DType::kF32 || attrs.alpha != 1 || attrs.beta != 1 || !float_bias(spec, *s))
    return nullptr;
  if (!a.quant || a.quant->kind != Quantization::Kind::kDynamicRow || (a.dtype != DType::kI8 && a.dtype != DType::kU8))
    return nullptr;
  int64_t row = 1;
  for (int i = std::max(0, a.shape.rank() - a.quant->axis); i < a.shape.rank(); ++i) row *= a.shape[i];
  if (row != s->k) return nullptr;
  auto weights = IntegerWeights::make(*spec.constant(1), *s);
  if (!weights) return nullptr;
  return std::make_unique<MatMulI8>(*s, MatMulI8::Rows::kDynamic, spec, std::move(*weights), std::nullopt);
}

std::unique_ptr<Kernel> make_matmul_hybrid(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (!attrs.hybrid || spec.inputs[0].dtype != DType::kF32 || spec.outputs[0].dtype != DType::kF32) return nullptr;
  const auto s = rows_times_constant(spec);
  if (!s || attrs.alpha != 1 || attrs.beta != 1 || !float_bias(spec, *s) || attrs.trans_batch_a) return nullptr;
  auto weights = IntegerWeights::make(*spec.constant(1), *s);
  if (!weights) return nullptr;
  return std::make_unique<MatMulI8>(*s, MatMulI8::Rows::kHybrid, spec, std::move(*weights), std::nullopt);
}

}  // namespace smelt
