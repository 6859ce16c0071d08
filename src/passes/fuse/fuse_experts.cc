// Mixtures of experts that exporters write as matrices gathered for each row, and products of one row with each.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/matmul/experts.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "passes/fuse/pattern.h"
#include "passes/fuse/weighted.h"
#include "passes/passes.h"

namespace smelt {
namespace {

class Experts {
 public:
  explicit Experts(Graph& graph) : in_(graph), graph_(graph) {}
  void run() {
    for (size_t k = 0; k < graph_.nodes.size(); ++k)
      if (graph_.nodes[k].op == Op::kMatMul) replace(k);
    put_in_places(graph_, std::move(made_));
  }

 private:
  /// The node that gathers whole matrices of a constant for one product alone, an index for each; nullptr if it is
  /// none.
  const Node* gathers_matrices(ValueId id) const {
    const int by = in_.has_one_use(id) ? in_.index_of_producer(id) : -1;
    if (by < 0) return nullptr;
    const Node& n = in_.node(by);
    if (n.op != Op::kGather && n.op != Op::kGatherND) return nullptr;
    const auto& a = static_cast<const GatherAttrs&>(*n.attrs);
    const Tensor* matrices = in_.constant(n.inputs[0]);
    const ValueType& ids = in_.type(n.inputs[1]);
    if (!matrices || matrices->source() || !in_.is_f32(n.inputs[0]) || matrices->rank() != 3 ||
        matrices->elements() == 0 || a.batch_dims != 0 || !ids.ranked)
      return nullptr;
    if (n.op == Op::kGatherND) return ids.shape.rank() == 2 && ids.shape[1] == 1 ? &n : nullptr;
    return a.axis == 0 && a.negative && ids.shape.rank() == 1 ? &n : nullptr;
  }

  /// Adds a node that gives `x` the shape of a target whose zeros stand for dimensions of x.
  ValueId reshaped(std::vector<Node>& nodes, const Node& of, ValueId x, const std::vector<int64_t>& target,
                   const Shape& shape, ValueId y = kNoValue) {
    Tensor dims(DType::kI64, Shape{static_cast<int64_t>(target.size())});
    std::copy(target.begin(), target.end(), dims.data<int64_t>());
    ReshapeAttrs copies;
    copies.allow_zero = false;
    Node& n = nodes.emplace_back(
        remade(of, Op::kReshape, make_attrs<ReshapeAttrs>(copies), {x, add_constant(in_, std::move(dims))}, "Reshape"));
    n.outputs = {y != kNoValue ? y : in_.add_value(ValueType::tensor(in_.type(x).dtype, shape))};
    return n.outputs[0];
  }

  void replace(size_t index) {
    const Node n = graph_.nodes[index];
    const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
    if (n.inputs.size() != 2 || !in_.is_f32(n.outputs[0]) || a.alpha != 1 || a.act.kind != ActKind::kNone ||
        a.flatten_a || a.trans_batch_a || a.trans_batch_b)
      return;
    for (const size_t side : {0, 1}) {
      const Node* const gather = gathers_matrices(n.inputs[side]);
      const ValueId row = n.inputs[1 - side];
      if (!gather || !in_.is_f32(row) || in_.type(row).shape.rank() != 3) continue;
      const Tensor& all = *in_.constant(gather->inputs[0]);
      ExpertMatMulAttrs e;
      e.transposed = side == 0 ? !a.transpose_a : a.transpose_b;
      const int64_t in = all.dim(e.transposed ? 2 : 1), out = all.dim(e.transposed ? 1 : 2);
      const int one = (side == 0 ? a.transpose_b : !a.transpose_a) ? 1 : 2;  // the dimension of one row or column
      const Shape& x = in_.type(row).shape;
      if (x[one] != 1 || x[3 - one] != in) continue;
      const int64_t rows = in_.type(n.outputs[0]).shape.rank() == 3 ? in_.type(n.outputs[0]).shape[0] : -1;
      std::vector<Node>& nodes = made_[index];
      std::vector<ValueId> inputs{reshaped(nodes, n, row, {0, in}, {x[0], in}), gather->inputs[1]};
      if (gather->op == Op::kGather)
        inputs[1] = reshaped(nodes, n, inputs[1], {-1, 1}, {in_.type(inputs[1]).shape[0], 1});
      for (int64_t i = 0; i < all.dim(0); ++i) inputs.push_back(add_constant(in_, matrix_of(all, i)));
      Node product = remade(n, Op::kExpertMatMul, make_attrs<ExpertMatMulAttrs>(e), std::move(inputs), "Gather+MatMul");
      if (side == 0) product.outputs = {in_.add_value(ValueType::tensor(DType::kF32, Shape{rows, 1, out}))};
      const ValueId y = product.outputs[0];
      nodes.push_back(std::move(product));
      if (side == 0) reshaped(nodes, n, y, {0, out, 1}, {rows, out, 1}, n.outputs[0]);
      return;
    }
  }

  Pattern in_;
  Graph& graph_;
  std::map<size_t, std::vector<Node>> made_;  ///< in the place of nodes
};

}  // namespace

void fuse_experts(Graph& graph) { Experts(graph).run(); }

}  // namespace smelt
