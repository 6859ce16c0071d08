#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/common/lowering_context.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/reader.h"
#include "formats/onnx/tensor.h"

namespace smelt::onnx {

class NodeContext;
class ModelLowering;

/// Turns one ONNX node into graph nodes. Errors go to NodeContext::fail().
using LowerFn = void (*)(NodeContext&);

/// An entry of the operator table: versions [since, until] of an operator in a domain.
struct OpEntry {
  const char* name;
  int since;
  LowerFn lower;
  int until = 1 << 20;
};

/// The entry for an operator at a version of its domain, or null. `known`: some version has the operator.
const OpEntry* find_op(std::string_view domain, std::string_view name, int64_t version, bool& known);

inline constexpr int64_t kNewestIr = 14, kNewestOpset = 28;
/// The newest version of a domain's operators; 0 for a domain that this build does not know by version.
int64_t newest_opset(std::string_view domain);
/// The domain's one spelling: "" for "ai.onnx".
inline std::string_view canonical(std::string_view domain) { return domain == "ai.onnx" ? std::string_view{} : domain; }
/// "node 3 'name' com.microsoft.Gelu"
std::string node_label(const NodeProto& node, size_t index);

/// What a name stands for: a value as ONNX sees it, or a quantized value that becomes one when a node asks for it.
struct Binding {
  ValueId value = kNoValue;
  ValueId typed = kNoValue;  ///< quantized: the integers of `value` with their quantization in the type
  bool absent = false;       ///< an optional input of a function that the caller left out
};

/// Attributes of a function call, references already resolved.
using CallAttributes = std::vector<std::pair<std::string_view, const AttributeProto*>>;

/// Names of one graph or function body.
struct Scope {
  Builder builder;
  Scope* parent = nullptr;  ///< the surrounding scope whose names a body sees; null for the main graph and functions
  std::unordered_map<std::string_view, Binding> names;
  std::unordered_map<std::string_view, const ValueInfo*> infos;
  const std::map<std::string_view, int64_t>* opsets = nullptr;
  const CallAttributes* attributes = nullptr;                    ///< null outside functions
  std::vector<std::pair<ValueId, ValueId>>* captures = nullptr;  ///< of a body: outer value, inner value
  int depth = 0;                                                 ///< nested function calls
  /// The nodes that make constants real, by their outputs, among the first `seen_nodes` of the graph.
  std::unordered_map<ValueId, size_t> dequantized;
  size_t seen_nodes = 0;
};

/// A lowered body graph.
struct Body {
  int graph = -1;
  std::vector<std::pair<ValueId, ValueId>> captures;  ///< outer value, inner value; not yet graph inputs
};

/// Lowers a parsed model into a module.
class ModelLowering {
 public:
  ModelLowering(const Source& source, const ModelProto& proto, Module& module);
  Status run();

  /// The value of a name, seen from a scope. Nullopt: no such name. kNoValue: an absent optional.
  std::optional<ValueId> find(Scope& scope, std::string_view name);
  Result<Body> lower_body(Scope& outer, const GraphProto& graph, const std::vector<ValueType>& inputs);
  TensorReader& tensors() { return tensors_; }
  Module& module() { return module_; }
  const Source& source() const { return source_; }
  int64_t ir_version() const { return proto_.ir_version; }
  Findings& findings() { return findings_; }
  /// value_type; an error is noted among the findings.
  Result<ValueType> declared_type(const TypeProto& type);

 private:
  friend class NodeContext;
  Status lower_graph(Scope& scope, const GraphProto& graph, const std::vector<ValueType>* input_types);
  Status lower_initializers(Scope& scope, const GraphProto& graph);
  Status lower_outputs(Scope& scope, const GraphProto& graph);
  Status lower_nodes(Scope& scope, const std::vector<NodeProto>& nodes);
  Status lower_node(Scope& scope, const NodeProto& node, size_t index);
  Status inline_function(Scope& scope, const NodeProto& node, const FunctionProto& function);
  const FunctionProto* find_function(const NodeProto& node) const;
  /// Nodes of a function after inlining; an error when it calls itself or exceeds the limit.
  Result<size_t> expanded_size(const FunctionProto& function, int depth);
  Result<size_t> expanded_size(const std::vector<NodeProto>& nodes, int depth);

  const Source& source_;
  const ModelProto& proto_;
  Module& module_;
  TensorReader tensors_;
  std::map<std::string_view, int64_t> opsets_;
  std::map<std::string, const FunctionProto*, std::less<>> functions_;
  std::map<const FunctionProto*, std::map<std::string_view, int64_t>> function_opsets_;
  std::map<const FunctionProto*, size_t> sizes_;  ///< 0: being measured
  Findings findings_;
};

/// Order of nodes in which every name is made before it is used: node indices, or nullopt on a cycle. `free_names`
/// gives the names that a node reads, those captured by its bodies included.
Result<std::vector<size_t>> sort_nodes(const std::vector<NodeProto>& nodes);
/// Calls visit(name) for each name that a node reads from the graph it stands in.
void for_each_read(const NodeProto& node, const std::function<void(std::string_view)>& visit);

Result<ValueType> value_type(const TypeProto& type);
std::vector<std::string> dim_names(const TypeProto& type);

template <class T>
AttrsPtr pack(T attrs) {
  return std::make_shared<const T>(std::move(attrs));
}

/// One ONNX node while it is lowered: its inputs, attributes and outputs by the names of the standard. An input that
/// was never asked for and an output that was never bound are errors as well, and so is an attribute that no version of
/// the operator has.
class NodeContext : public LoweringContext {
 public:
  NodeContext(ModelLowering& lowering, Scope& scope, const NodeProto& node, int64_t version);

  const NodeProto& proto() const { return node_; }
  std::string_view op() const { return node_.op_type; }
  int64_t version() const { return version_; }  ///< of the node's domain
  Scope& scope() { return scope_; }
  ModelLowering& lowering() { return lowering_; }
  Status finish();  ///< status() after the checks that every input was read and every output bound

  // Inputs.
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has(int i) const { return i < inputs() && values_[static_cast<size_t>(i)] != kNoValue; }
  ValueId in(int i);   ///< an error when absent
  ValueId opt(int i);  ///< kNoValue when absent
  std::vector<ValueId> all_inputs();
  /// Inputs [0, required), an error when absent, then [required, count) without absent ones at the end.
  std::vector<ValueId> operands(int required, int count);
  void ignore(int i);                                     ///< an input that has no meaning for the result
  int rank_or_fail(ValueId id);                           ///< an error when unknown
  const Tensor* const_tensor(int i);                      ///< null when absent or dynamic
  std::optional<std::vector<int64_t>> const_ints(int i);  ///< an integer constant's contents
  std::optional<std::vector<float>> const_floats(int i);  ///< a floating-point constant's contents
  /// Input i as a quantized value: the same integers with `quant` in their type.
  ValueId typed(int i, const QuantPtr& quant);

  // Attributes. A missing one gives the default; one of another type is an error.
  bool has_attr(std::string_view name) const { return find_attr(name) != nullptr; }
  int64_t i(std::string_view name, int64_t def = 0);
  bool flag(std::string_view name, bool def = false) { return i(name, def) != 0; }
  /// An error unless the integer attribute is absent or has the value.
  void only(std::string_view name, int64_t value);
  double f(std::string_view name, double def = 0);
  std::string s(std::string_view name, const std::string& def = "");
  std::vector<int64_t> ints(std::string_view name);
  std::vector<float> floats(std::string_view name);
  std::vector<double> doubles(std::string_view name);
  std::vector<std::string> strings(std::string_view name);
  std::optional<Tensor> tensor(std::string_view name);  ///< dense or sparse
  const GraphProto* graph(std::string_view name);
  const TypeProto* type_proto(std::string_view name);
  const AttributeProto* find_attr(std::string_view name) const;
  std::optional<Body> body(std::string_view attribute, const std::vector<ValueType>& inputs);

  // Results.
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool wants(int i) const { return i < outputs() && !node_.outputs[static_cast<size_t>(i)].empty(); }
  int wanted() const;  ///< outputs up to the last one that is wanted
  /// A graph node that gives outputs [0, count) of this node; count -1: as many as are wanted, at least one.
  void emit(Op op, AttrsPtr attrs, IntList inputs, int count = -1);
  void emit(Op op, IntList inputs) { emit(op, make_attrs<NoAttrs>(), inputs); }
  template <std::derived_from<Attrs> A>
  void emit(Op op, A attrs, IntList inputs, int count = -1) {
    emit(op, make_attrs<A>(std::move(attrs)), inputs, count);
  }
  void bind(int i, ValueId id);
  /// Output i is the integers of a quantized value.
  void bind_typed(int i, ValueId id);

  ValueId scalar_like(ValueId x, double v);  ///< an error when x's element type is unknown
  /// 0 keeps a dimension, unless `allow_zero`; -1: inferred.
  ValueId reshape(ValueId x, const std::vector<int64_t>& shape, bool allow_zero = false);

 private:
  ValueId new_output(int i);
  void refine(int i, ValueId id);

  ModelLowering& lowering_;
  Scope& scope_;
  const NodeProto& node_;
  int64_t version_;
  std::vector<ValueId> values_;
  std::vector<char> read_, bound_;
  mutable std::vector<char> asked_;  ///< attributes that the lowering asked for by name
};

}  // namespace smelt::onnx
