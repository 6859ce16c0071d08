// Einsum, decomposed into transposes, reductions and matrix products.
#include "ops/matmul/einsum_equation.h"

#include <algorithm>
#include <numeric>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/decompose/decomposition.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"

namespace smelt::vulkan {
namespace {

using Labels = std::vector<int>;

/// A value with the label of every dimension.
struct Term {
  ValueId id = kNoValue;
  Labels labels;
  std::vector<int64_t> sizes;
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
      const auto it = std::find(t.labels.begin(), t.labels.end(), labels[d]);
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
    const auto take = [&](int label) {
      perm.push_back(std::find(t.labels.begin(), t.labels.end(), label) - t.labels.begin());
    };
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
  Term product(const Term& a, const Term& b, const Labels& needed) {
    const auto p = EinsumProduct::of(a.labels, b.labels, needed);
    const Term left = arranged(a, p.left()), right = arranged(b, p.right());
    const auto [batches, m, k, n, sizes] = p.sizes(left.sizes, right.sizes);
    Term r{kNoValue, p.result(), sizes};
    r.id = c_.add(Op::kMatMul, make_attrs<MatMulAttrs>(),
                  {c_.reshape(left.id, {batches, m, k}), c_.reshape(right.id, {batches, k, n})});
    r.id = c_.reshape(r.id, r.sizes);
    return r;
  }

 private:
  Decomposition& c_;
};

}  // namespace

std::unique_ptr<Kernel> make_einsum(const KernelSpec& spec) {
  std::vector<int> ranks;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!spec.has(i) || spec.inputs[i].dtype != DType::kF32 || spec.inputs[i].quant || spec.constant(i)) return nullptr;
    ranks.push_back(spec.inputs[i].shape.rank());
    shapes.push_back(spec.inputs[i].shape);
  }
  if (!unquantized_floats(spec, {0}, {0})) return nullptr;
  const auto e = parse_einsum(spec.attrs<EinsumAttrs>().equation, ranks);
  if (!e.ok()) return nullptr;
  const auto sizes = einsum_sizes(*e, shapes);
  if (!sizes.ok()) return nullptr;
  Decomposition c(spec);
  Einsum sum(c);
  Term result = sum.term(c.input(0), e->operands[0], *sizes);
  for (size_t i = 1; i < spec.inputs.size() && result.id != kNoValue; ++i) {
    const Term next = sum.term(c.input(i), e->operands[i], *sizes);
    if (next.id == kNoValue) return nullptr;
    result = sum.product(result, next, needed_after(*e, i + 1));
  }
  Labels present;
  for (int label : e->output)
    if (holds(result.labels, label)) present.push_back(label);
  if (result.id == kNoValue) return nullptr;
  const ValueId before = result.id;
  result = sum.arranged(result, present);
  if (result.id == before && spec.inputs.size() == 1) {  // nothing but a copy
    std::vector<int64_t> same(result.sizes.size());
    std::iota(same.begin(), same.end(), int64_t{0});
    result.id = c.transpose(result.id, same);
  }
  if (result.id == kNoValue) return nullptr;
  const Shape& y = spec.outputs[0].shape;
  return c.kernel({c.reshape(result.id, std::vector<int64_t>(y.begin(), y.end()))});
}

}  // namespace smelt::vulkan
