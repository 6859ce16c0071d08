// Products of a mixture of experts: rows of one expert are gathered and multiplied together.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "backends/cpu/core/inner_context.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/workspace.h"
#include "ops/matmul/experts.h"
#include "ops/matmul/matmul.h"

namespace smelt {
namespace {

/// Rows that a product has: an expert's are cut into such numbers, and padded where little is missing.
constexpr std::array<int64_t, 5> kRows = {1, 4, 16, 64, 256};

/// The entry of kRows for the next product of `left` rows.
size_t rows_of_next(int64_t left, size_t sizes) {
  size_t i = 0;
  while (i + 1 < sizes && left >= kRows[i + 1]) ++i;
  return i + 1 < sizes && left * 4 > kRows[i + 1] * 3 ? i + 1 : i;
}

class ExpertMatMul final : public Kernel {
 public:
  /// products: of each expert, by the entries of kRows.
  ExpertMatMul(const ExpertGeometry& g, Node product, std::vector<std::unique_ptr<Kernel>> products, size_t sizes)
      : g_(g), product_(std::move(product)), products_(std::move(products)), sizes_(sizes) {
    rows_ = g.tokens * g.each;
    experts_ = static_cast<int64_t>(products_.size() / sizes);
    for (const auto& p : products_) inner_bytes_ = std::max(inner_bytes_, p->scratch_bytes());
    in_bytes_ = padded_bytes(kRows[sizes - 1] * g.in * 4);
    out_bytes_ = padded_bytes(kRows[sizes - 1] * g.out * 4);
    order_bytes_ = padded_bytes((rows_ + experts_ + 1) * 4);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(order_bytes_ + in_bytes_ + out_bytes_) + inner_bytes_;
  }
  [[gnu::cold]] Status run(KernelContext& ctx) const override {
    auto* const scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the rows of experts");
    // Rows by their experts: ends[e] is behind the last one of e, once they are in order.
    auto* const ends = reinterpret_cast<int32_t*>(scratch);
    int32_t* const order = ends + experts_ + 1;
    std::fill_n(ends, experts_ + 1, 0);
    for (int64_t row = 0; row < rows_; ++row) {
      SMELT_ASSIGN(const int64_t id, g_.expert_of(ctx.input(1), row, experts_));
      ++ends[id + 1];
    }
    for (int64_t e = 0; e < experts_; ++e) ends[e + 1] += ends[e];
    for (int64_t row = 0; row < rows_; ++row) {
      SMELT_ASSIGN(const int64_t id, g_.expert_of(ctx.input(1), row, experts_));
      order[ends[id]++] = static_cast<int32_t>(row);
    }
    const int32_t* rows = order;
    for (int64_t e = 0; e < experts_; ++e) {
      const int32_t* const end = order + ends[e];
      while (rows < end) {
        const size_t size = rows_of_next(end - rows, sizes_);
        const int64_t n = std::min<int64_t>(kRows[size], end - rows);
        SMELT_TRY(multiply(ctx, e, size, {rows, static_cast<size_t>(n)}, scratch + order_bytes_));
        rows += n;
      }
    }
    return Ok();
  }

 private:
  [[gnu::cold]] Status multiply(KernelContext& ctx, int64_t expert, size_t size, std::span<const int32_t> rows,
                                char* scratch) const {
    const auto* const x = ctx.input(0).data<float>();
    auto* const y = ctx.output(0).data<float>();
    auto* const gathered = reinterpret_cast<float*>(scratch);
    auto* const products = reinterpret_cast<float*>(scratch + in_bytes_);
    const bool one = kRows[size] == 1;  // of x and y themselves
    const auto n = static_cast<int64_t>(rows.size());
    const float* const from = one ? x + g_.row_of_x(rows[0]) * g_.in : gathered;
    float* const to = one ? y + rows[0] * g_.out : products;
    for (int64_t i = 0; !one && i < n; ++i)
      std::copy_n(x + g_.row_of_x(rows[static_cast<size_t>(i)]) * g_.in, g_.in, gathered + i * g_.in);
    if (n < kRows[size]) std::fill_n(gathered + n * g_.in, (kRows[size] - n) * g_.in, 0.0f);
    std::array<Datum, 2> inputs;
    inputs[0] = Tensor::view(DType::kF32, {kRows[size], g_.in}, from, nullptr);
    inputs[1] = ctx.datum(kFirstExpert + static_cast<int>(expert));
    Tensor out = Tensor::view(DType::kF32, {kRows[size], g_.out}, to, nullptr);
    InnerContext inner(ctx, inputs, out, scratch + in_bytes_ + out_bytes_, &product_);
    SMELT_TRY(products_[static_cast<size_t>(expert) * sizes_ + size]->run(inner));
    for (int64_t i = 0; !one && i < n; ++i)
      std::copy_n(products + i * g_.out, g_.out, y + rows[static_cast<size_t>(i)] * g_.out);
    return Ok();
  }

  ExpertGeometry g_;
  Node product_;
  std::vector<std::unique_ptr<Kernel>> products_;
  size_t sizes_, inner_bytes_ = 0;
  int64_t rows_ = 0, experts_ = 0, order_bytes_ = 0, in_bytes_ = 0, out_bytes_ = 0;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_expert_matmul(const KernelSpec& spec) {
  const auto& a = spec.attrs<ExpertMatMulAttrs>();
  const auto g = expert_geometry(a, spec.inputs[0].shape, spec.inputs[1].shape, spec.inputs[kFirstExpert].shape);
  if (!g.ok() || spec.outputs[0].shape.elements() == 0 || g->in == 0) return nullptr;
  Node product;
  product.op = Op::kMatMul;
  MatMulAttrs attrs;
  attrs.transpose_b = a.transposed;
  product.attrs = make_attrs<MatMulAttrs>(attrs);
  product.inputs = {0, 1};
  product.outputs = {2};
  size_t sizes = 1;
  while (sizes < kRows.size() && kRows[sizes] <= g->tokens * g->each) ++sizes;
  std::vector<std::unique_ptr<Kernel>> products;
  for (size_t i = kFirstExpert; i < spec.inputs.size(); ++i) {
    if (!spec.constant(i)) return spec.refuse("computed matrices");
    for (size_t size = 0; size < sizes; ++size) {
      const std::array inputs{ValueType::tensor(DType::kF32, Shape{kRows[size], g->in}), spec.inputs[i]};
      const std::array<const Tensor*, 2> constants{nullptr, spec.constant(i)};
      const std::array outputs{ValueType::tensor(DType::kF32, Shape{kRows[size], g->out})};
      auto kernel = make_kernel({{product, inputs, constants, outputs}, spec.isa, spec.threads, spec.packs, spec.why});
      if (!kernel) return nullptr;
      products.push_back(std::move(kernel));
    }
  }
  return std::make_unique<ExpertMatMul>(*g, std::move(product), std::move(products), sizes);
}

}  // namespace smelt
