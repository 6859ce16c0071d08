// 8-bit products whose second operand is computed: it is packed at run time.
#include "backends/cpu/matmul/matmul_i8_dynamic.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/pack_bytes_vnni.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// True if the bytes of b are packed as they lie.
bool packs_bytes(Isa isa, const MatMulShape& s) {
  const GemmI8& gemm = gemm_i8(isa, true);
  return gemm.bytes && gemm.pack_bytes && (s.g.b.row_stride == 1 || s.g.b.column_stride == 1);
}

/// b is packed for every batch. Where its bytes are packed as they lie, b counts from the middle of its type: the rest
/// of its zero point is multiplied with the sums of the rows of a.
class MatMulI8Dynamic final : public Kernel {
 public:
  /// As make_dynamic_product().
  MatMulI8Dynamic(const MatMulShape& s, QuantizedPair q, std::optional<RequantizeParams> requantize_params,
                  const KernelSpec& spec)
      : s_(s),
        q_(std::move(q)),
        requantize_params_(std::move(requantize_params)),
        rescale_(requantize_params_ ? requantize_accumulators(spec.isa, *requantize_params_) : nullptr),
        packs_bytes_(packs_bytes(spec.isa, s)),
        gemm_(gemm_i8(spec.isa, packs_bytes_ || (rescale_ && always_int8(q_.w_signed, q_.w_zeros)))),
        lda_(gemm_.a_row_bytes(s.k)),
        flipped_(gemm_.flips_in_copy(q_.x_signed, s.m, s.n, s.k)),
        slots_(s.b_matrices == s.batches ? std::clamp<int64_t>(spec.threads, 1, s.batches) : 1) {
    rows_offset_ = packs_bytes_ ? 0 : padded_bytes(s.n * s.k * 2);
    packed_at_ = rows_offset_ + padded_bytes(s.m * s.k + 64);
    converted_offset_ = packed_at_ + padded_bytes(gemm_.packed_bytes(s.k, s.n));
    row_sums_at_ = converted_offset_ + padded_bytes(s.m * lda_);
    slot_bytes_ = row_sums_at_ + padded_bytes(s.m * 4);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(slots_ * slot_bytes_); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a matrix product");
    Zeros zeros{q_.x_zero, q_.w_zeros.front()};
    if (!rescale_) zeros = {zero_point(ctx, 2), zero_point(ctx, 3)};
    const auto* a = ctx.input(0).data<uint8_t>();
    const auto* b = ctx.input(1).data<uint8_t>();
    auto* y = static_cast<uint8_t*>(ctx.output(0).raw());
    const int64_t result = s_.m * s_.n * (rescale_ ? 1 : 4);
    in_slots(ctx.threads(), slots_, s_.batches, [&](int64_t i, int64_t slot) {
      uint8_t* const own = scratch + slot * slot_bytes_;
      if (slots_ > 1 || i == 0 || s_.b_index(i) != s_.b_index(i - 1)) pack_b(b + s_.offset(s_.g.b, i), zeros, own);
      multiply(a + s_.offset(s_.g.a, i), zeros, own, y + i * result);
    });
    return Ok();
  }

 private:
  struct Zeros {
    int32_t a, b;
  };
  static int32_t zero_point(KernelContext& ctx, int input) {
    return ctx.has(input) ? static_cast<int32_t>(get_int(ctx.input(input), 0)) : 0;
  }
  void pack_b(const uint8_t* b, const Zeros& zeros, uint8_t* scratch) const {
    const MatrixView& v = s_.g.b;
    const int32_t a_zero = GemmI8::int8_zero_point(q_.x_signed, zeros.a);
    if (packs_bytes_) {
      gemm_.pack_bytes(gemm_, {b, v.row_stride, v.column_stride, s_.k, s_.n, q_.w_signed}, nullptr, a_zero,
                       scratch + packed_at_);
      return;
    }
    auto* weights = reinterpret_cast<int16_t*>(scratch);
    for (int64_t n = 0; n < s_.n; ++n)
      for (int64_t k = 0; k < s_.k; ++k) {
        const uint8_t byte = b[k * v.row_stride + n * v.column_stride];
        weights[n * s_.k + k] =
            static_cast<int16_t>((q_.w_signed ? static_cast<int8_t>(byte) : int32_t{byte}) - zeros.b);
      }
    gemm_.pack(weights, s_.k, s_.n, nullptr, a_zero, scratch + packed_at_);
  }
  /// Rows of a as they lie where the tiles can read them, else a copy. `*stride`: between them.
  const uint8_t* rows_of(const uint8_t* a, const Zeros& zeros, uint8_t* scratch, int64_t* stride) const {
    const MatrixView& v = s_.g.a;
    *stride = v.row_stride;
    if (v.column_stride != 1) {
      uint8_t* rows = scratch + rows_offset_;
      for (int64_t k = 0; k < s_.k; ++k)
        for (int64_t r = 0; r < s_.m; ++r) rows[r * s_.k + k] = a[r * v.row_stride + k * v.column_stride];
      a = rows;
      *stride = s_.k;
    }
    if (gemm_.bytes && !flipped_ && s_.k % gemm_.per_step() == 0) return a;
    gemm_.convert(a, *stride, s_.m, s_.k, q_.x_signed, zeros.a, scratch + converted_offset_, lda_, flipped_);
    *stride = lda_;
    return scratch + converted_offset_;
  }
  void multiply(const uint8_t* a, const Zeros& zeros, uint8_t* scratch, uint8_t* y) const {
    int64_t stride = 0;
    const uint8_t* const rows = rows_of(a, zeros, scratch, &stride);
    auto* const row_sums = reinterpret_cast<int32_t*>(scratch + row_sums_at_);
    const int32_t b_shift = (q_.w_signed ? 0 : 128) - zeros.b;  // what the packed bytes of b lack
    const bool adds = packs_bytes_ && b_shift != 0;
    for (int64_t r = 0; adds && r < s_.m; ++r) {
      const int64_t zero = zeros.a + (flipped_ ? 128 : 0);
      const int64_t sum = gemm_.sum_bytes(rows + r * stride, s_.k, q_.x_signed && !flipped_) - s_.k * zero;
      row_sums[r] = static_cast<int32_t>(static_cast<uint32_t>(sum) * static_cast<uint32_t>(b_shift));
    }
    gemm_.run(s_.m, s_.n, s_.k, rows, stride, q_.x_signed && !flipped_, scratch + packed_at_, 0, gemm_.panels(s_.n),
              [&](int32_t* acc, int64_t row, int64_t count, int64_t column, int64_t n) {
#if defined(__x86_64__)
                if (adds) add_to_rows_vnni(row_sums + row, count, gemm_.nr(), n, acc);
#endif
                const int64_t at = row * s_.n + column;
                if (rescale_) return rescale_(*requantize_params_, acc, gemm_.nr(), count, n, column, y + at, s_.n);
                for (int64_t r = 0; r < count; ++r)
                  std::copy_n(acc + r * gemm_.nr(), n, reinterpret_cast<int32_t*>(y) + at + r * s_.n);
              });
  }

  MatMulShape s_;
  QuantizedPair q_;
  std::optional<RequantizeParams> requantize_params_;
  RequantizeAccumulators rescale_;  ///< null: the accumulators come out
  bool packs_bytes_;
  const GemmI8& gemm_;
  int64_t lda_;
  bool flipped_;   ///< rows of the tiles have their sign bits flipped
  int64_t slots_;  ///< products at once
  int64_t rows_offset_ = 0, packed_at_ = 0, converted_offset_ = 0, row_sums_at_ = 0, slot_bytes_ = 0;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_dynamic_product(const MatMulShape& s, QuantizedPair q,
                                                           std::optional<RequantizeParams> requantize_params,
                                                           const KernelSpec& spec) {
  return std::make_unique<MatMulI8Dynamic>(s, std::move(q), std::move(requantize_params), spec);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_i8_dynamic(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (spec.has(2) || attrs.trans_batch_a || attrs.trans_batch_b) return nullptr;
  const auto s = MatMulShape::make(spec);
  if (!s || s->k == 0) return nullptr;
  const QuantPtr& w = spec.inputs[1].quant;
  if (!w || w->scales.size() != 1) return nullptr;
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1], -1, s->n);
  if (!q) return nullptr;
  auto requantize_params = smelt::requantize_params(spec, s->n, attrs.rescale_rule());
  if (!requantize_params) return nullptr;
  return make_dynamic_product(*s, *q, std::move(requantize_params), spec);
}

}  // namespace smelt
