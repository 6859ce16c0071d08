#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/list_view.h"
#include "formats/common/written_node.h"
#include "formats/onnx/writer/encode.h"
#include "graph/graph.h"
#include "ops/common/enums.h"
#include "ops/core/op.h"

namespace smelt::onnx {

/// Names under which a value exists in the written graph. A form that is missing is made of another one when a node
/// asks for it. `real`: the value in the type that real_type() names, which is the stored one for most values.
struct ValueForms {
  struct Pair {
    Name as_is = kNoName;           ///< in the value's own order of dimensions
    Name channels_first = kNoName;  ///< [N, C, spatial...] of a channels-last value
  };
  Pair raw, real;
};

/// Which form of an operand a node wants.
enum class Order : uint8_t { kAsIs, kChannelsFirst };

class ModelWriter;
class NodeWriter;

/// A graph of the module while it is written: the nodes so far, and the forms of its values.
struct GraphScope {
  ModelWriter& model;
  const Graph& graph;
  std::vector<OutNode>& nodes;  ///< of the written graph; an inlined graph shares those of its caller
  std::vector<ValueForms> forms;
  std::multimap<ValueId, const Node*> readers;  ///< by value; see NodeWriter::reaches_image_node()
  bool straight = false;                        ///< runs once: the main graph and graphs inlined into it
  GraphScope(ModelWriter& m, const Graph& g, std::vector<OutNode>& n) : model(m), graph(g), nodes(n) {
    forms.resize(g.values.size());
  }
};

/// What all graphs of one written model share: names, constants, opset, and what could not be written.
class ModelWriter {
 public:
  ModelWriter(const Module& module, const formats::WriteOptions& options, bool dry)
      : module_(module), options_(options), dry_(dry) {}

  const Module& module() const { return module_; }
  const formats::WriteOptions& options() const { return options_; }
  /// True if nothing is kept and only the question counts if a node can be written: constants are not copied.
  bool dry() const { return dry_; }
  OutModel& out() { return out_; }
  std::vector<formats::Unwritable>& missing() { return missing_; }

  /// A new name whose text is `base`, made unique by a number if need be.
  Name fresh(const std::string& base);
  /// Gives a name that no node but its producer has fixed another text.
  void rename(Name name, const std::string& base);
  /// A constant of the main graph. Equal small constants, and constants on the same memory, have one name.
  Name constant(const Tensor& tensor, const std::string& base);
  /// The real values of a quantized constant, in float32.
  Name dequantized_constant(const Tensor& tensor, const Quantization& quant, const std::string& base);
  /// Declares that a node uses an operator of this opset of the default domain; false if the caller asked for an older
  /// one.
  bool need_opset(int version);
  int opset() const;  ///< the version written: the caller's, else the smallest that is enough
  void need_domain(const std::string& domain) { domains_.insert(domain); }
  const std::set<std::string>& domains() const { return domains_; }
  /// Nodes that compute constants of constants; they come before all others.
  std::vector<OutNode>& prologue() { return prologue_; }
  /// Writes the module's graph `index` into the nodes of `outer`, its inputs being the given forms. Returns the forms
  /// of its outputs.
  std::vector<ValueForms> inline_graph(GraphScope& outer, int index, const std::vector<ValueForms>& arguments);
  /// Writes all nodes of the scope's graph.
  void write_nodes(GraphScope& scope);
  /// The value of a variable where node `n` stands; fails inside bodies of control flow.
  Name state(int index, NodeWriter& n);
  void set_state(int index, NodeWriter& n);
  /// Makes outputs of the variables that nodes have written.
  void write_states(GraphScope& scope);

 private:
  const Module& module_;
  const formats::WriteOptions& options_;
  bool dry_;
  OutModel out_;
  std::vector<formats::Unwritable> missing_;
  std::unordered_set<std::string> texts_;
  std::unordered_map<std::string, int> next_number_;
  std::map<std::string, Name> constants_;
  std::vector<OutNode> prologue_;
  std::vector<Tensor> kept_;  ///< constants whose memory is a key and which the written model does not hold
  std::set<std::string> domains_;
  int needed_opset_ = 13;
  int depth_ = 0;  ///< of nested graphs
  struct State {
    Name now = kNoName;
    bool written = false;
  };
  std::map<int, State> states_;
};

/// The element type that nodes compute a value in: float32 for quantized and bfloat16 values, for which ONNX has few
/// operators; else its own.
inline DType real_type(const ValueType& t) { return t.quant || t.dtype == DType::kBF16 ? DType::kF32 : t.dtype; }

/// One node of the graph while it is written in ONNX's operators. A function of the table reads operands, adds ONNX
/// nodes and binds the results. After fail() nothing that it adds counts.
class NodeWriter : public formats::WrittenNode {
 public:
  NodeWriter(GraphScope& scope, const Node& node)
      : WrittenNode(scope.graph, node), scope_(scope), model_(scope.model) {}

  ModelWriter& model() { return model_; }
  GraphScope& scope() { return scope_; }

  // Operands.
  const ValueType& type(int i) const;
  DType dtype(int i) const { return type(i).dtype; }
  DType real_dtype(int i) const;  ///< see real_type()
  int rank(int i);                ///< fails when unknown
  bool is_static(int i) const { return has(i) && type(i).is_static(); }
  bool quantized(int i) const { return has(i) && type(i).quant != nullptr; }
  std::optional<std::vector<int64_t>> ints(int i) const { return WrittenNode::ints(i, INT64_MAX); }
  std::vector<int64_t> need_ints(int i, const char* what);  ///< fails when not constant
  Name in(int i, Order order = Order::kAsIs);               ///< real values; kNoName when absent
  Name raw(int i, Order order = Order::kAsIs);              ///< integers of a quantized operand
  std::vector<Name> all_in();                               ///< real values of all inputs
  /// Input i as int64 (1-D stays 1-D), cast if need be.
  Name in_i64(int i);
  /// True if the channels-first form of input i is at hand while its own order is not.
  bool channels_first_at_hand(int i) const;
  /// True if a convolution, pool or the like reads a value, or a Transpose to the channels-first order, perhaps behind
  /// a few nodes that work element by element.
  bool reaches_image_node(ValueId id) const;
  Name form(ValueId id, bool real, Order order);

  // Results.
  DType real_out_dtype(int i) const { return real_type(out_type(i)); }
  /// Output i has these real values; they are quantized if the output is.
  void bind(int i, Name real, Order order = Order::kAsIs);
  /// bind() behind an activation. One that clamps no more than the quantization of the output does is left out, so that
  /// the operator stands between its quantized values alone.
  void bind(int i, Name real, const Activation& act, Order order = Order::kAsIs);
  /// Output i has these elements, of its own element type.
  void bind_raw(int i, Name raw, Order order = Order::kAsIs);
  void bind_forms(int i, const ValueForms& forms);

  // Nodes. `op` may begin with a domain: "com.microsoft.FusedMatMul".
  Name op(std::string_view op, IntList inputs, ListView<Attribute> attributes = {});
  std::vector<Name> ops(std::string_view op, IntList inputs, size_t outputs, ListView<Attribute> attributes = {});
  Name i64(Int64List values);
  Name scalar(DType dtype, double value);
  Name floats(const std::vector<float>& values);
  Name tensor(const Tensor& t) { return model_.constant(t, "const"); }
  Name cast(Name x, DType to);
  Name transpose(Name x, Int64List perm);
  Name reshape(Name x, Int64List shape);  ///< -1: inferred; 0: x's
  Name unsqueeze(Name x, Int64List axes) { return op("Unsqueeze", {x, i64(axes)}); }
  Name squeeze(Name x, Int64List axes) { return op("Squeeze", {x, i64(axes)}); }
  Name slice(Name x, int64_t start, int64_t end, int64_t axis);
  Name reduce(const char* op, Name x, Int64List axes, bool keep_dims);
  Name clip(Name x, DType dtype, double lo, double hi);
  Name activated(Name x, const Activation& act);
  Name quantize(Name x, DType to, const Quantization& q, Order order, int rank);
  Name dequantize(Name x, DType from, const Quantization& q, Order order, int rank);

  template <class... A>
  void fail(const A&... what) {
    if (failure_.empty()) failure_ = Cat(what...);
  }
  bool ok() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }

 private:
  Name per_token(Name x, const ValueType& type);
  Name constant_form(ValueId id, bool real, Order order);
  Name reordered(Name x, ValueId id, Order to);
  Name broadcast_params(const std::vector<float>& values, const Quantization& q, int64_t axis, int rank);
  void name_result(ValueId id, Name name, Order order);

  GraphScope& scope_;
  ModelWriter& model_;
  std::vector<OutNode>* into_ = &scope_.nodes;
  std::unordered_set<Name> free_;  ///< names made here that belong to no value yet
  std::string failure_;
};

/// One line of the table of operators: how a graph operator is written, and as which ONNX operators (documentation).
struct OpWriter {
  Op op;
  void (*write)(NodeWriter& n);
  const char* as;
};
const OpWriter* find_op_writer(Op op);
std::span<const OpWriter* const> all_op_writers();

/// The permutation that makes a channels-last value of `rank` dimensions channels-first, and its inverse.
std::vector<int64_t> to_channels_first(int rank);
std::vector<int64_t> to_channels_last(int rank);
/// A copy with dimension perm[i] of `t` as dimension i.
Tensor permuted(const Tensor& t, const std::vector<int64_t>& perm);

}  // namespace smelt::onnx
