// 8-bit products whose second operand is computed: it is packed at run time.
#include <algorithm>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/quantized_pair.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt {
namespace {

class MatMulI8Dynamic final : public Kernel {
 public:
  MatMulI8Dynamic(const MatMulShape& s, const QuantizedPair& q, RequantizeParams requantize_params,
                  const KernelSpec& spec)
      : s_(s),
        q_(q),
        requantize_params_(std::move(requantize_params)),
        rescale_(requantize_accumulators(spec.isa, requantize_params_)),
        gemm_(gemm_i8(spec.isa, always_int8(q.w_signed, q.w_zeros))),
        lda_(gemm_.a_row_bytes(s.k)) {
    rows_offset_ = padded_bytes(s.n * s.k * 2);
    packed_at_ = rows_offset_ + padded_bytes(s.m * s.k + 64);
    converted_offset_ = packed_at_ + padded_bytes(gemm_.packed_bytes(s.k, s.n));
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(converted_offset_ + padded_bytes(s_.m * lda_)); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a matrix product");
    const auto* a = ctx.input(0).data<uint8_t>();
    const auto* b = ctx.input(1).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    for (int64_t i = 0; i < s_.batches; ++i) {
      if (i == 0 || s_.b_index(i) != s_.b_index(i - 1)) pack_b(b + s_.offset(s_.g.b, i), scratch);
      multiply(a + s_.offset(s_.g.a, i), scratch, y + i * s_.m * s_.n);
    }
    return Ok();
  }

 private:
  void pack_b(const uint8_t* b, uint8_t* scratch) const {
    auto* weights = reinterpret_cast<int16_t*>(scratch);
    const MatrixView& v = s_.g.b;
    for (int64_t n = 0; n < s_.n; ++n)
      for (int64_t k = 0; k < s_.k; ++k)
        weights[n * s_.k + k] = q_.weight(b[k * v.row_stride + n * v.column_stride], 0);
    gemm_.pack(weights, s_.k, s_.n, nullptr, GemmI8::int8_zero_point(q_.x_signed, q_.x_zero), scratch + packed_at_);
  }
  void multiply(const uint8_t* a, uint8_t* scratch, uint8_t* y) const {
    const MatrixView& v = s_.g.a;
    int64_t stride = v.row_stride;
    if (v.column_stride != 1) {
      uint8_t* rows = scratch + rows_offset_;
      for (int64_t k = 0; k < s_.k; ++k)
        for (int64_t r = 0; r < s_.m; ++r) rows[r * s_.k + k] = a[r * v.row_stride + k * v.column_stride];
      a = rows;
      stride = s_.k;
    }
    gemm_.convert(a, stride, s_.m, s_.k, q_.x_signed, q_.x_zero, scratch + converted_offset_, lda_);
    gemm_.run(s_.m, s_.n, s_.k, scratch + converted_offset_, lda_, q_.x_signed, scratch + packed_at_, 0,
              gemm_.panels(s_.n), [&](const int32_t* acc, int64_t row, int64_t rows, int64_t column, int64_t n) {
                rescale_(requantize_params_, acc, gemm_.nr(), rows, n, column, y + row * s_.n + column, s_.n);
              });
  }

  MatMulShape s_;
  QuantizedPair q_;
  RequantizeParams requantize_params_;
  RequantizeAccumulators rescale_;
  const GemmI8& gemm_;
  int64_t lda_, rows_offset_ = 0, packed_at_ = 0, converted_offset_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_i8_dynamic(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (spec.has(2) || attrs.trans_batch_a || attrs.trans_batch_b) return nullptr;
  const auto s = MatMulShape::make(spec);
  if (!s || s->k == 0) return nullptr;
  const QuantPtr& w = spec.inputs[1].quant;
  if (!w || w->scales.size() != 1) return nullptr;
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1], -1, s->n);
  if (!q) return nullptr;
  auto requantize_params = RequantizeParams::make(spec, s->n, attrs.rescale_rule());
  if (!requantize_params) return nullptr;
  return std::make_unique<MatMulI8Dynamic>(*s, *q, std::move(*requantize_params), spec);
}

}  // namespace smelt
