#pragma once

#include "graph/graph.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct IfAttrs : Attrs {
  int then_graph = -1, else_graph = -1;
  SMELT_FIELDS(then_graph, else_graph)
  std::vector<int> graphs() const { return {then_graph, else_graph}; }
};
struct WhileAttrs : Attrs {
  int cond_graph = -1, body_graph = -1;
  SMELT_FIELDS(cond_graph, body_graph)
  std::vector<int> graphs() const { return {cond_graph, body_graph}; }
};
/// ONNX Loop. Body: iteration, condition, carried..., captures... -> condition, carried..., scan outputs...
struct LoopAttrs : Attrs {
  int body_graph = -1;
  int64_t carried = 0;
  SMELT_FIELDS(body_graph, carried)
  std::vector<int> graphs() const { return {body_graph}; }
};
/// ONNX Scan (opset 9 form). Body: states..., scan slices..., captures... -> states..., scan outputs...
struct ScanAttrs : Attrs {
  int body_graph = -1;
  int64_t states = 0, scans = 0;
  std::vector<int64_t> input_axes, output_axes, input_directions, output_directions;
  bool batched = false;  ///< opset 8: leading batch dimension and a sequence_lens input 0
  SMELT_FIELDS(body_graph, states, scans, input_axes, output_axes, input_directions, output_directions, batched)
  std::vector<int> graphs() const { return {body_graph}; }
};
struct CallAttrs : Attrs {
  int graph = -1;
  SMELT_FIELDS(graph)
  std::vector<int> graphs() const { return {graph}; }
};
struct StateAttrs : Attrs {
  int state = -1;  ///< index into Module::states
  StateAttrs() = default;
  explicit StateAttrs(int s) : state(s) {}
  SMELT_FIELDS(state)
};
struct CustomAttrs : Attrs {
  std::shared_ptr<CustomOperator> op;
  std::string name;
  std::shared_ptr<void> prepared;  ///< what the operator made of its options
  SMELT_ATTRS_TYPE
  void visit(AttrVisitor& v) const override { v.any("name", name); }
};

}  // namespace smelt
