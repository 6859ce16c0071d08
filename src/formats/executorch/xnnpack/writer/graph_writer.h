#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/executorch/xnnpack/graph.h"
#include "graph/graph.h"
#include "ops/common/enums.h"

namespace smelt::executorch {

/// Contents that a program keeps under a name of their own.
struct NamedTensor {
  std::string key;
  Tensor contents;
};

/// The constant with its dimensions in another order; per-axis quantization follows.
Tensor permuted_constant(const Tensor& t, const std::vector<int64_t>& perm);

/// Quantization of the bias (input 2) of a weighted node. An integer bias without parameters of its own has the product
/// of those of input and weights.
QuantPtr bias_quant(const Graph& graph, const Node& node);

/// An XNNPACK graph of nodes of one graph, which a program's delegate runs. Its values are float32, float16, or int8 or
/// uint8 with one scale and zero point; what goes in and out has the order of dimensions that the graph gives it.
/// Images between nodes have channels last.
class XnnGraphWriter {
 public:
  explicit XnnGraphWriter(const Graph& graph) : graph_(graph) {}

  /// Adds a node. False if XNNPACK has no form for it; the writer is of no use afterwards.
  bool add(const Node& node);
  /// Makes these values of the graph the results.
  void set_outputs(std::span<const ValueId> ids);
  /// The values of the graph that are arguments, in their order; the results follow them.
  const std::vector<ValueId>& inputs() const { return inputs_; }
  /// The delegate's bytes. Contents of constants go to `named`, each once.
  std::string finish(std::vector<NamedTensor>& named) const;

  // What the functions of a node use.
  using Id = uint32_t;
  using Type = fb_xnnpack::XNodeUnion;
  using Builder = flatbuffers::FlatBufferBuilder;
  using Table = std::function<flatbuffers::Offset<void>(Builder&)>;
  const Graph& graph() const { return graph_; }
  Id value(ValueId id);  ///< dimensions in the graph's order
  Id channels_last(ValueId id);
  bool only_channels_last(ValueId id) const;
  void bind(ValueId id, Id value) { forms_[id].graph_order = value; }
  void bind_channels_last(ValueId id, Id value) { forms_[id].channels_last = value; }
  Id add_value(DType dtype, const Shape& shape, QuantPtr quant = nullptr);
  /// A constant whose contents are made when the graph is written.
  Id add_constant(DType dtype, const Shape& shape, QuantPtr quant, std::function<Tensor()> contents);
  void node(Type type, Table table, Bounds bounds);
  void node(Type type, Table table);
  /// A node of one input and one output.
  Id unary(Type type, Id x, DType dtype, const Shape& shape, QuantPtr quant);
  /// Rows and images that are quantized at run time are so once for all readers.
  Id convert(Id x, DType dtype, QuantPtr quant);
  Id transpose(Id x, const std::vector<int64_t>& perm);
  Id reshape(Id x, const Shape& shape);
  const Shape& shape(Id x) const { return values_[x].shape; }
  DType dtype(Id x) const { return values_[x].dtype; }
  const QuantPtr& quant(Id x) const { return values_[x].quant; }

 private:
  struct FileValue {
    DType dtype = DType::kInvalid;
    Shape shape;
    QuantPtr quant;
    std::function<Tensor()> contents;  ///< of a constant
    uint32_t external = kXnnInvalidId, flags = 0;
  };
  struct FileNode {
    Type type;
    Table table;
    bool bounded = false;
    Bounds bounds{0, 0};
  };
  struct Forms {
    Id graph_order = kXnnInvalidId, channels_last = kXnnInvalidId;
  };
  flatbuffers::Offset<fb_xnnpack::XValue> file_value(Builder& b, Id id, uint32_t constant) const;

  const Graph& graph_;
  std::vector<FileValue> values_;
  std::vector<FileNode> nodes_;
  std::map<ValueId, Forms> forms_;
  /// Values that are quantized at run time by slices of so many dimensions.
  std::map<std::pair<Id, int>, Id> slices_;
  std::vector<ValueId> inputs_;
  std::vector<Id> outputs_;
};

/// Adds one node by the functions above; defined in nodes.cc.
bool write_xnn_node(XnnGraphWriter& graph, const Node& node);

}  // namespace smelt::executorch
