// Indexing, sorting and selection of ai.onnx.
#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/sort/sort.h"

namespace smelt::onnx {
namespace {

void lower_gather(NodeContext& n) {
  GatherAttrs a;
  a.axis = n.i("axis", 0);
  n.emit(n.op() == "GatherElements" ? Op::kGatherElements : Op::kGather, pack(a), {n.in(0), n.in(1)});
}

ScatterAttrs scatter_attrs(NodeContext& n) {
  ScatterAttrs a;
  const std::string r = n.s("reduction", "none");
  using Reduce = ScatterAttrs::Reduce;
  if (r == "none")
    a.reduction = Reduce::kNone;
  else if (r == "add")
    a.reduction = Reduce::kAdd;
  else if (r == "mul")
    a.reduction = Reduce::kMul;
  else if (r == "min")
    a.reduction = Reduce::kMin;
  else if (r == "max")
    a.reduction = Reduce::kMax;
  else
    n.fail("reduction is '", r, "'");
  return a;
}

void lower_scatter_elements(NodeContext& n) {
  ScatterAttrs a = scatter_attrs(n);
  a.axis = n.i("axis", 0);
  n.emit(Op::kScatterElements, a, {n.in(0), n.in(1), n.in(2)});
}
void lower_scatter_nd(NodeContext& n) { n.emit(Op::kScatterND, pack(scatter_attrs(n)), {n.in(0), n.in(1), n.in(2)}); }

void lower_tensor_scatter(NodeContext& n) {
  ScatterAttrs a;
  a.axis = n.i("axis", -2);
  const std::string mode = n.s("mode", "linear");
  if (mode != "linear" && mode != "circular") return n.fail("mode is '", mode, "'");
  if (mode == "circular") a.reduction = ScatterAttrs::Reduce::kAdd;
  n.emit(Op::kTensorScatter, a, n.operands(2, 3));
}

void lower_one_hot(NodeContext& n) {
  OneHotAttrs a;
  a.axis = n.i("axis", -1);
  n.emit(Op::kOneHot, a, {n.in(0), n.in(1), n.in(2)});
}

void lower_compress(NodeContext& n) {
  const int64_t axis = n.has_attr("axis") ? n.i("axis") : INT64_MIN;
  n.emit(Op::kCompress, AxisAttrs(axis), {n.in(0), n.in(1)});
}

void lower_nonzero(NodeContext& n) { n.emit(Op::kNonZero, NonZeroAttrs(), {n.in(0)}); }

void lower_top_k(NodeContext& n) {
  TopKAttrs a;
  a.axis = n.i("axis", -1);
  a.largest = n.flag("largest", true);
  a.sorted = n.flag("sorted", true);
  const ValueId x = n.in(0);
  const ValueId k = n.version() < 10 ? n.i64({n.i("k", 0)}) : n.in(1);
  n.emit(Op::kTopK, a, {x, k});
}

constexpr OpEntry kOps[] = {
    {"Gather", 1, lower_gather},
    {"GatherElements", 11, lower_gather},
    {"GatherND", 11, lower_gather_nd},
    {"Scatter", 9, lower_scatter_elements},
    {"ScatterElements", 11, lower_scatter_elements},
    {"ScatterND", 11, lower_scatter_nd},
    {"TensorScatter", 24, lower_tensor_scatter},
    {"OneHot", 9, lower_one_hot},
    {"Compress", 9, lower_compress},
    {"NonZero", 9, lower_nonzero},
    {"TopK", 1, lower_top_k},
    {"Unique", 11, lower_unique},
};

}  // namespace

void lower_gather_nd(NodeContext& n) {
  GatherAttrs a;
  a.batch_dims = n.i("batch_dims", 0);
  n.emit(Op::kGatherND, a, {n.in(0), n.in(1)});
}

void lower_unique(NodeContext& n) {
  UniqueAttrs a;
  a.flatten = !n.has_attr("axis");
  a.axis = n.i("axis", 0);
  // com.microsoft.Unique keeps the order of first occurrence and has no first indices.
  const bool microsoft = n.proto().domain == "com.microsoft";
  a.sorted = !microsoft && n.flag("sorted", true);
  if (microsoft) {
    const auto out = n.add_n(Op::kUnique, a, {n.in(0)}, 4);
    n.bind(0, out[0]);
    n.bind(1, out[2]);
    return n.bind(2, out[3]);
  }
  n.emit(Op::kUnique, a, {n.in(0)});
}

std::span<const OpEntry> gather_ops() { return kOps; }

}  // namespace smelt::onnx
