#include "formats/executorch/writer/plan_writer.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/arena.h"
#include "base/cat.h"
#include "formats/executorch/aten/aten.h"
#include "formats/executorch/writer/call_writer.h"
#include "ops/core/op.h"
#include "tensor/numeric.h"

namespace smelt::executorch {
namespace {

/// The element type of a value in a program: integers of 2 and 4 bits are held as int8 or uint8.
DType file_dtype(DType dtype) {
  switch (dtype) {
    case DType::kI2:
    case DType::kI4:
      return DType::kI8;
    case DType::kU2:
    case DType::kU4:
      return DType::kU8;
    default:
      return dtype;
  }
}

Tensor widened(const Tensor& t) {
  const DType to = file_dtype(t.dtype());
  if (to == t.dtype()) return t;
  Tensor out(to, t.shape());
  for (int64_t i = 0; i < t.elements(); ++i) set_int(out, i, get_int(t, i));
  return out;
}

}  // namespace

int PlanWriter::add(FileValue v) {
  plan_.values.push_back(std::move(v));
  return static_cast<int>(plan_.values.size()) - 1;
}

int PlanWriter::null() {
  const auto [at, added] = scalars_.try_emplace({0, ""}, 0);
  if (added) at->second = add({});
  return at->second;
}

int PlanWriter::integer(int64_t v) {
  const auto [at, added] = scalars_.try_emplace({1, Cat(v)}, 0);
  if (added) at->second = add({.kind = FileValue::Kind::kInt, .i = v});
  return at->second;
}

int PlanWriter::boolean(bool v) {
  const auto [at, added] = scalars_.try_emplace({2, Cat(v)}, 0);
  if (added) at->second = add({.kind = FileValue::Kind::kBool, .i = v});
  return at->second;
}

int PlanWriter::real(double v) { return add({.kind = FileValue::Kind::kDouble, .d = v}); }

int PlanWriter::text(const std::string& v) {
  const auto [at, added] = scalars_.try_emplace({3, v}, 0);
  if (added) at->second = add({.kind = FileValue::Kind::kString, .text = v});
  return at->second;
}

int PlanWriter::integers(Int64List v) {
  FileValue list{.kind = FileValue::Kind::kIntList};
  for (const int64_t i : v) list.items.push_back(integer(i));
  return add(std::move(list));
}

int PlanWriter::list(IntList tensors, bool optional) {
  return add({.kind = optional ? FileValue::Kind::kOptionalTensorList : FileValue::Kind::kTensorList,
              .items = tensors.copy()});
}

int PlanWriter::add_tensor(DType dtype, const Shape& shape) {
  return add({.kind = FileValue::Kind::kTensor, .dtype = file_dtype(dtype), .shape = shape});
}

int PlanWriter::constant(const Tensor& t) {
  const Tensor contents = widened(t);
  int index = -1;
  for (size_t i = 0; i < program_.constants.size() && index < 0; ++i)
    if (program_.constants[i].raw() == contents.raw() && program_.constants[i].bytes() == contents.bytes())
      index = static_cast<int>(i);
  if (index < 0) {
    index = static_cast<int>(program_.constants.size());
    program_.constants.push_back(contents);
  }
  return add(
      {.kind = FileValue::Kind::kTensor, .dtype = contents.dtype(), .shape = contents.shape(), .constant = index});
}

int PlanWriter::number(DType dtype, double v) {
  Tensor t(dtype, Shape{});
  set_double(t, 0, v);
  const std::string bytes(reinterpret_cast<const char*>(t.data<std::byte>()), t.bytes());
  const auto [at, added] = scalars_.try_emplace({4 + static_cast<int>(dtype), bytes}, 0);
  if (added) at->second = constant(t);
  return at->second;
}

int PlanWriter::state(int index) {
  for (size_t i = 0; i < plan_.values.size(); ++i)
    if (plan_.values[i].state == index) return static_cast<int>(i);
  const FileState& s = program_.states[static_cast<size_t>(index)];
  return add({.kind = FileValue::Kind::kTensor, .dtype = s.first.dtype(), .shape = s.first.shape(), .state = index});
}

void PlanWriter::call_to(std::string_view name, std::string_view overload, IntList args, IntList outputs,
                         bool as_list) {
  std::vector<int> all = args.copy();
  if (as_list) {
    all.insert(all.end(), 2, list(outputs));
  } else {
    all.insert(all.end(), outputs.begin(), outputs.end());
    all.push_back(outputs.size() == 1 ? outputs[0] : list(outputs));
  }
  plan_.calls.push_back({std::string(name), std::string(overload), std::move(all)});
}

int PlanWriter::call(std::string_view name, std::string_view overload, IntList args, DType dtype, const Shape& shape) {
  const int y = add_tensor(dtype, shape);
  call_to(name, overload, args, {y});
  return y;
}

int PlanWriter::permute(int x, Int64List perm) {
  if (std::ranges::is_sorted(perm)) return x;
  const FileValue from = at(x);
  Shape shape;
  for (const int64_t p : perm) shape.push_back(from.shape[static_cast<int>(p)]);
  return call("aten::permute_copy", "out", {x, integers(perm)}, from.dtype, shape);
}

int PlanWriter::reshape(int x, const Shape& shape) {
  const FileValue from = at(x);
  if (from.shape == shape) return x;
  if (from.constant >= 0) {
    FileValue view = from;
    view.shape = shape;
    return add(std::move(view));
  }
  return call("aten::view_copy", "out", {x, integers({shape.begin(), shape.end()})}, from.dtype, shape);
}

int PlanWriter::tensor(ValueId id) {
  Forms& f = forms_[id];
  if (f.graph_order >= 0) return f.graph_order;
  const Value& v = graph_->value(id);
  if (v.constant) return f.graph_order = constant(*v.constant);
  if (f.channels_first >= 0) {
    std::vector<int64_t> perm{0};
    for (int d = 2; d < v.type.shape.rank(); ++d) perm.push_back(d);
    perm.push_back(1);
    const int y = permute(f.channels_first, perm);
    return forms_[id].graph_order = y;
  }
  return f.graph_order = add_tensor(v.type.dtype, v.type.shape);
}

int PlanWriter::channels_first(ValueId id) {
  if (forms_[id].channels_first >= 0) return forms_[id].channels_first;
  const int x = tensor(id), rank = at(x).shape.rank();
  std::vector<int64_t> perm{0, rank - 1};
  for (int d = 1; d + 1 < rank; ++d) perm.push_back(d);
  const int y = permute(x, perm);
  return forms_[id].channels_first = y;
}

void PlanWriter::bind(ValueId id, int value) { forms_[id].graph_order = value; }
void PlanWriter::bind_channels_first(ValueId id, int value) { forms_[id].channels_first = value; }

void PlanWriter::emit(const Node& node) {
  const std::string where = node.where.empty() ? node.name : node.where;
  const auto refuse = [&](const std::string& why) {
    missing_.push_back({formats::operator_label(node), formats::operand_types(*graph_, node),
                        why.empty() ? where : Cat(where, ": ", why)});
    for (const ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      const ValueType& t = graph_->value(id).type;
      bind(id, add_tensor(t.dtype, t.is_static() ? t.shape : Shape()));
    }
  };
  // A map is written as its values alone.
  const std::vector<ValueId>& results = node.op == Op::kZipMap ? std::vector<ValueId>{} : node.outputs;
  for (const auto* ids : {&node.inputs, &results})
    for (const ValueId id : *ids)
      if (id != kNoValue && !graph_->value(id).type.is_static())
        return refuse(Cat("the shape of '", graph_->value(id).name, "' depends on the run"));
  for (const ValueId id : results) {
    if (id == kNoValue) continue;
    const Value& v = graph_->value(id);
    if (aten::scalar_type_number(file_dtype(v.type.dtype)) < 0) return refuse("no such element type");
  }
  CallWriter w(*this, node);
  const WriteCallFn write = find_call_writer(node.op);
  if (!write || !write(w)) refuse("");
}

/// True if the sizes of an operand or result are bounds.
bool PlanWriter::is_bounded(const Node& node) const {
  if (!other_) return false;
  const Graph& other = other_->graphs[static_cast<size_t>(graph_ - module_.graphs.data())];
  const auto differs = [&](ValueId id) {
    return id != kNoValue && !(graph_->value(id).type.shape == other.value(id).type.shape);
  };
  return std::ranges::any_of(node.inputs, differs) || std::ranges::any_of(node.outputs, differs);
}

void PlanWriter::write_nodes(const Graph& graph) {
  graph_ = &graph;
  if (delegate_) return write_partitions(graph);
  for (const Node& node : graph.nodes) emit(node);
}

void PlanWriter::emit_delegate(const std::vector<const Node*>& nodes) {
  XnnGraphWriter xnn(*graph_);
  std::set<const Node*> inside(nodes.begin(), nodes.end());
  for (const Node* node : nodes) xnn.add(*node);
  std::set<ValueId> needed(graph_->outputs.begin(), graph_->outputs.end());
  for (const Node& node : graph_->nodes)
    if (!inside.contains(&node)) needed.insert(node.inputs.begin(), node.inputs.end());
  std::vector<ValueId> results;
  for (const Node* node : nodes)
    for (const ValueId id : node->outputs)
      if (id != kNoValue && needed.contains(id)) results.push_back(id);
  xnn.set_outputs(results);
  FileCall call{.delegate = static_cast<int>(plan_.delegates.size())};
  for (const ValueId id : xnn.inputs()) call.args.push_back(tensor(id));
  for (const ValueId id : results) {
    const int y = add_tensor(graph_->value(id).type.dtype, graph_->value(id).type.shape);
    bind(id, y);
    call.args.push_back(y);
  }
  plan_.delegates.push_back(xnn.finish(program_.named));
  plan_.calls.push_back(std::move(call));
}

/// Takes turns: all nodes for operators that are ready, then all nodes for XNNPACK that are. Nodes with effects keep
/// their order.
void PlanWriter::write_partitions(const Graph& graph) {
  const size_t n = graph.nodes.size();
  std::vector<char> done(n, 0), fits(n, 0);
  std::map<ValueId, size_t> producer;
  for (size_t i = 0; i < n; ++i) {
    fits[i] = !is_bounded(graph.nodes[i]) && XnnGraphWriter(graph).add(graph.nodes[i]);
    for (const ValueId id : graph.nodes[i].outputs)
      if (id != kNoValue) producer.emplace(id, i);
  }
  const auto ready = [&](const Node& node) {
    return std::ranges::all_of(node.inputs, [&](ValueId id) {
      const auto at = producer.find(id);
      return at == producer.end() || done[at->second];
    });
  };
  bool xnnpack = false;
  for (size_t left = n, idle = 0; left > 0 && idle < 2; xnnpack = !xnnpack) {
    std::vector<const Node*> partition;
    bool wait = false;  // an earlier node with effects has not come yet
    const size_t before = left;
    for (size_t i = 0; i < n; ++i) {
      const Node& node = graph.nodes[i];
      const bool effects = (op_info(node.op).flags & (kEffect | kControl)) != 0;
      if (done[i]) continue;
      if ((fits[i] != 0) != xnnpack || !ready(node) || (effects && wait)) {
        wait = wait || effects;
        continue;
      }
      done[i] = 1;
      --left;
      xnnpack ? partition.push_back(&node) : emit(node);
    }
    if (!partition.empty()) emit_delegate(partition);
    idle = left == before ? idle + 1 : 0;
  }
}

/// Places tensors by their live ranges. Inputs live until their last reader, outputs until the end.
void PlanWriter::plan_memory() {
  const int end = static_cast<int>(plan_.calls.size());
  std::vector<ArenaItem> items(plan_.values.size());
  std::vector<char> used(plan_.values.size(), 0);
  const auto touch = [&](int value, int step, const auto& self) -> void {
    const FileValue& v = at(value);
    for (const int item : v.items)
      if (item >= 0 && v.kind != FileValue::Kind::kIntList) self(item, step, self);
    ArenaItem& item = items[static_cast<size_t>(value)];
    char& seen = used[static_cast<size_t>(value)];
    item.first = seen ? std::min(item.first, step) : step;
    item.last = seen ? std::max(item.last, step) : step;
    seen = 1;
  };
  for (const int v : plan_.inputs) touch(v, 0, touch);
  for (int step = 0; step < end; ++step)
    for (const int arg : plan_.calls[static_cast<size_t>(step)].args) touch(arg, step + 1, touch);
  for (const int v : plan_.outputs) touch(v, end + 1, touch);
  // What lies in memory before a loop and is read in it lives until its end; inner loops come first in the list.
  for (const auto& [first, last] : loops_)
    for (size_t i = 0; i < items.size(); ++i) {
      const auto begin = static_cast<int>(first) + 1, back = static_cast<int>(last) + 1;
      if (used[i] && items[i].first < begin && items[i].last >= begin) items[i].last = std::max(items[i].last, back);
    }
  std::vector<ArenaItem> planned;
  std::vector<size_t> owner;
  for (size_t i = 0; i < items.size(); ++i) {
    const FileValue& v = plan_.values[i];
    if (v.kind != FileValue::Kind::kTensor || v.constant >= 0 || v.state >= 0) continue;
    items[i].bytes = std::max<size_t>(Tensor::byte_size(v.dtype, v.shape.elements()), 1);
    planned.push_back(items[i]);
    owner.push_back(i);
  }
  plan_.memory = plan_arena(planned);
  for (size_t i = 0; i < planned.size(); ++i) plan_.values[owner[i]].offset = planned[i].offset;
}

void PlanWriter::write(const Method& method) {
  plan_.name = method.name == "main" ? "forward" : method.name;
  const Graph& graph = module_.graphs[static_cast<size_t>(method.graph)];
  graph_ = &graph;
  for (const ValueId id : graph.inputs) {
    const Value& v = graph.value(id);
    if (v.constant) continue;  // an input with a default: the file holds that
    const std::string place = Cat(graph.name, ", input '", v.name, "'");
    if (!v.type.is_static() || aten::scalar_type_number(file_dtype(v.type.dtype)) < 0) {
      missing_.push_back({"input", v.type.str(),
                          v.type.is_static() ? place : Cat(place, ": its shape is open, --shape gives it one")});
      return;
    }
    const int x = add_tensor(v.type.dtype, v.type.shape);
    plan_.inputs.push_back(x);
    bind(id, x);
  }
  write_nodes(graph);
  for (const ValueId id : graph.outputs) {
    int y = tensor(id);
    // An output has memory of its own.
    const bool taken = std::ranges::count(plan_.inputs, y) + std::ranges::count(plan_.outputs, y) > 0;
    if (taken || at(y).constant >= 0 || at(y).state >= 0) {
      const FileValue from = at(y);
      y = call("aten::clone", "out", {y, null()}, from.dtype, from.shape);
    }
    plan_.outputs.push_back(y);
  }
  plan_memory();
  program_.plans.push_back(std::move(plan_));
}

bool PlanWriter::try_node(const Graph& graph, const Node& node) {
  graph_ = &graph;
  emit(node);
  return missing_.empty();
}

}  // namespace smelt::executorch
