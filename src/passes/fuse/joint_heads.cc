// Queries, keys and values of all heads that one product makes: parted before their heads are, where they lie.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "passes/fuse/attention_heads.h"
#include "passes/fuse/weighted.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr int64_t kParts = 3;

/// A node that gives part [B, H, S, D] of [3, B, H, S, D].
struct Part {
  size_t node;
  int64_t part;
};

class JointHeads {
 public:
  explicit JointHeads(Graph& graph) : in_(graph), graph_(graph) {}
  void run() {
    for (size_t k = 0; k < graph_.nodes.size(); ++k)
      if (graph_.nodes[k].op == Op::kTranspose) part_before(k);
    put_in_places(graph_, std::move(made_));
  }

 private:
  /// The only number of a constant.
  std::optional<int64_t> integer(ValueId id) const {
    const Tensor* t = in_.constant(id);
    return t && t->elements() == 1 && is_integer(t->dtype()) ? std::optional(get_int(*t, 0)) : std::nullopt;
  }
  /// x [B, S, 3 * H * D], or [B * S, 3 * H * D], of the operand [B, S, 3, H, D] of a Transpose; kNoValue if it is none.
  ValueId joint(const Node& transpose) const {
    const Node* reshape = in_.producer(transpose.inputs[0], Op::kReshape);
    if (!reshape || reshape->inputs.size() != 2 || !in_.is_f32(reshape->inputs[0])) return kNoValue;
    const Shape &x = in_.type(reshape->inputs[0]).shape, &y = in_.type(transpose.inputs[0]).shape;
    if (x.rank() < 2 || x.rank() > 3 || y.rank() != 5 || y[2] != kParts || y[3] < 1 || y[4] < 1 ||
        x.back() != kParts * y[3] * y[4])
      return kNoValue;
    if (x.rank() == 2) return y.is_static() && x[0] == y[0] * y[1] ? reshape->inputs[0] : kNoValue;
    return (x[0] > 0 && x[0] == y[0]) || (x[1] > 0 && x[1] == y[1]) ? reshape->inputs[0] : kNoValue;
  }
  /// The part that a slice [1, B, H, S, D] is.
  std::optional<int64_t> slice_of(const Node& n) const {
    const Tensor* begin = in_.constant(n.inputs[1]);
    const Shape &x = in_.type(n.inputs[0]).shape, &y = in_.type(n.outputs[0]).shape;
    if (!begin || begin->elements() != 5 || !x.is_static() || y != Shape{1, x[1], x[2], x[3], x[4]})
      return std::nullopt;
    const int64_t part = get_int(*begin, 0);
    return part >= 0 && part < kParts ? std::optional(part) : std::nullopt;
  }
  /// True for the node that makes [B, H, S, D] of [1, B, H, S, D].
  bool drops_first(const Node& n) const {
    if (n.op == Op::kSqueeze) return n.inputs.size() == 2 && integer(n.inputs[1]) == 0;
    const Shape &x = in_.type(n.inputs[0]).shape, &y = in_.type(n.outputs[0]).shape;
    return n.op == Op::kReshape && x.rank() == 5 && x.is_static() && y == Shape{x[1], x[2], x[3], x[4]};
  }
  /// The nodes that give parts of a value, which nobody reads otherwise; none if others read it. cuts: the Split
  /// between, or slices.
  std::vector<Part> parts_of(ValueId id, size_t behind, std::vector<size_t>& cuts) const {
    std::vector<Part> parts;
    int readers = 0, squeezes = 0, wanted = 0;
    std::vector<ValueId> slices;
    for (size_t k = behind + 1; k < graph_.nodes.size(); ++k) {
      const Node& n = graph_.nodes[k];
      if (n.inputs.empty()) continue;
      if (n.inputs[0] == id && n.op == Op::kSplit) {
        if (static_cast<const SplitAttrs&>(*n.attrs).axis != 0 || n.inputs.size() > 2 || n.outputs.size() != kParts)
          return {};
        if (!cuts.empty()) return {};
        cuts.push_back(k);
        slices = n.outputs;
        for (const ValueId slice : slices) {
          if (slice == kNoValue || in_.type(slice).shape.rank() != 5 || in_.type(slice).shape[0] != 1) return {};
          wanted += in_.uses(slice);
        }
        ++readers;
      } else if (n.inputs[0] == id && n.op == Op::kGather) {
        const auto& a = static_cast<const GatherAttrs&>(*n.attrs);
        const auto i = integer(n.inputs[1]);
        if (a.axis != 0 || a.batch_dims != 0 || !i || in_.type(n.outputs[0]).shape.rank() != 4) return {};
        if (*i < (a.negative ? -kParts : 0) || *i >= kParts) return {};
        parts.push_back({k, *i < 0 ? *i + kParts : *i});
        ++readers;
      } else if (n.inputs[0] == id && n.op == Op::kSliceSize) {
        const auto part = slice_of(n);
        if (!part) return {};
        slices.resize(kParts, kNoValue);
        if (slices[static_cast<size_t>(*part)] != kNoValue) return {};
        slices[static_cast<size_t>(*part)] = n.outputs[0];
        wanted += in_.uses(n.outputs[0]);
        cuts.push_back(k);
        ++readers;
      } else if (const auto slice = std::ranges::find(slices, n.inputs[0]); slice != slices.end()) {
        if (!drops_first(n)) return {};
        parts.push_back({k, slice - slices.begin()});
        ++squeezes;
      }
    }
    return readers == in_.uses(id) && squeezes == wanted ? parts : std::vector<Part>();
  }
  /// True if a product reads a value, which nobody else does, scaled or transposed or as it is.
  bool feeds_product(ValueId id, size_t behind) const {
    for (size_t k = behind + 1; k < graph_.nodes.size() && in_.has_one_use(id); ++k) {
      const Node& n = graph_.nodes[k];
      if (std::ranges::find(n.inputs, id) == n.inputs.end()) continue;
      if (n.op == Op::kMatMul) return true;
      if (n.op != Op::kTranspose && n.op != Op::kBinary) return false;
      id = n.outputs[0];
    }
    return false;
  }
  void part_before(size_t index) {
    const Node& n = graph_.nodes[index];
    const std::vector<int64_t> kPartsFirst{2, 0, 3, 1, 4}, kSwapHeads{0, 2, 1, 3};
    if (n.inputs.empty() || !in_.is_f32(n.outputs[0]) || in_.permutation(n) != kPartsFirst) return;
    const ValueId x = joint(n);
    if (x == kNoValue) return;
    std::vector<size_t> cuts;
    const std::vector<Part> parts = parts_of(n.outputs[0], index, cuts);
    const auto fed = [&](const Part& p) { return feeds_product(graph_.nodes[p.node].outputs[0], p.node); };
    if (parts.empty() || !std::ranges::all_of(parts, fed)) return;
    const Shape all = in_.type(n.inputs[0]).shape;
    std::vector<Node>& in_place = made_[index];
    ValueId rows = x;
    if (in_.type(x).shape.rank() == 2) {
      const Shape shape{all[0], all[1], in_.type(x).shape[1]};
      rows = in_.add_value(ValueType::tensor(DType::kF32, shape));
      Node& reshape = in_place.emplace_back(
          remade(n, Op::kReshape, make_attrs<ReshapeAttrs>(), {x, dims_of(in_, shape)}, "Reshape"));
      reshape.outputs = {rows};
    }
    Node apart = remade(n, Op::kSplit, make_attrs<SplitAttrs>(), {rows}, n.origin.c_str());
    SplitAttrs a;
    a.axis = 2;
    a.count = kParts;
    apart.attrs = make_attrs<SplitAttrs>(a);
    apart.outputs.clear();
    for (int64_t i = 0; i < kParts; ++i)
      apart.outputs.push_back(in_.add_value(ValueType::tensor(DType::kF32, Shape{all[0], all[1], all[3] * all[4]})));
    Tensor heads(DType::kI64, Shape{4});
    std::ranges::copy(std::vector<int64_t>{0, 0, all[3], all[4]}, heads.data<int64_t>());
    const ValueId target = add_constant(in_, std::move(heads));
    ReshapeAttrs copies;
    copies.allow_zero = false;
    for (const Part& part : parts) {
      const Node& from = graph_.nodes[part.node];
      Node reshape = remade(from, Op::kReshape, make_attrs<ReshapeAttrs>(copies),
                            {apart.outputs[static_cast<size_t>(part.part)], target}, "Reshape");
      reshape.outputs = {in_.add_value(ValueType::tensor(DType::kF32, Shape{all[0], all[1], all[3], all[4]}))};
      Node swap =
          remade(from, Op::kTranspose, make_attrs<TransposeAttrs>(kSwapHeads), {reshape.outputs[0]}, "Transpose");
      made_[part.node] = {std::move(reshape), std::move(swap)};
    }
    for (const size_t cut : cuts) made_[cut] = {};
    in_place.push_back(std::move(apart));
  }

  Pattern in_;
  Graph& graph_;
  std::map<size_t, std::vector<Node>> made_;  ///< in the place of nodes
};

}  // namespace

void part_joint_heads(Graph& graph) { JointHeads(graph).run(); }

}  // namespace smelt
