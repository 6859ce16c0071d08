#include <algorithm>
#include <unordered_set>

#include "formats/onnx/lower.h"
#include "formats/onnx/ops.h"
#include "formats/onnx/stated_attributes.h"
#include "formats/onnx/validity.h"
#include "formats/rules.h"
#include "ops/container/container.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"

namespace smelt::onnx {

namespace {

constexpr int kMaxCallDepth = 100;
constexpr size_t kMaxDenseBytes = size_t{16} << 20;  // sparse initializers up to here become constants

std::string function_key(std::string_view domain, std::string_view name, std::string_view overload) {
  return Cat(canonical(domain), "\n", name, "\n", overload);
}

/// How messages call an operator: "com.microsoft.Gelu", "Add".
std::string display_name(const NodeProto& n) {
  const std::string_view d = canonical(n.domain);
  return d.empty() ? std::string(n.op_type) : Cat(d, ".", n.op_type);
}

/// Stands for operators without an entry where the rule unknown-operator is waived.
constexpr OpEntry kUnknownOperator{"", 1, [](NodeContext& n) {
                                     CustomAttrs unknown;
                                     unknown.name = display_name(n.proto());
                                     n.emit(Op::kCustom, std::move(unknown), n.all_inputs(), n.outputs());
                                   }};

}  // namespace

std::string node_label(const NodeProto& n, size_t index) {
  return Cat("node ", index, n.name.empty() ? "" : Cat(" '", n.name, "'"), " ", display_name(n));
}

int64_t newest_opset(std::string_view domain) {
  if (canonical(domain).empty()) return kNewestOpset;
  if (domain == "ai.onnx.ml") return 5;
  return domain == "ai.onnx.preview.training" || domain == "com.microsoft" ? 1 : 0;
}

ModelLowering::ModelLowering(const Source& source, const ModelProto& proto, Module& module)
    : source_(source), proto_(proto), module_(module), tensors_(source) {}

namespace {

Status read_opsets(const std::vector<OpsetId>& list, std::map<std::string_view, int64_t>& out) {
  for (const OpsetId& o : list) {
    const std::string_view domain = canonical(o.domain);
    if (o.version < 1) return InvalidModel("opset_import of domain '", o.domain, "': version ", o.version);
    const int64_t newest = domain == "com.microsoft" ? 0 : newest_opset(domain);  // which counts as it likes
    if (newest > 0 && o.version > newest)
      return Unsupported("opset ", o.version, " of ", domain.empty() ? "ai.onnx" : domain, "; the newest known is ",
                         newest);
    int64_t& v = out[domain];
    v = std::max(v, o.version);
  }
  return Ok();
}

/// The DequantizeLinear that makes a value of constants. A body repeats it: its products then have constant weights.
const Node* dequantized_constant(Scope& scope, ValueId id) {
  const Graph& graph = scope.builder.graph();
  for (size_t& i = scope.seen_nodes; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    const bool of_constants = n.op == Op::kDequantizeLinear && std::ranges::all_of(n.inputs, [&](ValueId in) {
                                return in != kNoValue && graph.value(in).constant != nullptr;
                              });
    if (of_constants && n.outputs.size() == 1) scope.dequantized[n.outputs[0]] = i;
  }
  const auto made = scope.dequantized.find(id);
  return made == scope.dequantized.end() ? nullptr : &graph.nodes[made->second];
}

}  // namespace

Status ModelLowering::run() {
  if (!proto_.has_graph) return InvalidModel("the model has no graph");
  SMELT_TRY(check_model(source_, proto_));
  SMELT_TRY(read_opsets(proto_.opsets, opsets_));
  if (proto_.ir_version < 3 && proto_.opsets.empty()) opsets_[""] = 1;
  for (const FunctionProto& f : proto_.functions) {
    if (!functions_.emplace(function_key(f.domain, f.name, f.overload), &f).second)
      return InvalidModel("function ", f.domain, ".", f.name, " is defined twice");
    auto& opsets = function_opsets_[&f];
    if (auto s = read_opsets(f.opsets, opsets); !s.ok()) return s.error().within(Cat("function ", f.name));
    for (const auto& [domain, version] : opsets_) opsets.emplace(domain, version);
  }
  for (const FunctionProto& f : proto_.functions) {
    auto n = expanded_size(f, 0);
    if (!n.ok()) return n.error();
  }
  SMELT_ASSIGN(const size_t total, expanded_size(proto_.graph.nodes, 0));
  (void)total;
  module_.graphs.emplace_back();
  module_.graphs[0].name = std::string(proto_.graph.name);
  Scope scope{.builder = Builder(module_, 0), .opsets = &opsets_};
  SMELT_TRY(lower_graph(scope, proto_.graph, nullptr));
  module_.methods.push_back({"main", 0});
  return Ok();
}

Result<ValueType> ModelLowering::declared_type(const TypeProto& type) {
  auto t = value_type(type);
  if (!t.ok()) {
    const bool rank = type.kind == TypeProto::Kind::kTensor && type.dims.size() > static_cast<size_t>(Shape::kMaxRank);
    findings_.refusal = rank ? Finding::kRank : Finding::kElementType;
  }
  return t;
}

const FunctionProto* ModelLowering::find_function(const NodeProto& node) const {
  if (functions_.empty()) return nullptr;
  const auto it = functions_.find(function_key(node.domain, node.op_type, node.overload));
  return it == functions_.end() ? nullptr : it->second;
}

Result<size_t> ModelLowering::expanded_size(const FunctionProto& function, int depth) {
  if (depth > kMaxCallDepth) return LimitReached("function calls are nested more than ", kMaxCallDepth, " deep");
  const auto [it, fresh] = sizes_.emplace(&function, 0);
  if (!fresh) {
    if (it->second == 0) return InvalidModel("function ", function.domain, ".", function.name, " calls itself");
    return it->second;
  }
  SMELT_ASSIGN(const size_t n, expanded_size(function.nodes, depth + 1));
  return sizes_[&function] = n + 1;
}

Result<size_t> ModelLowering::expanded_size(const std::vector<NodeProto>& nodes, int depth) {
  const size_t limit = source_.options ? source_.options->max_nodes : LoadOptions{}.max_nodes;
  size_t total = 0;
  for (const NodeProto& n : nodes) {
    size_t one = 1;
    if (const FunctionProto* f = find_function(n)) {
      SMELT_ASSIGN(one, expanded_size(*f, depth));
    }
    for (const AttributeProto& a : n.attributes) {
      if (!a.graph) continue;
      SMELT_ASSIGN(const size_t inner, expanded_size(a.graph->nodes, depth));
      one += inner;
    }
    total += one;
    if (total > limit) return LimitReached("the model has more than ", limit, " nodes after inlining its functions");
  }
  return total;
}

std::optional<ValueId> ModelLowering::find(Scope& scope, std::string_view name) {
  const auto it = scope.names.find(name);
  if (it != scope.names.end()) {
    Binding& b = it->second;
    if (b.absent || b.value != kNoValue) return b.value;
    ValueType type = scope.builder.type(b.typed);
    type.quant = nullptr;
    auto r = scope.builder.op_as(Op::kBitCast, make_attrs<CastAttrs>(type.dtype), {b.typed}, type);
    if (!r.ok()) return std::nullopt;
    Value& v = scope.builder.graph().value(*r);
    v.name = std::string(name);
    v.type.quant = nullptr;
    return b.value = *r;
  }
  if (!scope.parent) return std::nullopt;
  const auto outer = find(*scope.parent, name);
  if (!outer || *outer == kNoValue) return outer;
  // Names of one value, as Identity makes, are one capture: a branch takes a value once.
  if (scope.captures)
    for (const auto& [value, inner] : *scope.captures)
      if (value == *outer) return scope.names[name].value = inner;
  // The parent may be a function's scope in the same graph as its caller, but a body always has a graph of its own.
  const Graph& parent = scope.parent->builder.graph();
  Graph& graph = scope.builder.graph();
  const Value v = parent.value(*outer);
  const ValueId inner =
      graph.add_value({.name = std::string(name), .type = v.type, .constant = v.constant, .dim_names = v.dim_names});
  scope.names[name] = {.value = inner};
  if (v.constant) {
    // A default that a body repeats is no input: what a caller gave in its place would not reach the body.
    std::erase(scope.parent->builder.graph().inputs, *outer);
    return inner;
  }
  const Node* weights = dequantized_constant(*scope.parent, *outer);
  if (!weights) {
    scope.captures->emplace_back(*outer, inner);
    return inner;
  }
  Node copy = *weights;
  for (ValueId& id : copy.inputs) {
    const Value operand = parent.value(id);
    id = graph.add_value({.name = operand.name, .type = operand.type, .constant = operand.constant});
  }
  copy.outputs = {inner};
  graph.nodes.push_back(std::move(copy));
  return inner;
}

Result<Body> ModelLowering::lower_body(Scope& outer, const GraphProto& graph, const std::vector<ValueType>& inputs) {
  Body body;
  body.graph = static_cast<int>(module_.graphs.size());
  module_.graphs.emplace_back();
  module_.graphs.back().name = std::string(graph.name);
  Scope scope{.builder = Builder(module_, body.graph),
              .parent = &outer,
              .opsets = outer.opsets,
              .attributes = outer.attributes,
              .captures = &body.captures,
              .depth = outer.depth};
  SMELT_TRY(lower_graph(scope, graph, &inputs));
  return body;
}

Status ModelLowering::lower_initializers(Scope& scope, const GraphProto& graph) {
  Builder& b = scope.builder;
  const auto define = [&](std::string_view name, ValueId id) -> Status {
    if (name.empty()) return InvalidModel("has no name");
    if (!scope.names.emplace(name, Binding{.value = id}).second) return InvalidModel("is defined twice");
    return Ok();
  };
  for (size_t i = 0; i < graph.initializers.size(); ++i) {
    const TensorProto& t = graph.initializers[i];
    auto s = [&]() -> Status {
      auto read = tensors_.read(t);
      if (!read.ok() && read.error().code() == ErrorCode::kUnsupported) findings_.refusal = Finding::kElementType;
      SMELT_ASSIGN(Tensor tensor, std::move(read));
      return define(t.name, b.constant(std::string(t.name), std::move(tensor)));
    }();
    if (!s.ok()) return s.error().within(Cat("initializer ", i, " '", t.name, "'"));
  }
  for (size_t i = 0; i < graph.sparse_initializers.size(); ++i) {
    const SparseTensorProto& t = graph.sparse_initializers[i];
    auto s = [&]() -> Status {
      SMELT_ASSIGN(Tensor tensor, tensors_.read_sparse(t, kMaxDenseBytes));
      return define(t.values.name, b.constant(std::string(t.values.name), std::move(tensor)));
    }();
    if (!s.ok()) return s.error().within(Cat("sparse initializer ", i, " '", t.values.name, "'"));
  }
  return Ok();
}

Status ModelLowering::lower_graph(Scope& scope, const GraphProto& graph, const std::vector<ValueType>* input_types) {
  Builder& b = scope.builder;
  SMELT_TRY(lower_initializers(scope, graph));
  if (input_types && input_types->size() != graph.inputs.size())
    return InvalidModel("the body has ", graph.inputs.size(), " inputs, ", input_types->size(), " expected");
  std::unordered_set<std::string_view> seen;
  std::vector<ValueId> defaults;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueInfo& info = graph.inputs[i];
    const auto where = [&] { return Cat("input ", i, " '", info.name, "'"); };
    if (info.name.empty() || !seen.insert(info.name).second)
      return InvalidModel(where(), info.name.empty() ? ": has no name" : ": is listed twice");
    auto type = declared_type(info.type);
    if (!type.ok()) return type.error().within(where());
    if (const auto it = scope.names.find(info.name); it != scope.names.end()) {
      if (input_types) return InvalidModel(where(), ": an initializer of the body has this name");
      // A default that the caller may override.
      const Value& v = b.graph().value(it->second.value);
      if (type->dtype != DType::kInvalid && type->dtype != v.type.dtype)
        return InvalidModel(where(), ": declared ", to_string(type->dtype), ", its initializer is ",
                            to_string(v.type.dtype));
      defaults.push_back(it->second.value);
      continue;
    }
    if (input_types) {
      const ValueType& given = (*input_types)[i];
      if (type->kind == ValueType::Kind::kTensor && given.kind == type->kind && type->dtype != DType::kInvalid &&
          given.dtype != DType::kInvalid && given.dtype != type->dtype)
        return InvalidModel(where(), ": declared ", to_string(type->dtype), ", the node gives ",
                            to_string(given.dtype));
      if (type->kind == ValueType::Kind::kTensor && type->dtype == DType::kInvalid && !type->ranked)
        *type = given;
      else if (type->kind == ValueType::Kind::kTensor && type->dtype == DType::kInvalid)
        type->dtype = given.dtype;
    }
    const ValueId id = b.input(std::string(info.name), *type);
    Value& v = b.graph().value(id);
    v.doc = std::string(info.doc);
    if (info.type.kind == TypeProto::Kind::kTensor) v.dim_names = dim_names(info.type);
    scope.names[info.name] = {.value = id};
  }
  b.graph().inputs.insert(b.graph().inputs.end(), defaults.begin(), defaults.end());
  for (const ValueInfo& v : graph.value_info) scope.infos.emplace(v.name, &v);
  for (const ValueInfo& v : graph.outputs) scope.infos[v.name] = &v;
  SMELT_TRY(lower_nodes(scope, graph.nodes));
  return lower_outputs(scope, graph);
}

Status ModelLowering::lower_outputs(Scope& scope, const GraphProto& graph) {
  Builder& b = scope.builder;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ValueInfo& info = graph.outputs[i];
    auto id = find(scope, info.name);
    if (!id) return InvalidModel("output ", i, " '", info.name, "' is made by no node");
    if (*id == kNoValue) {
      b.graph().outputs.push_back(kNoValue);
      continue;
    }
    Value& v = b.graph().value(*id);
    const auto type = declared_type(info.type);
    if (!type.ok()) return type.error().within(Cat("output ", i, " '", info.name, "'"));
    if (type->kind == v.type.kind && type->dtype != DType::kInvalid && v.type.dtype != DType::kInvalid &&
        type->dtype != v.type.dtype) {
      findings_.refusal = Finding::kDeclaredType;
      return InvalidModel("output ", i, " '", info.name, "' is declared ", to_string(type->dtype), " but is ",
                          to_string(v.type.dtype));
    }
    const bool listed = std::ranges::find(b.graph().outputs, *id) != b.graph().outputs.end();
    if (v.name != info.name || listed) {
      // Another value's name: an output is a value of its own.
      const bool tensor = v.type.kind == ValueType::Kind::kTensor;
      ValueType made = v.type;
      auto copy = tensor ? b.op_as(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kIdentity), {*id}, made)
                         : b.op_as(Op::kOptionalGet, make_attrs<SequenceAttrs>(), {*id}, made);
      if (!copy.ok()) return copy.error().within(Cat("output ", i, " '", info.name, "'"));
      id = *copy;
      b.graph().value(*id).name = std::string(info.name);
    }
    Value& out = b.graph().value(*id);
    out.doc = std::string(info.doc);
    if (info.type.kind == TypeProto::Kind::kTensor && out.dim_names.empty()) out.dim_names = dim_names(info.type);
    b.graph().outputs.push_back(*id);
  }
  return Ok();
}

Status ModelLowering::lower_nodes(Scope& scope, const std::vector<NodeProto>& nodes) {
  std::unordered_map<std::string_view, size_t> made;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& name : nodes[i].outputs) {
      if (name.empty()) continue;
      if (!made.emplace(name, i).second || scope.names.count(name))
        return InvalidModel("node ", i, " '", nodes[i].name, "' ", nodes[i].op_type, ": output '", name,
                            "' is defined twice");
    }
  }
  // In the given order as long as every name is known by then, otherwise sorted. Casts may stand anywhere: float16
  // converters append them behind the nodes.
  std::unordered_set<std::string_view> done;
  bool in_order = true;
  std::optional<Error> early;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for_each_read(nodes[i], [&](std::string_view name) {
      if (early || !made.count(name) || done.count(name)) return;
      for (const Scope* s = &scope; s; s = s->parent)
        if (s->names.count(name)) return;
      in_order = false;
      if (proto_.ordered && nodes[made[name]].op_type != "Cast")
        early = InvalidModel(node_label(nodes[i], i), ": reads '", name, "', which a later node makes");
    });
    for (const auto& name : nodes[i].outputs) done.insert(name);
  }
  std::vector<size_t> order(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) order[i] = i;
  if (!in_order) {
    SMELT_ASSIGN(order, sort_nodes(nodes));
  }
  if (early) SMELT_TRY(breach(source_, Rule::kNodeOrder, *early));
  for (const size_t i : order) {
    if (auto s = lower_node(scope, nodes[i], i); !s.ok()) return s.error().within(node_label(nodes[i], i));
  }
  return Ok();
}

Status ModelLowering::lower_node(Scope& scope, const NodeProto& node, size_t index) {
  if (node.op_type.empty()) return InvalidModel("the node has no operator");
  if (const FunctionProto* f = find_function(node)) return inline_function(scope, node, *f);
  const std::string_view domain = canonical(node.domain);
  const auto imported = scope.opsets->find(domain);
  if (imported == scope.opsets->end() && domain.empty()) return InvalidModel("the model imports no opset of ai.onnx");
  const int64_t version = imported == scope.opsets->end() ? 1 : imported->second;
  bool known = false;
  const auto* registered = registered_operator(source_, node);
  const OpEntry* entry = registered ? nullptr : find_op(domain, node.op_type, version, known);
  if (!registered && !entry && tolerates(source_, Rule::kUnknownOperator)) {
    entry = &kUnknownOperator;
  } else if (!registered && !entry) {
    findings_.refusal = Finding::kOperator;
    const std::string where = Cat("operator ", node.op_type, " of domain '", domain.empty() ? "ai.onnx" : domain, "'");
    return known ? Unsupported(where, " does not exist in opset ", version)
                 : Unsupported(where, " (opset ", version, ") is not known");
  }
  scope.builder.at(display_name(node),
                   std::string(node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name),
                   Cat("node ", index));
  NodeContext context(*this, scope, node, version);
  if (auto* wanted = FileAttributes::wanted())
    wanted->record(scope.builder, Cat("node ", index), stated_attributes(context, node));
  if (context.ok() && registered)
    lower_registered(context, *registered);
  else if (context.ok())
    entry->lower(context);
  SMELT_TRY(context.finish());
  return check_zero_points(source_, context);
}

Status ModelLowering::inline_function(Scope& scope, const NodeProto& node, const FunctionProto& function) {
  if (scope.depth >= kMaxCallDepth) return LimitReached("function calls are nested more than ", kMaxCallDepth, " deep");
  if (node.inputs.size() > function.inputs.size())
    return InvalidModel(node.inputs.size(), " inputs, the function takes ", function.inputs.size());
  if (node.outputs.size() > function.outputs.size())
    return InvalidModel(node.outputs.size(), " outputs, the function gives ", function.outputs.size());
  CallAttributes attributes;
  for (const AttributeProto& a : function.default_attributes) attributes.emplace_back(a.name, &a);
  NodeContext caller(*this, scope, node, 1);
  for (const AttributeProto& a : node.attributes) {
    const AttributeProto* value = caller.find_attr(a.name);
    if (!value) continue;
    std::erase_if(attributes, [&](const auto& entry) { return entry.first == a.name; });
    attributes.emplace_back(a.name, value);
  }
  Scope inner{.builder = scope.builder,
              .opsets = &function_opsets_[&function],
              .attributes = &attributes,
              .depth = scope.depth + 1};
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const ValueId id = caller.opt(static_cast<int>(i));
    inner.names[function.inputs[i]] = {.value = id, .absent = id == kNoValue};
  }
  SMELT_TRY(caller.status());
  for (const ValueInfo& v : function.value_info) inner.infos.emplace(v.name, &v);
  SMELT_TRY(lower_nodes(inner, function.nodes));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const auto id = find(inner, function.outputs[i]);
    if (!id) return InvalidModel("output '", function.outputs[i], "' of the function is made by no node");
    scope.names[node.outputs[i]] = {.value = *id, .absent = *id == kNoValue};
    if (*id == kNoValue) continue;
    Value& v = scope.builder.graph().value(*id);
    if (v.name == function.outputs[i] && !v.constant) v.name = std::string(node.outputs[i]);
  }
  return Ok();
}

}  // namespace smelt::onnx
