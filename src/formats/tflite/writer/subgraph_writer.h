#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/list_view.h"
#include "formats/common/writer.h"
#include "formats/tflite/schema.h"
#include "graph/graph.h"

namespace smelt::tflite {

/// Options of an operator: a table of one of the schema's two unions, made when the file is laid out.
struct OperatorOptions {
  tfl::BuiltinOptions type = tfl::BuiltinOptions::NONE;
  tfl::BuiltinOptions2 type2 = tfl::BuiltinOptions2::NONE;
  std::function<flatbuffers::Offset<void>(flatbuffers::FlatBufferBuilder&)> make = {};
};

/// Options of the table T: `make` takes the builder and gives the table's offset.
template <class T, class Make>
OperatorOptions options_of(Make make) {
  OperatorOptions o;
  if constexpr (requires { tfl::BuiltinOptionsTraits<T>::enum_value; })
    o.type = tfl::BuiltinOptionsTraits<T>::enum_value;
  else
    o.type2 = tfl::BuiltinOptions2Traits<T>::enum_value;
  o.make = [make](flatbuffers::FlatBufferBuilder& b) { return flatbuffers::Offset<void>(make(b).o); };
  return o;
}

/// A tensor of a subgraph to write.
struct FileTensor {
  std::string name = {};
  DType dtype = DType::kF32;
  bool ranked = false;  ///< false: the shape is filled in once the whole file is laid out
  Shape shape = {};     ///< -1: not fixed
  QuantPtr quant = {};
  std::shared_ptr<const Tensor> contents = {};  ///< of a constant
  bool variable = false;                        ///< lives across runs, starts at zero
  bool resource = false;                        ///< a handle of a resource variable
};

/// An operator of a subgraph to write. Operands are indices of tensors; -1: absent.
struct FileOperator {
  tfl::BuiltinOperator code{};
  std::string custom_code = {};
  std::vector<int> inputs = {}, outputs = {}, intermediates = {};
  OperatorOptions options = {};
  std::vector<uint8_t> custom_options = {};
};

struct FileSubgraph {
  std::string name = {};
  std::vector<FileTensor> tensors = {};
  std::vector<FileOperator> operators = {};
  std::vector<int> inputs = {}, outputs = {};
};

/// A WHILE whose body is the subgraph of an ONNX body, which has to be given the loop's variables.
struct FileLoop {
  struct Scanned {
    int64_t axis = 0;
    bool backward = false;
    FileTensor type = {};  ///< of the whole tensor
  };
  int body = -1, condition_graph = -1;  ///< subgraphs
  size_t states = 0, appended = 0;
  bool condition = false;  ///< the body takes iteration and condition first, and gives a condition
  std::vector<Scanned> scanned = {};
  std::vector<FileTensor> appended_types = {};
  std::vector<bool> appended_flat = {};  ///< true: rows are joined as vectors of elements
  std::vector<ValueType> operands = {};  ///< types of the body's inputs behind iteration and condition
};

/// What the subgraphs of a file share.
struct FileContext {
  const Module& module;
  const formats::WriteOptions& options;
  std::vector<FileSubgraph>& subgraphs;
  /// 8-bit values become int8, whose kernels TFLite has for scales per channel: uint8 with zero point z is int8 with
  /// z - 128. False for models that are TFLite's already.
  bool prefer_int8 = false;
  bool uint8 = false;           ///< 8-bit values stay uint8 all the same: see keeps_uint8()
  std::vector<int> order = {};  ///< the graph of each subgraph
  int initializer = -1;         ///< subgraph that gives variables their first contents; -1: none yet
  std::vector<FileLoop> loops = {};
  int subgraph_of(int graph) const { return static_cast<int>(std::ranges::find(order, graph) - order.begin()); }
  std::vector<formats::Unwritable> missing = {};
  /// Adds an empty subgraph and returns its index. References to subgraphs, tensors and operators become invalid.
  int add_subgraph(std::string name);
};

/// Writes one graph as one subgraph. A value may have several tensors: one with its dimensions as the graph has them,
/// one with channels last, one for each quantization that its integers are read with. Each is made when it is first
/// asked for, so that chains of operators with channels last need a TRANSPOSE at their ends only.
class SubgraphWriter {
 public:
  /// `entry`: the graph of a method, whose inputs and outputs keep their element types.
  SubgraphWriter(FileContext& file, int index, const Graph& graph, bool entry)
      : file_(file), index_(index), graph_(graph), entry_(entry) {}
  /// Writes all; FileContext::missing gets what can't be written.
  void write();
  /// Writes a subgraph that gives variables their first contents.
  void write_initializer();
  /// True if the node can be written. Nothing of the subgraph is of use afterwards.
  bool try_node(const Node& node);
  /// Calls `write`, which may write operators; if it returns false, all that it wrote is taken back.
  bool attempt(const std::function<bool()>& write);

  FileContext& file() { return file_; }
  const Graph& graph() const { return graph_; }
  FileSubgraph& out() { return file_.subgraphs[static_cast<size_t>(index_)]; }
  FileTensor& at(int tensor) { return out().tensors[static_cast<size_t>(tensor)]; }
  const ValueType& type(ValueId id) const { return graph_.value(id).type; }
  /// Number of readers of a value: nodes and graph outputs.
  int uses(ValueId id) const { return id < static_cast<int>(uses_.size()) ? uses_[static_cast<size_t>(id)] : 1; }
  /// The node that writes a value, or null.
  const Node* producer(ValueId id) const;

  // Tensors of values.
  int tensor(ValueId id);                   ///< dimensions in the graph's order
  int channels_last(ValueId id);            ///< of rank 3 or more, the second dimension moved behind the others
  int same_elements(ValueId id);            ///< any tensor whose elements have the graph's order
  bool is_channels_last(ValueId id) const;  ///< true if the value has been written with channels last, only
  void bind(ValueId id, int tensor);
  void bind_channels_last(ValueId id, int tensor);
  /// Integers of an unquantized value that a tensor holds under a quantization.
  void bind_quantized(ValueId id, int tensor);
  /// The tensor of an integer value under a quantization (that of values with type.quant == quant).
  int quantized(ValueId id, const QuantPtr& quant);
  /// The element type and quantization that a value has in the file. Values quantized by slices at run time are float32
  /// values rounded to those steps, which are computed where a node asks for them.
  std::pair<DType, QuantPtr> file_type(const ValueType& type) const;

  /// The handle of a resource variable, or the tensor marked as variable, that stands for a state.
  int handle(int state);
  int variable(int state, const FileTensor& tensor);

  // Steps that operators need.
  int add_tensor(FileTensor t);
  int constant(Tensor t);
  int add(tfl::BuiltinOperator code, IntList inputs, DType dtype, OperatorOptions options = {},
          QuantPtr quant = nullptr);
  void add_to(tfl::BuiltinOperator code, IntList inputs, IntList outputs, OperatorOptions options = {});
  int cast(int x, DType to);  ///< x itself if it has the type
  int dequantize(int x);      ///< x itself if it is a float, float16 constants aside
  int quantize(int x, DType dtype, const QuantPtr& quant);
  int as_quantized(int x, const QuantPtr& quant);  ///< the integers of x under other parameters
  int without_quantization(int x);                 ///< the integers of x
  int transpose(int x, const std::vector<int64_t>& perm);
  int reshape(int x, Int64List shape);
  int i32(Int64List values);
  int i32_scalar(int64_t value);
  int f32(double value);  ///< a scalar

 private:
  struct Forms {
    int graph_order = -1, channels_last = -1;
    std::vector<int> quantized = {};  ///< of an unquantized value
  };
  void add_inputs();
  void add_outputs();
  void emit(const Node& node);
  int constant_of(ValueId id);
  void name(int tensor, ValueId id, bool graph_order);

  FileContext& file_;
  int index_;
  const Graph& graph_;
  bool entry_;
  std::map<ValueId, Forms> forms_;
  std::map<ValueId, const Node*> producers_;
  std::map<int, int> states_;
  std::vector<int> uses_;
};

/// True if each slice of a value gets quantization parameters at run time.
inline bool is_per_token(const ValueType& t) { return t.quant && t.quant->kind == Quantization::Kind::kPerToken; }
/// Gives the body of a loop its variables, once it is written, and adds the subgraph of the loop's condition.
void finish_loop(FileContext& file, const FileLoop& loop);
/// True if all 8-bit values of a module are uint8 with one scale, which its operators have kernels for, and some
/// weights have another zero point than those of int8 kernels.
bool keeps_uint8(const Module& module);
/// True if a state is a resource variable that has contents before the first run.
bool has_first_contents(const Module& module, int state);
/// True if a state belongs to a recurrent cell, whose kernel writes it: a tensor marked as variable, not a resource.
bool belongs_to_cell(const Module& module, int state);
/// The constant in another order of its dimensions; per-axis quantization follows.
Tensor transposed(const Tensor& t, const std::vector<int64_t>& perm);
/// The constant with an element type and quantization that the format's kernels take: floats as float32, uint8 as int8
/// where `to` says so.
Tensor retyped(const Tensor& t, DType dtype, QuantPtr quant);

}  // namespace smelt::tflite
