// Types and the order of nodes.
#include <algorithm>
#include <unordered_set>

#include "formats/onnx/lower.h"

namespace smelt::onnx {

Result<ValueType> value_type(const TypeProto& type) {
  switch (type.kind) {
    case TypeProto::Kind::kNone:
      return ValueType{};
    case TypeProto::Kind::kTensor: {
      ValueType t;
      t.dtype = dtype_of(type.elem_type);
      if (t.dtype == DType::kInvalid && type.elem_type != 0) return Unsupported("element type code ", type.elem_type);
      if (!type.has_shape) return t;
      if (type.dims.size() > static_cast<size_t>(Shape::kMaxRank))
        return Unsupported("rank ", type.dims.size(), ", at most ", Shape::kMaxRank, " supported");
      t.ranked = true;
      for (const Dimension& d : type.dims) t.shape.push_back(d.value >= 0 ? d.value : -1);
      return t;
    }
    case TypeProto::Kind::kSequence:
    case TypeProto::Kind::kOptional: {
      ValueType element;
      if (type.element) {
        SMELT_ASSIGN(element, value_type(*type.element));
      }
      return type.kind == TypeProto::Kind::kSequence ? ValueType::sequence(std::move(element))
                                                     : ValueType::optional(std::move(element));
    }
    case TypeProto::Kind::kMap: {
      ValueType t;
      t.kind = ValueType::Kind::kMap;
      t.dtype = dtype_of(type.elem_type);
      if (t.dtype != DType::kString && !is_integer(t.dtype))
        return InvalidModel("a map's keys have type code ", type.elem_type, ", integers or strings expected");
      if (type.element) {
        SMELT_ASSIGN(ValueType element, value_type(*type.element));
        t.element = std::make_shared<const ValueType>(std::move(element));
      }
      return t;
    }
    case TypeProto::Kind::kSparseTensor:
      return Unsupported("sparse tensors as values");
    case TypeProto::Kind::kOpaque:
      return Unsupported("opaque types");
  }
  return ValueType{};
}

std::vector<std::string> dim_names(const TypeProto& type) {
  std::vector<std::string> names;
  for (const Dimension& d : type.dims) names.emplace_back(d.param);
  return names;
}

namespace {

using NameSet = std::unordered_set<std::string_view>;

void body_reads(const GraphProto& g, const std::function<void(std::string_view)>& visit) {
  NameSet own;
  for (const auto& v : g.inputs) own.insert(v.name);
  for (const auto& t : g.initializers) own.insert(t.name);
  for (const auto& t : g.sparse_initializers) own.insert(t.values.name);
  NameSet made;
  for (const auto& n : g.nodes) made.insert(n.outputs.begin(), n.outputs.end());
  const auto outer = [&](std::string_view name) {
    if (!own.count(name) && !made.count(name)) visit(name);
  };
  for (const auto& n : g.nodes) for_each_read(n, outer);
  for (const auto& v : g.outputs) outer(v.name);
}

}  // namespace

void for_each_read(const NodeProto& node, const std::function<void(std::string_view)>& visit) {
  for (const auto& name : node.inputs)
    if (!name.empty()) visit(name);
  for (const auto& a : node.attributes)
    if (a.graph) body_reads(*a.graph, visit);
}

Result<std::vector<size_t>> sort_nodes(const std::vector<NodeProto>& nodes) {
  std::unordered_map<std::string_view, size_t> maker;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const auto& name : nodes[i].outputs)
      if (!name.empty()) maker[name] = i;
  std::vector<std::vector<size_t>> users(nodes.size());
  std::vector<size_t> waits(nodes.size(), 0), order;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for_each_read(nodes[i], [&](std::string_view name) {
      const auto it = maker.find(name);
      if (it == maker.end()) return;
      users[it->second].push_back(i);
      ++waits[i];
    });
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) order.push_back(i);
  for (size_t k = 0; k < order.size(); ++k)
    for (const size_t u : users[order[k]])
      if (--waits[u] == 0) order.push_back(u);
  if (order.size() == nodes.size()) return order;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] > 0)
      return InvalidModel("node ", i, " '", nodes[i].name, "' ", nodes[i].op_type,
                          ": its inputs depend on its own outputs (a cycle)");
  return order;
}

}  // namespace smelt::onnx
