// ONNX's Loop and Scan as WHILE. Its variables: iteration, number of iterations, the condition of a Loop, states,
// scanned tensors, captured values, and what each iteration has appended to so far.
#include <algorithm>
#include <limits>

#include "formats/tflite/writer/op_writer.h"
#include "ops/control/control.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

int i64_scalar(SubgraphWriter& s, int64_t v) {
  Tensor t(DType::kI64, Shape{});
  set_int(t, 0, v);
  return s.constant(std::move(t));
}

bool all_tensors(const Graph& graph) {
  const auto is_tensor = [&](ValueId id) {
    const Value& v = graph.value(id);
    return v.type.kind == ValueType::Kind::kTensor && v.type.dtype != DType::kInvalid && !v.constant;
  };
  return std::ranges::all_of(graph.inputs, is_tensor) && std::ranges::all_of(graph.outputs, [&](ValueId id) {
           return graph.value(id).type.kind == ValueType::Kind::kTensor;
         });
}

/// Writes the WHILE over `variables`, to which empty tensors to append to are added; outputs of the node are those
/// from `first_state` on that are states, and the appended ones.
bool write_loop_node(OpWriter& w, FileLoop loop, std::vector<int> variables, int body_graph, size_t first_state) {
  SubgraphWriter& s = w.subgraph();
  FileContext& file = s.file();
  const Graph& body = file.module.graphs[static_cast<size_t>(body_graph)];
  loop.body = file.subgraph_of(body_graph);
  const bool used = std::ranges::count(file.loops, loop.body, &FileLoop::body) > 0;
  if (used || !all_tensors(body)) return false;
  const size_t own = loop.condition ? 1 : 0;
  loop.appended = body.outputs.size() - own - loop.states;
  for (size_t k = 0; k < loop.appended; ++k) {
    ValueType t = body.value(body.outputs[own + loop.states + k]).type;
    if (const auto i = static_cast<int>(loop.states + k); !t.is_static() && w.wants(i) && w.out_type(i).ranked) {
      // The body does not say; the stacked result of the node may.
      t = w.out_type(i);
      t.shape.erase(0);
    }
    if (!t.is_static() || t.quant) return false;
    const DType dtype = s.file_type(t).first;
    std::vector<int64_t> dims{0};
    dims.insert(dims.end(), t.shape.begin(), t.shape.end());
    variables.push_back(s.add(Code::FILL, {s.i32(dims), s.constant(Tensor(dtype, Shape{}))}, dtype));
    dims[0] = -1;
    loop.appended_types.push_back({.dtype = dtype, .ranked = true, .shape = Shape(std::span<const int64_t>(dims))});
  }
  std::vector<int> results;
  for (size_t i = 0; i < variables.size(); ++i) {
    const FileTensor& from = s.at(variables[i]);
    results.push_back(s.add_tensor({.dtype = from.dtype, .quant = from.quant}));
  }
  for (int i = 0; i < w.outputs(); ++i) {
    const auto at = static_cast<size_t>(i);
    const size_t from = at < loop.states ? first_state + at : variables.size() - loop.appended + (at - loop.states);
    if (w.wants(i)) s.bind(w.out_id(i), results[from]);
  }
  const auto cond =
      static_cast<int32_t>(file.module.graphs.size() + (file.initializer >= 0 ? 1 : 0) + file.loops.size());
  s.add_to(Code::WHILE, variables, results, options_of<tfl::WhileOptions>([=, body = loop.body](auto& b) {
             return tfl::CreateWhileOptions(b, cond, body);
           }));
  file.loops.push_back(std::move(loop));
  return true;
}

}  // namespace

bool write_loop(OpWriter& w) {
  const auto& a = w.attrs<LoopAttrs>();
  SubgraphWriter& s = w.subgraph();
  for (int i = 2; i < w.inputs(); ++i)
    if (!w.has(i) || w.in_type(i).kind != ValueType::Kind::kTensor) return false;
  FileLoop loop{.states = static_cast<size_t>(a.carried), .condition = true};
  Tensor yes(DType::kBool, Shape{});
  yes.data<bool>()[0] = true;
  std::vector<int> variables{
      i64_scalar(s, 0),
      w.has(0) ? s.reshape(s.cast(w.in(0), DType::kI64), {}) : i64_scalar(s, std::numeric_limits<int64_t>::max()),
      w.has(1) ? s.reshape(w.in(1), {}) : s.constant(std::move(yes))};
  for (int i = 2; i < w.inputs(); ++i) variables.push_back(w.in(i));
  return write_loop_node(w, std::move(loop), std::move(variables), a.body_graph, 3);
}

bool write_scan(OpWriter& w) {
  const auto& a = w.attrs<ScanAttrs>();
  SubgraphWriter& s = w.subgraph();
  const auto forward = [](int64_t v) { return v == 0; };
  if (a.batched || a.scans < 1 || !std::ranges::all_of(a.output_axes, forward) ||
      !std::ranges::all_of(a.output_directions, forward))
    return false;
  FileLoop loop{.states = static_cast<size_t>(a.states)};
  std::vector<int> variables{i64_scalar(s, 0), -1};
  for (int i = 0; i < w.inputs(); ++i) {
    const ValueType& t = w.in_type(i);
    if (!w.has(i) || t.kind != ValueType::Kind::kTensor || !t.ranked) return false;
    variables.push_back(w.in(i));
    const auto k = static_cast<size_t>(i) - loop.states;
    if (static_cast<size_t>(i) < loop.states || k >= static_cast<size_t>(a.scans)) continue;
    const int64_t axis = a.input_axes.empty() ? 0 : wrapped_axis(a.input_axes[k], t.shape.rank());
    const auto [dtype, quant] = s.file_type(t);
    loop.scanned.push_back({.axis = axis,
                            .backward = !a.input_directions.empty() && a.input_directions[k] != 0,
                            .type = {.dtype = dtype, .ranked = true, .shape = t.shape, .quant = quant}});
    if (k != 0) continue;
    const int dims = s.add(Code::SHAPE, {w.in(i)}, DType::kI64, options_of<tfl::ShapeOptions>([](auto& b) {
                             return tfl::CreateShapeOptions(b, tfl::TensorType::INT64);
                           }));
    variables[1] = t.shape[static_cast<int>(axis)] >= 0
                       ? i64_scalar(s, t.shape[static_cast<int>(axis)])
                       : s.reshape(s.add(Code::SLICE, {dims, s.i32({axis}), s.i32({1})}, DType::kI64), {});
  }
  return write_loop_node(w, std::move(loop), std::move(variables), a.body_graph, 2);
}

void finish_loop(FileContext& file, const FileLoop& loop) {
  const Graph& graph = file.module.graphs[static_cast<size_t>(file.order[static_cast<size_t>(loop.body)])];
  SubgraphWriter s(file, loop.body, graph, false);
  const std::vector<int> in = s.out().inputs, out = s.out().outputs;
  const FileTensor number{.dtype = DType::kI64, .ranked = true};
  const int iteration = loop.condition ? in[0] : s.add_tensor(number), limit = s.add_tensor(number);
  const size_t first = loop.condition ? 2 : 0;
  std::vector<int> inputs{iteration, limit}, outputs;
  // What the body reads of scanned tensors comes before its own operators.
  const auto own = static_cast<std::ptrdiff_t>(s.out().operators.size());
  std::vector<int> scanned;
  for (size_t k = 0; k < loop.scanned.size(); ++k) {
    const FileLoop::Scanned& x = loop.scanned[k];
    scanned.push_back(s.add_tensor(x.type));
    int at = iteration;
    if (x.backward) {
      at = s.add(Code::SUB, {limit, iteration}, DType::kI64, arithmetic_options(Code::SUB, {}, false));
      at = s.add(Code::SUB, {at, i64_scalar(s, 1)}, DType::kI64, arithmetic_options(Code::SUB, {}, false));
    }
    s.add_to(Code::GATHER, {scanned.back(), at}, {in[first + loop.states + k]},
             options_of<tfl::GatherOptions>(
                 [axis = static_cast<int32_t>(x.axis)](auto& b) { return tfl::CreateGatherOptions(b, axis); }));
  }
  auto& operators = s.out().operators;
  std::rotate(operators.begin(), operators.begin() + own, operators.end());
  outputs = {s.add(Code::ADD, {iteration, i64_scalar(s, 1)}, DType::kI64, arithmetic_options(Code::ADD, {}, false)),
             limit};
  if (loop.condition) {
    inputs.push_back(in[1]);
    outputs.push_back(s.reshape(out[0], {}));
  }
  const size_t results = loop.condition ? 1 : 0;
  for (size_t k = 0; k < loop.states; ++k) {
    inputs.push_back(in[first + k]);
    outputs.push_back(out[results + k]);
  }
  for (const std::vector<int>& kept :
       {scanned,
        std::vector<int>(in.begin() + static_cast<std::ptrdiff_t>(first + loop.states + scanned.size()), in.end())})
    for (const int x : kept) {
      inputs.push_back(x);
      outputs.push_back(x);
    }
  for (size_t k = 0; k < loop.appended; ++k) {
    const FileTensor& type = loop.appended_types[k];
    inputs.push_back(s.add_tensor(type));
    const int row = s.add(Code::EXPAND_DIMS, {out[results + loop.states + k], s.i32_scalar(0)}, type.dtype);
    outputs.push_back(s.add(Code::CONCATENATION, {inputs.back(), row}, type.dtype, concat_options(0)));
  }
  s.out().inputs = inputs;
  s.out().outputs = outputs;

  file.subgraphs.emplace_back().name = "condition of " + s.out().name;
  SubgraphWriter c(file, static_cast<int>(file.subgraphs.size()) - 1, graph, false);
  for (const int x : inputs) {
    FileTensor t = s.at(x);
    c.out().inputs.push_back(c.add_tensor(std::move(t)));
  }
  int go_on = c.add(Code::LESS, {0, 1}, DType::kBool);
  if (loop.condition) go_on = c.add(Code::LOGICAL_AND, {go_on, c.reshape(2, {})}, DType::kBool);
  c.out().outputs = {go_on};
}

}  // namespace smelt::tflite
