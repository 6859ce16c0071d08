#include "convert/convert.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/guard.h"
#include "convert/node_runner.h"
#include "ops/core/infer.h"
#include "ops/core/op.h"
#include "ops/core/verify.h"
#include "passes/passes.h"
#include "runtime/model_access.h"
#include "tensor/numeric.h"

namespace smelt::convert {
namespace {

/// The module has the chosen method alone.
Status choose_method(Module& module, const std::string& name) {
  const Method* method = module.find_method(name);
  if (!method) return InvalidInput("there is no method '", name, "'");
  const Method chosen = *method;
  module.methods = {chosen};
  return Ok();
}

/// Nodes of a graph with those of the graphs that its control flow runs, each as often as it stands there; at most
/// kMostExpanded + 1. `known` holds the counts found so far, -1 elsewhere.
constexpr int64_t kMostExpanded = int64_t{1} << 20;
int64_t all_nodes(const Module& module, int graph, std::vector<int64_t>& known) {
  const auto g = static_cast<size_t>(graph);
  if (known[g] >= 0) return known[g];
  int64_t n = 0;
  for (const Node& node : module.graphs[g].nodes) {
    ++n;
    if ((op_info(node.op).flags & kControl) == 0) continue;
    for (const int body : op_info(node.op).graphs(*node.attrs)) n += all_nodes(module, body, known);
    n = std::min(n, kMostExpanded + 1);
  }
  return known[g] = n;
}

/// Files hold a body where it is run, or calls of it in place: a few graphs that run each other could become without
/// end.
Status check_expansion(const Module& module) {
  std::vector<int64_t> known(module.graphs.size(), -1);
  if (all_nodes(module, module.methods[0].graph, known) > kMostExpanded)
    return LimitReached("its branches, loops and calls hold more than ", kMostExpanded,
                        " nodes, each body counted where it is run");
  return Ok();
}

/// A file that was read with a rule tolerated may hold zero points that its element types lack. None is written so.
Status check_zero_points(const Module& module) {
  for (const Graph& graph : module.graphs)
    for (const Value& v : graph.values) {
      const QuantPtr& q = v.type.quant;
      if (!q || !is_integer(v.type.dtype) || bit_width(v.type.dtype) > 16) continue;
      for (const int32_t z : q->zero_points)
        if (z < int_min(v.type.dtype) || z > int_max(v.type.dtype))
          return Unsupported("'", v.name, "': zero point ", z, " of ", to_string(v.type.dtype), " in a written file");
    }
  return Ok();
}

Status set_shapes(Module& module, const std::map<std::string, std::vector<int64_t>>& shapes) {
  if (shapes.empty()) return Ok();
  Graph& graph = module.graphs[static_cast<size_t>(module.methods[0].graph)];
  for (const auto& [name, dims] : shapes) {
    const auto it = std::ranges::find_if(graph.inputs, [&graph, &wanted = name](ValueId id) {
      return id != kNoValue && graph.value(id).name == wanted;
    });
    if (it == graph.inputs.end()) return InvalidInput("--shape: there is no input '", name, "'");
    ValueType given = graph.value(*it).type;
    given.ranked = true;
    given.shape = Shape(std::span<const int64_t>(dims));
    if (auto s = merge_type(graph.value(*it).type, given, Cat("input '", name, "'")); !s.ok()) return s;
    const Shape& now = graph.value(*it).type.shape;
    if (!(now == given.shape))
      return InvalidInput("--shape: input '", name, "' is ", now.str(), ", not ", given.shape.str());
    graph.value(*it).dim_names.clear();
  }
  return infer_module(module);
}

/// Makes one operator of what exporters and writers spell as several.
void recompose_all(Module& module) {
  for (Graph& graph : module.graphs) {
    sink_reshapes(graph);
    recompose(graph);
    fuse_batch_norm(graph);
    fuse_activations(graph);
  }
}

/// The optimised graph: passes that keep the model's own layout and quantization. `fixed`: for the shapes that inputs
/// have now.
Status simplify(Module& module, bool fixed, int64_t spare) {
  const NodeRunner runner(module);
  for (const Method& m : module.methods) {
    Graph& g = module.graphs[static_cast<size_t>(m.graph)];
    std::erase_if(g.inputs, [&](ValueId id) { return id != kNoValue && g.value(id).constant; });
  }
  if (fixed) SMELT_TRY(specialize(module, runner.evaluate(), spare));
  // Folded constants give shapes, which may give constants in turn.
  for (int round = 0; round < 2; ++round) {
    for (Graph& graph : module.graphs) {
      fold_constants(graph, runner.evaluate());
      remove_dead_nodes(graph);
    }
    if (spare < 0) SMELT_TRY(infer_module(module));  // it knows no bounds
  }
  recompose_all(module);
  return Ok();
}

/// Operators between DequantizeLinear and QuantizeLinear become operators on quantized values, activations part of
/// their operators. `functions`: see QuantizedOperators.
void fold_quantization(Module& module, bool functions) {
  for (Graph& graph : module.graphs) {
    if (std::ranges::find(graph.nodes, Op::kQuantizeLinear, &Node::op) == graph.nodes.end()) continue;
    fuse_activations(graph);
    fuse_quantization(graph, {.softmax = true, .functions = functions, .batch_norms = false, .means = functions});
  }
}

/// True if the method's inputs have shapes without open dimensions, given ones counted.
bool has_static_inputs(const Model& model, const Options& options) {
  return std::ranges::all_of(model.inputs(options.method), [&](const Port& p) {
    return options.shapes.contains(p.name) || (p.ranked && p.shape.is_static());
  });
}

/// True if a graph has operators whose number of results a run decides, and that a bound is known for.
bool has_bounded_results(const Model& model) {
  return std::ranges::any_of(module_of(model).graphs, [](const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const Node& node) {
      return node.op == Op::kNonMaxSuppression || node.op == Op::kNonZero || node.op == Op::kCompress;
    });
  });
}

/// Reads a written model of one file back.
Status check_written(const formats::WriteResult& result, const Model& model) {
  if (result.files.size() != 1) return Ok();
  const auto bytes = result.files[0].bytes.joined();
  LoadOptions options;
  options.custom_operators = module_of(model).custom_operators;
  auto read = Model::load_bytes(*bytes, bytes, "written model", "", options);
  if (!read.ok()) return Internal(read.error().message());
  return Ok();
}

/// prepare(); `spare`: see specialize().
Result<Module> prepare_with(const Model& model, const formats::Writer& writer, const Options& options, int64_t spare) {
  Module module = module_of(model);
  SMELT_TRY(choose_method(module, options.method));
  SMELT_TRY(check_expansion(module));
  SMELT_TRY(check_zero_points(module));
  give_first_contents(module);
  SMELT_TRY(set_shapes(module, options.shapes));
  const bool delegate = writer.int8_delegate && options.write.delegate != "none";
  // What the delegate does not take is float32: calls of float16 operators take a hundred times as long.
  std::vector<std::vector<ValueId>> wide(module.graphs.size());
  for (size_t g = 0; delegate && g < wide.size(); ++g) wide[g] = widen_float16(module.graphs[g]);
  const QuantizeOptions& q = options.quantization;
  const bool fixed = options.fixed_shapes || writer.static_shapes;
  if (options.simplify || fixed || q.int8 || q.int4_block > 0) SMELT_TRY(simplify(module, fixed, spare));
  // Of static inputs, what follows from their shapes needs no operators: delegates take static tensors alone.
  if (writer.fused_operators && !fixed && has_static_inputs(model, options))
    SMELT_TRY(fold_shapes(module, NodeRunner(module).evaluate()));
  if (q.int8 || q.int4_block > 0) SMELT_TRY(quantize(module, q));
  if (writer.fused_operators) recompose_all(module);
  if (writer.fused_operators || writer.static_shapes) scale_weights(module);
  if (writer.explicit_padding && module.format != writer.name)
    for (Graph& graph : module.graphs) fuse_pads(graph);
  if (writer.counted_loops) count_loops(module);
  if (writer.integer_operators && writer.fused_operators) name_integer_functions(module);
  if (writer.integer_operators) fold_quantization(module, writer.fused_operators);
  if (writer.integer_operators && writer.fused_operators) join_integer_functions(module);
  if (!writer.integer_operators && module.format != writer.name) join_before_requantization(module);
  if (delegate)
    for (Graph& graph : module.graphs) fuse_xnnpack_rows(graph);
  if (delegate || (writer.integer_operators && !writer.int8_delegate)) type_integers(module);
  if (delegate) make_int8(module);
  SMELT_TRY(decompose_svm(module));
  decompose_for(module, writer, options.write);
  if (writer.static_shapes) move_by_indices(module, writer, options.write, NodeRunner(module).evaluate());
  if (writer.channels_first && !delegate) channels_first(module);
  for (size_t g = 0; delegate && g < wide.size(); ++g) narrow_float16(module.graphs[g], wide[g], writer.delegate_takes);
  return module;
}

/// A program in which sizes that runs decide have bounds.
Result<formats::WriteResult> convert_with_bounds(const Model& model, const formats::Writer& writer,
                                                 const Options& options) {
  SMELT_ASSIGN(const Module module, prepare_with(model, writer, options, 0));
  SMELT_ASSIGN(const Module wider, prepare_with(model, writer, options, 1));
  return writer.write_bounded(module, wider, options.write);
}

}  // namespace

Result<Module> prepare(const Model& model, const formats::Writer& writer, const Options& options) {
  return prepare_with(model, writer, options, -1);
}

Result<formats::WriteResult> convert(const Model& model, const formats::Writer& writer, const Options& options) {
  const auto write = [&](const Options& chosen) -> Result<formats::WriteResult> {
    SMELT_ASSIGN(const Module module, prepare(model, writer, chosen));
    return writer.write(module, chosen.write);
  };
  return guarded([&]() -> Result<formats::WriteResult> {
    SMELT_ASSIGN(formats::WriteResult result, write(options));
    // Folded constants give shapes that some operators need, the shapes of inputs give more.
    Options folded = options;
    for (bool* const more : {&folded.simplify, &folded.fixed_shapes}) {
      if (result.missing.empty() || writer.static_shapes) break;
      if (*more || (more == &folded.fixed_shapes && !has_static_inputs(model, options))) continue;
      *more = true;
      auto again = write(folded);
      if (again.ok() && again->missing.empty()) result = std::move(*again);
    }
    if (!result.missing.empty() && writer.write_bounded && has_bounded_results(model)) {
      auto bounded = convert_with_bounds(model, writer, options);
      if (bounded.ok() && bounded->missing.empty()) result = std::move(*bounded);
    }
    if (result.missing.empty()) SMELT_TRY(check_written(result, model));
    return result;
  });
}

}  // namespace smelt::convert
