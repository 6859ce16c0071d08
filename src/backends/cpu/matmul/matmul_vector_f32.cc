// Products in which one operand is a vector, or a few rows: the matrix is read once, as it lies.
#include <algorithm>

#include "backends/cpu/attention/row_attention.h"
#include "backends/cpu/core/kernel.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt {
namespace {

constexpr int64_t kVector = 16;  ///< entries of the longest vector: shorter lines are no lines
constexpr int64_t kFewRows = 4;

/// Each result is the product of two lines of k neighbours.
class LinesTimesLines final : public Kernel {
 public:
  /// few: the operand of few lines, each behind the other. step: from a line of the other to the next.
  LinesTimesLines(const MatMulShape& s, int few, int64_t step, const KernelSpec& spec)
      : s_(s),
        few_(few),
        lines_(few == 0 ? s.m : s.n),
        many_(few == 0 ? s.n : s.m),
        step_(step),
        alpha_(static_cast<float>(spec.attrs<MatMulAttrs>().alpha)),
        ops_(row_attention(spec.isa)) {}
  Status run(KernelContext& ctx) const override {
    constexpr int64_t kGrain = 16384;  // products
    const float *a = ctx.input(0).data<float>(), *b = ctx.input(1).data<float>();
    float* const y = ctx.output(0).data<float>();
    const int64_t rows = std::clamp<int64_t>(kGrain / s_.k, 1, many_), parts = ceil_div(many_, rows);
    ctx.threads().parallel_for(s_.batches * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / parts, first = i % parts * rows;
        const float *of_a = a + s_.offset(s_.g.a, batch), *of_b = b + s_.offset(s_.g.b, batch);
        ops_.scores(few_ == 0 ? of_a : of_b, lines_,
                    {(few_ == 0 ? of_b : of_a) + first * step_, step_, std::min(rows, many_ - first), s_.k}, alpha_,
                    y + batch * lines_ * many_ + first, many_);
      }
    });
    return Ok();
  }

 private:
  MatMulShape s_;
  int few_;
  int64_t lines_, many_, step_;
  float alpha_;
  const RowAttention& ops_;
};

/// The result is a sum of b's rows.
class SumOfRows final : public Kernel {
 public:
  SumOfRows(const MatMulShape& s, Isa isa) : s_(s), ops_(row_attention(isa)) {}
  Status run(KernelContext& ctx) const override {
    constexpr int64_t kColumns = 256;
    const float *a = ctx.input(0).data<float>(), *b = ctx.input(1).data<float>();
    float* const y = ctx.output(0).data<float>();
    const int64_t parts = ceil_div(s_.n, kColumns);
    ctx.threads().parallel_for(s_.batches * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / parts, first = i % parts * kColumns;
        ops_.weigh(a + s_.offset(s_.g.a, batch), s_.k, 1,
                   {b + s_.offset(s_.g.b, batch) + first, s_.g.b.row_stride, s_.k, std::min(kColumns, s_.n - first)},
                   y + batch * s_.n + first);
      }
    });
    return Ok();
  }

 private:
  MatMulShape s_;
  const RowAttention& ops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_vector_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = MatMulShape::make(spec);
  if (!s || spec.has(2) || attrs.act.kind != ActKind::kNone) return nullptr;
  const MatrixView &a = s->g.a, &b = s->g.b;
  const bool rows_lie = s->m == 1 || a.row_stride == s->k;
  if (a.column_stride != 1 && s->k > 1) return spec.refuse("a is transposed");
  if (s->n == 1 && b.row_stride == 1 && s->k >= kVector && s->m > 1)
    return std::make_unique<LinesTimesLines>(*s, 1, a.row_stride, spec);
  if (spec.constant(1)) return spec.refuse("a constant matrix is packed");
  if (s->m <= kFewRows && rows_lie && b.row_stride == 1 && s->k >= kVector)
    return std::make_unique<LinesTimesLines>(*s, 0, b.column_stride, spec);
  if (s->m == 1 && b.column_stride == 1 && s->n >= kVector && attrs.alpha == 1)
    return std::make_unique<SumOfRows>(*s, spec.isa);
  return spec.refuse("no operand is a vector");
}

}  // namespace smelt
