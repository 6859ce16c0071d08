// Einsum, decomposed into transposes, reductions and matrix products.
#include "ops/matmul/einsum_equation.h"

#include <algorithm>
#include <numeric>

#include "ops/core/decomposition.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "passes/decompose/rules.h"

namespace smelt::decomposition {
namespace {

using Labels = std::vector<int>;
using Dims = std::vector<int64_t>;

/// A value with the label of every dimension.
struct Term {
  ValueId id = kNoValue;
  Labels labels;
  Dims sizes;
  int64_t size(int label) const {
    return sizes[static_cast<size_t>(std::ranges::find(labels, label) - labels.begin())];
  }
};

/// Lowers one sum, as the reference kernel goes about it: operand after operand, a product of matrices each.
class Einsum {
 public:
  explicit Einsum(Decomposition& c) : c_(c) {}

  /// An operand: of repeated labels the diagonal, dimensions of 1 that broadcast dropped.
  Term term(ValueId id, const Labels& labels, const LabelSizes& all) {
    const Shape shape = c_.shape(id), strides = shape.strides();
    Term t{id};
    AsStridedAttrs diagonal;
    bool repeated = false;
    for (size_t d = 0; d < labels.size(); ++d) {
      const int axis = static_cast<int>(d);
      if (shape[axis] == 1 && all.of(labels[d]) != 1) continue;
      const auto it = std::ranges::find(t.labels, labels[d]);
      if (it != t.labels.end()) {
        diagonal.stride[static_cast<size_t>(it - t.labels.begin())] += strides[axis];
        repeated = true;
        continue;
      }
      t.labels.push_back(labels[d]);
      t.sizes.push_back(shape[axis]);
      diagonal.stride.push_back(strides[axis]);
    }
    diagonal.size = t.sizes;
    t.id = repeated ? c_.add(Op::kAsStrided, make_attrs<AsStridedAttrs>(diagonal), {id}) : c_.reshape(id, t.sizes);
    return t;
  }
  /// The term with its labels in the order `wanted`; the others are summed.
  Term arranged(const Term& t, const Labels& wanted) {
    if (t.labels == wanted) return t;
    Term r{kNoValue, wanted};
    std::vector<int64_t> perm, axes;
    const auto take = [&](int label) { perm.push_back(std::ranges::find(t.labels, label) - t.labels.begin()); };
    for (int label : wanted) {
      take(label);
      r.sizes.push_back(t.sizes[static_cast<size_t>(perm.back())]);
    }
    for (int label : t.labels) {
      if (holds(wanted, label)) continue;
      axes.push_back(static_cast<int64_t>(perm.size()));
      take(label);
    }
    r.id = std::is_sorted(perm.begin(), perm.end()) ? t.id : c_.transpose(t.id, perm);
    if (axes.empty() || r.id == kNoValue) return r;
    r.id = c_.add(Op::kReduce, make_attrs<ReduceAttrs>(), {r.id, c_.i64(axes)});
    return r;
  }
  /// The product of two operands with all labels that are needed later. A second operand that lies transposed stays so.
  Term product(const Term& a, const Term& b, const Labels& needed) {
    const auto p = EinsumProduct::of(a.labels, b.labels, needed);
    Labels transposed = p.batch;
    for (const Labels& more : {p.columns, p.inner}) transposed.insert(transposed.end(), more.begin(), more.end());
    MatMulAttrs attrs;
    attrs.transpose_b = b.labels == transposed && transposed != p.right();
    const Term left = arranged(a, p.left()), right = attrs.transpose_b ? b : arranged(b, p.right());
    Dims right_sizes;
    for (int label : p.right()) right_sizes.push_back(right.size(label));
    const auto [batches, m, k, n, sizes] = p.sizes(left.sizes, right_sizes);
    Term r{kNoValue, p.result(), sizes};
    const int64_t rows = attrs.transpose_b ? n : k, columns = attrs.transpose_b ? k : n;
    const bool one = batches == 1;
    r.id = c_.add(Op::kMatMul, make_attrs<MatMulAttrs>(attrs),
                  {c_.reshape(left.id, one ? Dims{m, k} : Dims{batches, m, k}),
                   c_.reshape(right.id, one ? Dims{rows, columns} : Dims{batches, rows, columns})});
    r.id = c_.reshape(r.id, r.sizes);
    return r;
  }

 private:
  Decomposition& c_;
};

}  // namespace

std::optional<DecomposedNode> einsum(const NodeSpec& spec) {
  std::vector<int> ranks;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!unquantized(spec, {i}, kFloatTypes)) return std::nullopt;
    ranks.push_back(spec.inputs[i].shape.rank());
    shapes.push_back(spec.inputs[i].shape);
  }
  const auto e = parse_einsum(spec.attrs<EinsumAttrs>().equation, ranks);
  if (!e.ok()) return std::nullopt;
  const auto sizes = einsum_sizes(*e, shapes);
  if (!sizes.ok()) return std::nullopt;
  Decomposition c(spec);
  Einsum sum(c);
  Term result = sum.term(c.cast(c.input(0), DType::kF32), e->operands[0], *sizes);
  for (size_t i = 1; i < spec.inputs.size() && result.id != kNoValue; ++i) {
    const Term next = sum.term(c.cast(c.input(i), DType::kF32), e->operands[i], *sizes);
    if (next.id == kNoValue) return std::nullopt;
    result = sum.product(result, next, needed_after(*e, i + 1));
  }
  Labels present;
  for (int label : e->output)
    if (holds(result.labels, label)) present.push_back(label);
  if (result.id == kNoValue) return std::nullopt;
  result = sum.arranged(result, present);
  if (result.id == c.input(0)) {  // nothing but a copy
    std::vector<int64_t> same(result.sizes.size());
    std::iota(same.begin(), same.end(), int64_t{0});
    result.id = c.transpose(result.id, same);
  }
  if (result.id == kNoValue) return std::nullopt;
  return c.finish({c.cast(c.reshape(result.id, dims_of(spec.outputs[0].shape)), spec.outputs[0].dtype)});
}

}  // namespace smelt::decomposition
