#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/list_view.h"
#include "graph/attrs.h"
#include "graph/storage.h"
#include "smelt/tensor.h"

namespace smelt {

class CustomOperator;

/// Operators of the graph; the list is ops/core/all_ops.inc.
enum class Op : uint16_t;

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;  ///< an absent optional input, or an output that nobody wants

/// Static type of a value.
struct ValueType {
  enum class Kind : uint8_t { kTensor, kSequence, kOptional, kMap };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kInvalid;             ///< kInvalid: not known before the run
  bool ranked = false;                       ///< false: not even the rank is known
  Shape shape;                               ///< -1 = unknown dimension
  QuantPtr quant;                            ///< nullptr: not quantized
  std::shared_ptr<const ValueType> element;  ///< of sequences and optionals

  static ValueType tensor(DType dtype) { return {.dtype = dtype}; }
  static ValueType tensor(DType dtype, const Shape& shape, QuantPtr quant = nullptr) {
    return {.dtype = dtype, .ranked = true, .shape = shape, .quant = std::move(quant)};
  }
  static ValueType sequence(ValueType of) {
    return {.kind = Kind::kSequence, .element = std::make_shared<const ValueType>(std::move(of))};
  }
  static ValueType optional(ValueType of) {
    return {.kind = Kind::kOptional, .element = std::make_shared<const ValueType>(std::move(of))};
  }
  bool is_static() const { return kind == Kind::kTensor && ranked && shape.is_static() && dtype != DType::kInvalid; }
  std::string str() const;  ///< "float32[1,?,3]", "int8[4]{scale 0.5, zero point 3}", "sequence(float32)"
};

/// True of tensors of float32 without quantization.
inline bool is_unquantized_f32(const ValueType& t) { return t.dtype == DType::kF32 && !t.quant; }

struct Value {
  std::string name;
  ValueType type;
  /// Contents when known at load: a view into the file, or a small owned tensor.
  std::shared_ptr<const Tensor> constant;
  std::vector<std::string> dim_names;  ///< symbolic dimensions of graph inputs and outputs
  std::vector<int64_t> bound;          ///< of a graph input: the largest dimensions to plan memory for, or empty
  std::string doc;
  StorageHint storage;  ///< what the model asks for on a GPU
  /// Of what a pass made or numbered anew: the id that the value, or the one that it is another form of, had in the
  /// graph that was read; one behind all of those if it is no form of any.
  ValueId read_as = kNoValue;
};

/// A value without a name that is that tensor.
Value constant_value(Tensor tensor);
/// A value without a name that is a list of int64.
Value constant_integers(Int64List integers);

struct Node {
  Op op{};
  std::vector<ValueId> inputs;   ///< kNoValue for an absent optional input
  std::vector<ValueId> outputs;  ///< kNoValue for an output that nobody wants
  AttrsPtr attrs;
  std::string name;    ///< in the model, for messages and profiles
  std::string origin;  ///< operator in the model's format: "CONV_2D", "com.microsoft.Gelu", "aten::add.out"
  std::string where;   ///< location for messages: "subgraph 0, operator 12"
  int partition = -1;  ///< index of Module::partitions, where the node came from; -1: the program itself
};

/// A function: nodes in topological order; operators with side effects (state) stay in the order given.
/// A graph sees only its own values: what an ONNX body captures becomes a further input.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;

  ValueId add_value(Value v) {
    values.push_back(std::move(v));
    return static_cast<ValueId>(values.size()) - 1;
  }
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  /// Value::read_as of any value.
  ValueId read_as(ValueId id) const { return value(id).read_as == kNoValue ? id : value(id).read_as; }
  /// A value that stands for another one of the graph in another form: of its name, and of its type so far.
  Value form_of(ValueId id) const {
    Value v;
    v.name = value(id).name;
    v.type = value(id).type;
    v.read_as = read_as(id);
    return v;
  }
};

/// A variable that lives across runs.
struct StateVar {
  std::string name;
  ValueType type;
  Datum initial;  ///< none: zeros of `type` (which is then static), or unset until assigned
};

struct Method {
  std::string name;
  int graph = 0;
  std::vector<uint64_t> planned;  ///< bytes of the buffers that the file itself plans for activations
  /// Why the method can't run here; empty: it can. The graph of a method that can't has inputs and nothing else.
  std::string refusal = {};
};

/// A part of a program that its exporter lowered to a delegate. The graph holds the delegate's nodes, each with the
/// index of its partition.
struct Partition {
  std::string name;     ///< "forward, delegate 0"
  std::string backend;  ///< "XnnpackBackend"
  uint64_t bytes = 0;   ///< of the delegate's blob
};

/// Size and purpose of some bytes of a model's files.
struct FilePart {
  std::string name;  ///< "constant segment"
  size_t count = 1;  ///< how many such parts
  uint64_t bytes = 0;
  bool outside = false;  ///< not in the model's own file
};

/// A whole loaded model.
struct Module {
  std::string format;    ///< "tflite", "onnx", "ort", "executorch", "xnnpack", "vulkan"
  std::string name;      ///< path or label, begins every message
  std::string producer;  ///< free text of the file: description, producer name and version
  std::vector<Graph> graphs;
  std::vector<Method> methods;  ///< at least one; the first is the default
  std::vector<StateVar> states;
  std::vector<Partition> partitions;
  std::vector<FilePart> parts;  ///< those in the model's own file add up to its size; empty: not known
  std::vector<std::pair<std::string, std::string>> metadata;  ///< shown by inspect
  std::vector<std::string> warnings;  ///< what the reader noticed and read all the same, each with its location
  /// Associated files of TFLite metadata (labels): lines by file name.
  std::map<std::string, std::vector<std::string>> text_files;
  /// Normalization of TFLite metadata, by input index: real = (pixel - mean) / std.
  struct Normalization {
    std::vector<float> mean, std;
  };
  std::map<int, Normalization> normalization;
  std::vector<std::shared_ptr<CustomOperator>> custom_operators;
  std::shared_ptr<const void> storage;  ///< keeps the mapped file
  std::span<const std::byte> file;      ///< its bytes, or those that were given
  /// True if the known dimensions of inputs must be met; otherwise a caller's shapes replace them.
  bool exact_inputs = false;

  const Method* find_method(std::string_view name) const;  ///< "": the first; nullptr when absent
};

}  // namespace smelt
