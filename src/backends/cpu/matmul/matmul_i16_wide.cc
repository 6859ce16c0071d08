// Products of 16-bit values with dynamic 8- or 16-bit operands (TFLite's int16 BATCH_MATMUL): accumulators of 64 bits.
// Sums of products of integers below 2^17 are exact in float64 as long as they stay below 2^53.
#include <algorithm>

#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/matmul/matmul_i16_wide.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/requantizer.h"
#include "ops/matmul/matmul_shape.h"
#include "tensor/quant_params.h"

#ifndef SMELT_CPU_MATMUL_I16_WIDE
#define SMELT_CPU_MATMUL_I16_WIDE
namespace smelt {
/// A tile of kRows rows and `columns` columns.
struct ExactTile {
  static constexpr int64_t kRows = 6, kMostColumns = 16;
  int64_t columns;
  /// acc[kRows][columns] = the sum over k of a[k][kRows] times b[k][columns].
  void (*run)(const double* a, const double* b, int64_t depth, double* acc);
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void multiply_tile(const double* a, const double* b, int64_t depth, double* acc) {
  const hn::CappedTag<double, ExactTile::kMostColumns / 2> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[ExactTile::kRows][2];
  for (auto& row : sums) row[0] = row[1] = hn::Zero(d);
  for (int64_t k = 0; k < depth; ++k, a += ExactTile::kRows, b += 2 * lanes) {
    const V left = hn::LoadU(d, b), right = hn::LoadU(d, b + lanes);
    for (int64_t r = 0; r < ExactTile::kRows; ++r) {
      const V factor = hn::Set(d, a[r]);
      sums[r][0] = hn::MulAdd(factor, left, sums[r][0]);
      sums[r][1] = hn::MulAdd(factor, right, sums[r][1]);
    }
  }
  for (int64_t r = 0; r < ExactTile::kRows; ++r, acc += 2 * lanes) {
    hn::StoreU(sums[r][0], d, acc);
    hn::StoreU(sums[r][1], d, acc + lanes);
  }
}

ExactTile exact_tile() {
  const hn::CappedTag<double, ExactTile::kMostColumns / 2> d;
  return {2 * static_cast<int64_t>(hn::Lanes(d)), multiply_tile};
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// A and b without their zero points as panels of float64, then tile by tile.
class MatMulI16Wide final : public Kernel {
 public:
  MatMulI16Wide(const MatMulShape& s, const Requantizer& rescale, const KernelSpec& spec)
      : s_(s),
        tile_(SMELT_FOR_LEVEL(spec.isa, exact_tile)()),
        factor_(rescale.fixed()[0]),
        zero_(rescale.zero()),
        low_(rescale.low()),
        high_(rescale.high()),
        a_zero_(spec.inputs[0].quant->zero_point()),
        b_zero_(spec.inputs[1].quant->zero_point()),
        threads_(std::max(spec.threads, 1)),
        panels_((s.n + tile_.columns - 1) / tile_.columns) {
    b_bytes_ = padded_bytes(panels_ * tile_.columns * s.k * 8);
    slot_bytes_ = padded_bytes(ExactTile::kRows * s.k * 8);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(b_bytes_ + threads_ * slot_bytes_); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a matrix product");
    auto* b = reinterpret_cast<double*>(scratch);
    const int64_t tall = (s_.m + ExactTile::kRows - 1) / ExactTile::kRows;
    for (int64_t i = 0; i < s_.batches; ++i) {
      if (i == 0 || s_.b_index(i) != s_.b_index(i - 1))
        ctx.threads().parallel_for(panels_, std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, s_.k)),
                                   [&](int64_t begin, int64_t end) {
                                     for (int64_t p = begin; p < end; ++p) pack_b(ctx.input(1), i, p, b);
                                   });
      in_slots(ctx.threads(), threads_, tall, [&](int64_t t, int64_t slot) {
        rows(ctx, i, t * ExactTile::kRows, b, reinterpret_cast<double*>(scratch + b_bytes_ + slot * slot_bytes_));
      });
    }
    return Ok();
  }

 private:
  /// Columns of panel p of the i-th matrix: to[k][columns], zero beyond n.
  void pack_b(const Tensor& b, int64_t i, int64_t p, double* to) const {
    to += p * tile_.columns * s_.k;
    const int64_t n = std::min(tile_.columns, s_.n - p * tile_.columns), offset = s_.offset(s_.g.b, i);
    const auto pack = [&](const auto* from) {
      from += offset + p * tile_.columns * s_.g.b.column_stride;
      for (int64_t k = 0; k < s_.k; ++k, to += tile_.columns)
        for (int64_t c = 0; c < tile_.columns; ++c)
          to[c] = c < n ? from[k * s_.g.b.row_stride + c * s_.g.b.column_stride] - b_zero_ : 0;
    };
    if (b.dtype() == DType::kI16) return pack(b.data<int16_t>());
    if (b.dtype() == DType::kI8) return pack(b.data<int8_t>());
    pack(b.data<uint8_t>());
  }
  /// Up to kRows rows from `first` on of the i-th product. `a`: kRows * k numbers.
  void rows(KernelContext& ctx, int64_t i, int64_t first, const double* b, double* a) const {
    const int64_t count = std::min(ExactTile::kRows, s_.m - first);
    const MatrixView& v = s_.g.a;
    const int16_t* from = ctx.input(0).data<int16_t>() + s_.offset(v, i) + first * v.row_stride;
    for (int64_t r = 0; r < ExactTile::kRows; ++r)
      for (int64_t k = 0; k < s_.k; ++k)
        a[k * ExactTile::kRows + r] = r < count ? from[r * v.row_stride + k * v.column_stride] - a_zero_ : 0;
    int16_t* y = ctx.output(0).data<int16_t>() + (i * s_.m + first) * s_.n;
    double acc[ExactTile::kRows * ExactTile::kMostColumns];
    for (int64_t p = 0; p < panels_; ++p) {
      tile_.run(a, b + p * tile_.columns * s_.k, s_.k, acc);
      const int64_t column = p * tile_.columns, n = std::min(tile_.columns, s_.n - column);
      for (int64_t r = 0; r < count; ++r)
        for (int64_t c = 0; c < n; ++c) {
          const int64_t q = rescale_wide(static_cast<int64_t>(acc[r * tile_.columns + c]), factor_) + zero_;
          y[r * s_.n + column + c] = static_cast<int16_t>(std::clamp(q, low_, high_));
        }
    }
  }

  MatMulShape s_;
  ExactTile tile_;
  FixedFactor factor_;
  int64_t zero_, low_, high_;
  int32_t a_zero_, b_zero_;
  int64_t threads_, panels_, b_bytes_ = 0, slot_bytes_ = 0;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_i16_wide(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (spec.has(2) || attrs.trans_batch_a || attrs.trans_batch_b)
    return spec.refuse("a summand, or matrices in the other order of dimensions");
  if (attrs.rounding != Rounding::kFixedDouble) return spec.refuse("a rounding other than TFLite's fixed point");
  for (const ValueType& t : {spec.inputs[0], spec.inputs[1], spec.outputs[0]})
    if (!is_per_tensor(t.quant)) return spec.refuse("more than one scale for an operand");
  const auto s = MatMulShape::make(spec);
  constexpr int64_t kMostDepth = 1 << 18;  // products stay below 2^34, sums below 2^52
  if (!s || s->k == 0 || s->k > kMostDepth) return spec.refuse("an empty or too deep product");
  const auto rescale = Requantizer::make(type_only(spec.inputs[0]), type_only(spec.inputs[1]), nullptr,
                                         type_only(spec.outputs[0]), s->n, attrs.rescale_rule());
  if (!rescale.ok() || !rescale->fixed_point() || !rescale->wide()) return spec.refuse("a rescaling in real numbers");
  return std::make_unique<MatMulI16Wide>(*s, *rescale, spec);
}

}  // namespace smelt
#endif
