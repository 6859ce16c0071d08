#include <algorithm>

#include "ops/common/gemm.h"
#include "ops/common/operands.h"
#include "ops/matmul/einsum_equation.h"
#include "ops/matmul/matmul.h"

namespace smelt {
namespace {

/// An operand or intermediate result: dense, with distinct labels.
template <class T>
struct Term {
  std::vector<int> labels;
  std::vector<int64_t> sizes;
  const T* data = nullptr;
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
};

/// Product of sizes; an error above 2^40.
Result<int64_t> checked_product(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes)
    if (__builtin_mul_overflow(n, s, &n) || n > (int64_t{1} << 40)) return LimitReached("an einsum is too large");
  return n;
}

/// Reads `from` with the given strides over `sizes`, then summed over the trailing `sum_dims` dimensions.
template <class T>
Result<const T*> gather(KernelContext& ctx, const T* from, const std::vector<int64_t>& sizes,
                        const std::vector<int64_t>& strides, size_t sum_dims) {
  const size_t kept = sizes.size() - sum_dims;
  SMELT_ASSIGN(const int64_t outer, checked_product({sizes.begin(), sizes.begin() + static_cast<long>(kept)}));
  SMELT_ASSIGN(const int64_t inner, checked_product({sizes.begin() + static_cast<long>(kept), sizes.end()}));
  SMELT_ASSIGN(T* const out, scratch_array<T>(ctx, outer));
  std::vector<int64_t> at(sizes.size(), 0);
  int64_t offset = 0;
  for (int64_t o = 0; o < outer; ++o) {
    T sum{};
    for (int64_t i = 0; i < inner; ++i) {
      sum += from[offset];
      const size_t stop = i + 1 == inner ? 0 : kept;
      for (size_t d = sizes.size(); d-- > stop;) {
        offset += strides[d];
        if (++at[d] < sizes[d]) break;
        offset -= strides[d] * sizes[d];
        at[d] = 0;
      }
    }
    out[o] = sum;
  }
  return static_cast<const T*>(out);
}

/// Brings a term to the label order `wanted` (a subset of its labels); the others are summed.
template <class T>
Result<Term<T>> arranged(KernelContext& ctx, const Term<T>& t, const std::vector<int>& wanted) {
  if (t.labels == wanted) return t;
  std::vector<int64_t> own(t.labels.size(), 1);
  for (size_t d = own.size(); d-- > 1;) own[d - 1] = own[d] * t.sizes[d];
  Term<T> r;
  std::vector<int64_t> sizes, strides;
  const auto take = [&](int label) {
    const size_t d = static_cast<size_t>(std::ranges::find(t.labels, label) - t.labels.begin());
    sizes.push_back(t.sizes[d]);
    strides.push_back(own[d]);
  };
  for (int label : wanted) take(label);
  r.labels = wanted;
  r.sizes = sizes;
  size_t summed = 0;
  for (int label : t.labels)
    if (!holds(wanted, label)) {
      take(label);
      ++summed;
    }
  SMELT_ASSIGN(r.data, gather(ctx, t.data, sizes, strides, summed));
  return r;
}

/// An operand as a term: repeated labels read the diagonal, broadcast dimensions of extent 1 are dropped.
template <class T>
Result<Term<T>> term_of(KernelContext& ctx, const Tensor& t, const std::vector<int>& labels, const LabelSizes& all) {
  SMELT_ASSIGN(const T* const data, operand<T>(ctx, t));
  const Shape strides = t.shape().strides();
  Term<T> r;
  std::vector<int64_t> steps;
  bool whole = true;
  for (size_t d = 0; d < labels.size(); ++d) {
    const int64_t size = t.dim(static_cast<int>(d)), stride = strides[static_cast<int>(d)];
    if (size == 1 && all.of(labels[d]) != 1) continue;
    const auto it = std::ranges::find(r.labels, labels[d]);
    if (it != r.labels.end()) {
      steps[static_cast<size_t>(it - r.labels.begin())] += stride;
      whole = false;
      continue;
    }
    r.labels.push_back(labels[d]);
    r.sizes.push_back(size);
    steps.push_back(stride);
  }
  r.data = data;
  if (!whole) {
    SMELT_ASSIGN(r.data, gather(ctx, data, r.sizes, steps, 0));
  }
  return r;
}

/// Sum of products of two terms, keeping the labels in `needed`.
template <class T>
Result<Term<T>> contracted(KernelContext& ctx, const Term<T>& a, const Term<T>& b, const std::vector<int>& needed) {
  const auto p = EinsumProduct::of(a.labels, b.labels, needed);
  SMELT_ASSIGN(const Term<T> left, arranged(ctx, a, p.left()));
  SMELT_ASSIGN(const Term<T> right, arranged(ctx, b, p.right()));
  const auto [batches, m, k, n, sizes] = p.sizes(left.sizes, right.sizes);
  Term<T> r;
  r.labels = p.result();
  r.sizes = sizes;
  SMELT_ASSIGN(const int64_t total, checked_product(r.sizes));
  SMELT_ASSIGN(T* const out, scratch_array<T>(ctx, total));
  std::fill_n(out, total, T{});
  for (int64_t i = 0; i < batches; ++i) {
    SMELT_TRY(ctx.tick());
    gemm_accumulate(m, n, k, left.data + i * m * k, k, right.data + i * k * n, n, out + i * m * n, n);
  }
  r.data = out;
  return r;
}

template <class T>
Status einsum(KernelContext& ctx, const EinsumEquation& e, const LabelSizes& sizes) {
  SMELT_ASSIGN(Term<T> result, term_of<T>(ctx, ctx.input(0), e.operands[0], sizes));
  for (int i = 1; i < ctx.inputs(); ++i) {
    const auto at = static_cast<size_t>(i);
    SMELT_ASSIGN(const Term<T> next, term_of<T>(ctx, ctx.input(i), e.operands[at], sizes));
    SMELT_ASSIGN(result, contracted(ctx, result, next, needed_after(e, at + 1)));
  }
  // An output label of extent 1 may have been dropped nowhere, but a broadcast one may be missing from the result.
  std::vector<int> present;
  for (int label : e.output)
    if (holds(result.labels, label)) present.push_back(label);
  SMELT_ASSIGN(const Term<T> ordered, arranged(ctx, result, present));
  if (ordered.elements() != ctx.output(0).elements()) return Internal("an einsum lost a dimension");
  store(ordered.data, ctx.output(0));
  return Ok();
}

}  // namespace

Status infer_Einsum(InferContext& ctx) {
  ValueType y = ValueType::tensor(ctx.input(0).dtype);
  std::vector<int> ranks;
  std::vector<Shape> shapes;
  for (int i = 0; i < ctx.inputs(); ++i) {
    if (!ctx.has(i)) return InvalidModel("an operand of Einsum is absent");
    if (!ctx.input(i).ranked) break;
    ranks.push_back(ctx.input(i).shape.rank());
    shapes.push_back(ctx.input(i).shape);
  }
  if (static_cast<int>(ranks.size()) == ctx.inputs()) {
    SMELT_ASSIGN(const EinsumEquation e, parse_einsum(ctx.attrs<EinsumAttrs>().equation, ranks));
    SMELT_ASSIGN(const LabelSizes sizes, einsum_sizes(e, shapes));
    y.ranked = true;
    for (int label : e.output) y.shape.push_back(sizes.of(label));
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_Einsum(KernelContext& ctx) {
  std::vector<int> ranks;
  std::vector<Shape> shapes;
  Compute widest = compute_of(ctx.input(0).dtype());
  for (int i = 0; i < ctx.inputs(); ++i) {
    ranks.push_back(ctx.input(i).rank());
    shapes.push_back(ctx.input(i).shape());
    widest = std::max(widest, compute_of(ctx.input(0), ctx.input(i)));
  }
  SMELT_ASSIGN(const EinsumEquation e, parse_einsum(ctx.attrs<EinsumAttrs>().equation, ranks));
  SMELT_ASSIGN(const LabelSizes sizes, einsum_sizes(e, shapes));
  return with_compute(widest, [&]<class T>() { return einsum<T>(ctx, e, sizes); });
}

}  // namespace smelt
