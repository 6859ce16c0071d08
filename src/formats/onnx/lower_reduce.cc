// Reductions, running sums and arg operators of ai.onnx.
#include "formats/onnx/ops.h"
#include "ops/reduce/reduce.h"

namespace smelt::onnx {
namespace {

/// `axes_input`: the opset from which on the axes are an input.
template <Reduction fn, int axes_input>
void lower_reduce(NodeContext& n) {
  ReduceAttrs a;
  a.fn = fn;
  a.keep_dims = n.flag("keepdims", true);
  std::vector<ValueId> in{n.in(0)};
  if (n.version() >= axes_input) {
    a.noop_with_empty_axes = n.flag("noop_with_empty_axes");
    if (n.has(1)) in.push_back(n.in(1));
  }
  if (in.size() == 1 && n.has_attr("axes")) in.push_back(n.i64(n.ints("axes")));
  n.emit(Op::kReduce, a, in);
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
    {"ReduceSum", 1, lower_reduce<Reduction::kSum, 13>},
    {"ReduceMean", 1, lower_reduce<Reduction::kMean, 18>},
    {"ReduceMax", 1, lower_reduce<Reduction::kMax, 18>},
    {"ReduceMin", 1, lower_reduce<Reduction::kMin, 18>},
    {"ReduceProd", 1, lower_reduce<Reduction::kProd, 18>},
    {"ReduceL1", 1, lower_reduce<Reduction::kL1, 18>},
    {"ReduceL2", 1, lower_reduce<Reduction::kL2, 18>},
    {"ReduceLogSum", 1, lower_reduce<Reduction::kLogSum, 18>},
    {"ReduceLogSumExp", 1, lower_reduce<Reduction::kLogSumExp, 18>},
    {"ReduceSumSquare", 1, lower_reduce<Reduction::kSumSquare, 18>},
    {"ArgMax", 1, lower_arg},
    {"ArgMin", 1, lower_arg},
    {"CumSum", 11, lower_cumulative},
    {"CumProd", 26, lower_cumulative},
};

}  // namespace

std::span<const OpEntry> reduce_ops() { return kOps; }

}  // namespace smelt::onnx
