// Reductions, running sums and arg operators of ai.onnx.
#include "formats/onnx/ops.h"
#include "ops/reduce/reduce.h"

namespace smelt::onnx {
namespace {

struct ReduceOp {
  std::string_view name;
  Reduction fn;
  int axes_input;  ///< opset from which on the axes are an input
};
constexpr ReduceOp kReductions[] = {
    {"ReduceSum", Reduction::kSum, 13},
    {"ReduceMean", Reduction::kMean, 18},
    {"ReduceMax", Reduction::kMax, 18},
    {"ReduceMin", Reduction::kMin, 18},
    {"ReduceProd", Reduction::kProd, 18},
    {"ReduceL1", Reduction::kL1, 18},
    {"ReduceL2", Reduction::kL2, 18},
    {"ReduceLogSum", Reduction::kLogSum, 18},
    {"ReduceLogSumExp", Reduction::kLogSumExp, 18},
    {"ReduceSumSquare", Reduction::kSumSquare, 18},
};

void lower_reduce(NodeContext& n) {
  for (const ReduceOp& entry : kReductions) {
    if (entry.name != n.op()) continue;
    ReduceAttrs a;
    a.fn = entry.fn;
    a.keep_dims = n.flag("keepdims", true);
    std::vector<ValueId> in{n.in(0)};
    if (n.version() >= entry.axes_input) {
      a.noop_with_empty_axes = n.flag("noop_with_empty_axes");
      if (n.has(1)) in.push_back(n.in(1));
    }
    if (in.size() == 1 && n.has_attr("axes")) in.push_back(n.i64(n.ints("axes")));
    return n.emit(Op::kReduce, a, in);
  }
}

void lower_arg(NodeContext& n) {
  ArgReduceAttrs a;
  a.min = n.op() == "ArgMin";
  a.axis = n.i("axis", 0);
  a.keep_dims = n.flag("keepdims", true);
  a.select_last = n.flag("select_last_index");
  n.emit(Op::kArgReduce, a, {n.in(0)});
}

void lower_cumulative(NodeContext& n) {
  CumulativeAttrs a;
  a.fn = n.op() == "CumProd" ? CumulativeAttrs::Fn::kProd : CumulativeAttrs::Fn::kSum;
  a.exclusive = n.flag("exclusive");
  a.reverse = n.flag("reverse");
  n.emit(Op::kCumulative, a, {n.in(0), n.in(1)});
}

constexpr OpEntry kOps[] = {
    {"ReduceSum", 1, lower_reduce},       {"ReduceMean", 1, lower_reduce},   {"ReduceMax", 1, lower_reduce},
    {"ReduceMin", 1, lower_reduce},       {"ReduceProd", 1, lower_reduce},   {"ReduceL1", 1, lower_reduce},
    {"ReduceL2", 1, lower_reduce},        {"ReduceLogSum", 1, lower_reduce}, {"ReduceLogSumExp", 1, lower_reduce},
    {"ReduceSumSquare", 1, lower_reduce}, {"ArgMax", 1, lower_arg},          {"ArgMin", 1, lower_arg},
    {"CumSum", 11, lower_cumulative},     {"CumProd", 26, lower_cumulative},
};

}  // namespace

std::span<const OpEntry> reduce_ops() { return kOps; }

}  // namespace smelt::onnx
