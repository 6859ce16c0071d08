// Products in which one operand is a vector, or a few rows: the matrix is read once, as it lies.
#include <algorithm>

#include "backends/cpu/attention/row_attention.h"
#include "backends/cpu/core/kernel.h"
#include "ops/common/activated.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt {
namespace {

constexpr int64_t kVector = 16;  ///< entries of the longest vector: shorter lines are no lines
constexpr int64_t kFewRows = 4;

/// What follows the sums of n neighbouring results: y = act(y + beta c).
class Finish {
 public:
  explicit Finish(const KernelSpec& spec)
      : act_(spec.attrs<MatMulAttrs>().act),
        beta_(static_cast<float>(spec.attrs<MatMulAttrs>().beta)),
        has_c_(spec.has(2) && beta_ != 0) {}
  bool takes(const KernelSpec& spec, const MatMulShape& s) const { return !has_c_ || s.is_row(spec.inputs[2].shape); }
  /// The results' columns begin at `first`; across: all are of that column.
  void operator()(const KernelContext& ctx, int64_t first, bool across, int64_t n, float* y) const {
    const float* const c = has_c_ ? ctx.input(2).data<float>() + first : nullptr;
    for (int64_t i = 0; c && i < n; ++i) y[i] += beta_ * c[across ? 0 : i];
    activate_all(act_, n, y);
  }

 private:
  Activation act_;
  float beta_;
  bool has_c_;
};

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
        ops_(row_attention(spec.isa)),
        finish_(spec) {}
  Status run(KernelContext& ctx) const override {
    constexpr int64_t kGrain = 16384;  // products
    const float *a = ctx.input(0).data<float>(), *b = ctx.input(1).data<float>();
    float* const y = ctx.output(0).data<float>();
    const int64_t rows = std::clamp<int64_t>(kGrain / s_.k, 1, many_), parts = ceil_div(many_, rows);
    ctx.threads().parallel_for(s_.batches * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / parts, first = i % parts * rows, n = std::min(rows, many_ - first);
        const float *of_a = a + s_.offset(s_.g.a, batch), *of_b = b + s_.offset(s_.g.b, batch);
        float* const to = y + batch * lines_ * many_ + first;
        ops_.scores(few_ == 0 ? of_a : of_b, lines_, {(few_ == 0 ? of_b : of_a) + first * step_, step_, n, s_.k},
                    alpha_, to, many_);
        for (int64_t line = 0; line < lines_; ++line)
          finish_(ctx, few_ == 0 ? first : line, few_ == 1, n, to + line * many_);
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
  Finish finish_;
};

/// The result is a sum of b's rows.
class SumOfRows final : public Kernel {
 public:
  SumOfRows(const MatMulShape& s, const KernelSpec& spec) : s_(s), ops_(row_attention(spec.isa)), finish_(spec) {}
  Status run(KernelContext& ctx) const override {
    constexpr int64_t kColumns = 256;
    const float *a = ctx.input(0).data<float>(), *b = ctx.input(1).data<float>();
    float* const y = ctx.output(0).data<float>();
    const int64_t parts = ceil_div(s_.n, kColumns);
    ctx.threads().parallel_for(s_.batches * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / parts, first = i % parts * kColumns, n = std::min(kColumns, s_.n - first);
        float* const to = y + batch * s_.n + first;
        ops_.weigh(a + s_.offset(s_.g.a, batch), s_.k, 1,
                   {b + s_.offset(s_.g.b, batch) + first, s_.g.b.row_stride, s_.k, n}, to);
        finish_(ctx, first, false, n, to);
      }
    });
    return Ok();
  }

 private:
  MatMulShape s_;
  const RowAttention& ops_;
  Finish finish_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_vector_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = MatMulShape::make(spec);
  if (!s) return nullptr;
  if (!Finish(spec).takes(spec, *s)) return spec.refuse("the addend is no row");
  const MatrixView &a = s->g.a, &b = s->g.b;
  const bool rows_lie = s->m == 1 || a.row_stride == s->k;
  if (a.column_stride != 1 && s->k > 1) return spec.refuse("a is transposed");
  if (s->n == 1 && b.row_stride == 1 && s->k >= kVector && s->m > 1)
    return std::make_unique<LinesTimesLines>(*s, 1, a.row_stride, spec);
  if (spec.constant(1)) return spec.refuse("a constant matrix is packed");
  if (s->m <= kFewRows && rows_lie && b.row_stride == 1 && s->k >= kVector)
    return std::make_unique<LinesTimesLines>(*s, 0, b.column_stride, spec);
  if (s->m == 1 && b.column_stride == 1 && s->n >= kVector && attrs.alpha == 1)
    return std::make_unique<SumOfRows>(*s, spec);
  return spec.refuse("no operand is a vector");
}

}  // namespace smelt
