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

/// True if the appended rows of type t can get back their shape from the number of their elements.
bool can_unflatten(const OpWriter& w, const FileLoop& loop, const ValueType& row, size_t k) {
  const auto i = static_cast<int>(loop.states + k);
  return std::ranges::count(row.shape.dims(), -1) == 1 && std::ranges::count(row.shape.dims(), 0) == 0 && w.wants(i) &&
         w.out_type(i).ranked && w.out_type(i).shape.rank() == row.shape.rank() + 1 && w.out_type(i).shape[0] > 0;
}

/// Writes the WHILE over `variables`, to which empty tensors to append to are added. Gives the results that are
/// outputs of the node: states, which begin at `first_state`, and the appended ones; nothing if there is no form.
/// `rows_first`: appended rows run along dimension 0 of the node's outputs.
std::optional<std::vector<int>> loop_results(OpWriter& w, FileLoop& loop, std::vector<int> variables, int body_graph,
                                             size_t first_state, bool rows_first) {
  SubgraphWriter& s = w.subgraph();
  FileContext& file = s.file();
  const Graph& body = file.module.graphs[static_cast<size_t>(body_graph)];
  loop.body = file.subgraph_of(body_graph);
  const bool used = loop.condition_graph < 0 && std::ranges::count(file.loops, loop.body, &FileLoop::body) > 0;
  if (used || !all_tensors(body)) return std::nullopt;
  const size_t own = loop.condition ? 1 : 0;
  loop.appended = body.outputs.size() - own - loop.states;
  loop.appended_types.clear();
  loop.appended_flat.clear();
  for (size_t k = 0; k < loop.appended; ++k) {
    ValueType t = body.value(body.outputs[own + loop.states + k]).type;
    const auto i = static_cast<int>(loop.states + k);
    if (rows_first && !t.is_static() && w.wants(i) && w.out_type(i).ranked) {
      // The body does not say; the stacked result of the node may.
      t = w.out_type(i);
      t.shape.erase(0);
    }
    if (!t.ranked || t.quant) return std::nullopt;
    const DType dtype = s.file_type(t).first;
    // LiteRT's WHILE takes no empty tensor: a row of zeros comes first, which is taken off behind the loop.
    std::vector<int64_t> dims{1};
    // Rows with a size that is known at run time only are joined flat.
    if (t.is_static())
      dims.insert(dims.end(), t.shape.begin(), t.shape.end());
    else if (!can_unflatten(w, loop, t, k))
      return std::nullopt;
    variables.push_back(s.add(Code::FILL, {s.i32(dims), s.constant(Tensor(dtype, Shape{}))}, dtype));
    dims[0] = -1;
    loop.appended_flat.push_back(!t.is_static());
    loop.appended_types.push_back({.dtype = dtype, .ranked = true, .shape = Shape(std::span<const int64_t>(dims))});
  }
  std::vector<int> results;
  for (size_t i = 0; i < variables.size(); ++i) {
    const FileTensor& from = s.at(variables[i]);
    results.push_back(s.add_tensor({.dtype = from.dtype, .quant = from.quant}));
  }
  const bool first = loop.condition_graph < 0;
  if (first) loop.condition_graph = file.add_subgraph("condition of " + body.name);
  s.add_to(Code::WHILE, variables, results,
           options_of<tfl::WhileOptions>([cond = loop.condition_graph, graph = loop.body](auto& b) {
             return tfl::CreateWhileOptions(b, cond, graph);
           }));
  if (first) file.loops.push_back(loop);
  const auto states = results.begin() + static_cast<std::ptrdiff_t>(first_state);
  std::vector<int> outputs(states, states + static_cast<std::ptrdiff_t>(loop.states));
  for (size_t k = 0; k < loop.appended; ++k) {
    int y = results[results.size() - loop.appended + k];
    const int rank = loop.appended_types[k].shape.rank();
    std::vector<int64_t> begin(static_cast<size_t>(rank), 0);
    begin[0] = 1;
    const int all = s.i32(std::vector<int64_t>(static_cast<size_t>(rank), -1));
    y = s.add(Code::SLICE, {y, s.i32(begin), all}, loop.appended_types[k].dtype);
    const auto i = static_cast<int>(loop.states + k);
    if (loop.appended_flat[k]) y = s.reshape(y, {w.out_type(i).shape.begin(), w.out_type(i).shape.end()});
    outputs.push_back(y);
  }
  return outputs;
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
  for (int i = 2; i < w.inputs(); ++i) {
    variables.push_back(w.in(i));
    loop.operands.push_back(w.in_type(i));
  }
  const auto results = loop_results(w, loop, std::move(variables), a.body_graph, 3, true);
  if (!results) return false;
  for (int i = 0; i < w.outputs(); ++i)
    if (w.wants(i)) s.bind(w.out_id(i), (*results)[static_cast<size_t>(i)]);
  return true;
}

namespace {

/// The stacked rows of an output of a Scan, in the order and along the axis that it asks for.
int placed_rows(OpWriter& w, int rows, const ScanAttrs& a, size_t k, int rank) {
  SubgraphWriter& s = w.subgraph();
  if (k < a.output_directions.size() && a.output_directions[k] != 0)
    rows = s.add(Code::REVERSE_V2, {rows, s.i32({0})}, w.file_dtype(rows));
  const int64_t axis = k < a.output_axes.size() ? wrapped_axis(a.output_axes[k], rank) : 0;
  std::vector<int64_t> perm;
  for (int64_t d = 1; d <= axis; ++d) perm.push_back(d);
  perm.push_back(0);
  for (int64_t d = axis + 1; d < rank; ++d) perm.push_back(d);
  return s.transpose(rows, perm);
}

/// A Scan over whole inputs, or over those of one sequence of a batch, which are given with their types.
std::optional<std::vector<int>> scan_results(OpWriter& w, FileLoop& loop, const std::vector<int>& operands,
                                             const std::vector<ValueType>& types) {
  const auto& a = w.attrs<ScanAttrs>();
  SubgraphWriter& s = w.subgraph();
  std::vector<int> variables{i64_scalar(s, 0), -1};
  loop.scanned.clear();
  loop.operands.clear();
  for (size_t i = 0; i < operands.size(); ++i) {
    const ValueType& t = types[i];
    variables.push_back(operands[i]);
    loop.operands.push_back(t);
    const size_t k = i - loop.states;
    if (i < loop.states || k >= static_cast<size_t>(a.scans)) continue;
    const int64_t axis = a.input_axes.empty() ? 0 : wrapped_axis(a.input_axes[k], t.shape.rank());
    loop.operands.back().shape.erase(static_cast<int>(axis));
    const auto [dtype, quant] = s.file_type(t);
    loop.scanned.push_back({.axis = axis,
                            .backward = !a.input_directions.empty() && a.input_directions[k] != 0,
                            .type = {.dtype = dtype, .ranked = true, .shape = t.shape, .quant = quant}});
    if (k != 0) continue;
    if (const int64_t n = t.shape[static_cast<int>(axis)]; n >= 0) {
      variables[1] = i64_scalar(s, n);
      continue;
    }
    const int dims = s.add(Code::SHAPE, {operands[i]}, DType::kI64, options_of<tfl::ShapeOptions>([](auto& b) {
                             return tfl::CreateShapeOptions(b, tfl::TensorType::INT64);
                           }));
    variables[1] = s.reshape(s.add(Code::SLICE, {dims, s.i32({axis}), s.i32({1})}, DType::kI64), {});
  }
  const auto forward = [](int64_t v) { return v == 0; };
  const bool rows_first = !a.batched && std::ranges::all_of(a.output_axes, forward);
  return loop_results(w, loop, std::move(variables), a.body_graph, 2, rows_first);
}

/// Opset 8: input 0 holds lengths, all others have a batch in front. Each sequence is a loop of its own.
bool write_batched_scan(OpWriter& w, const ScanAttrs& a, FileLoop loop) {
  SubgraphWriter& s = w.subgraph();
  const bool captures = w.inputs() != 1 + static_cast<int>(a.states + a.scans);
  if (w.has(0) || captures || !w.in_type(1).is_static()) return false;
  const int64_t batch = w.in_type(1).shape[0];
  std::vector<std::vector<int>> results(static_cast<size_t>(w.outputs()));
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<int> operands;
    std::vector<ValueType> types;
    for (int i = 1; i < w.inputs(); ++i) {
      ValueType t = w.in_type(i);
      if (!t.is_static() || t.shape[0] != batch || t.quant) return false;
      t.shape.erase(0);
      std::vector<int64_t> begin(static_cast<size_t>(t.shape.rank()) + 1, 0), size(begin.size(), -1);
      begin[0] = b;
      size[0] = 1;
      const int row = s.add(Code::SLICE, {w.in(i), s.i32(begin), s.i32(size)}, s.file_type(t).first);
      operands.push_back(s.reshape(row, {t.shape.begin(), t.shape.end()}));
      types.push_back(t);
    }
    const auto outputs = scan_results(w, loop, operands, types);
    if (!outputs) return false;
    for (size_t i = 0; i < outputs->size(); ++i) results[i].push_back((*outputs)[i]);
  }
  for (int i = 0; i < w.outputs(); ++i) {
    const std::vector<int>& parts = results[static_cast<size_t>(i)];
    const auto n = static_cast<int32_t>(parts.size());
    if (w.wants(i) && !parts.empty())
      w.out(i, s.add(Code::PACK, parts, w.file_dtype(parts[0]),
                     options_of<tfl::PackOptions>([=](auto& fbb) { return tfl::CreatePackOptions(fbb, n, 0); })));
  }
  return batch > 0;
}

}  // namespace

bool write_scan(OpWriter& w) {
  const auto& a = w.attrs<ScanAttrs>();
  if (a.scans < 1) return false;
  FileLoop loop{.states = static_cast<size_t>(a.states)};
  if (a.batched) return write_batched_scan(w, a, std::move(loop));
  std::vector<int> operands;
  std::vector<ValueType> types;
  for (int i = 0; i < w.inputs(); ++i) {
    const bool whole = i >= a.states && i < a.states + a.scans;
    if (!w.has(i) || w.in_type(i).kind != ValueType::Kind::kTensor || (whole && !w.in_type(i).ranked)) return false;
    operands.push_back(w.in(i));
    types.push_back(w.in_type(i));
  }
  const auto results = scan_results(w, loop, operands, types);
  if (!results) return false;
  for (int i = 0; i < w.outputs(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (!w.wants(i)) continue;
    const int y = (*results)[at];
    if (at < loop.states) {
      w.subgraph().bind(w.out_id(i), y);
    } else {
      const size_t k = at - loop.states;
      w.out(i, placed_rows(w, y, a, k, loop.appended_types[k].shape.rank()));
    }
  }
  return true;
}

void finish_loop(FileContext& file, const FileLoop& loop) {
  const Graph& graph = file.module.graphs[static_cast<size_t>(file.order[static_cast<size_t>(loop.body)])];
  SubgraphWriter s(file, loop.body, graph, false);
  const std::vector<int> in = s.out().inputs, out = s.out().outputs;
  const FileTensor number{.dtype = DType::kI64, .ranked = true};
  const int iteration = loop.condition ? in[0] : s.add_tensor(number), limit = s.add_tensor(number);
  const size_t first = loop.condition ? 2 : 0;
  // Where the body does not say, a state has the rank that it starts with, a captured value its own shape.
  for (size_t k = 0; k < loop.operands.size() && first + k < in.size(); ++k) {
    FileTensor& t = s.at(in[first + k]);
    const Shape& shape = loop.operands[k].shape;
    if (t.ranked || !loop.operands[k].ranked) continue;
    t.ranked = true;
    t.shape = k < loop.states ? Shape::of_rank(shape.rank(), -1) : shape;
  }
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
    const int value = out[results + loop.states + k];
    const bool flat = loop.appended_flat[k];
    const int row = flat ? s.reshape(value, {-1}) : s.add(Code::EXPAND_DIMS, {value, s.i32_scalar(0)}, type.dtype);
    outputs.push_back(s.add(Code::CONCATENATION, {inputs.back(), row}, type.dtype, concat_options(0)));
  }
  s.out().inputs = inputs;
  s.out().outputs = outputs;

  SubgraphWriter c(file, loop.condition_graph, graph, false);
  for (const int x : inputs) {
    FileTensor t = s.at(x);
    c.out().inputs.push_back(c.add_tensor(std::move(t)));
  }
  int go_on = c.add(Code::LESS, {0, 1}, DType::kBool);
  if (loop.condition) go_on = c.add(Code::LOGICAL_AND, {go_on, c.reshape(2, {})}, DType::kBool);
  c.out().outputs = {go_on};
}

}  // namespace smelt::tflite
