#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/format.h"
#include "formats/tflite/buffer_table.h"
#include "formats/tflite/schema.h"
#include "ops/core/builder.h"

namespace smelt::tflite {

/// A tensor of a subgraph, and the value of the graph that stands for it while the subgraph is lowered.
struct TensorSlot {
  const tfl::Tensor* table = nullptr;
  DType dtype = DType::kInvalid;  ///< kInvalid: a resource or variant
  Shape shape;                    ///< from shape_signature where it is given; -1 = not fixed
  QuantPtr quant;                 ///< as the file states it, whatever the element type
  ValueId value = kNoValue;       ///< kNoValue: not computed yet, or a variable
  int state = -1;                 ///< index into Module::states of a variable tensor
};

/// A resource that operators name by a handle: a variable or a hash table.
struct Resource {
  std::string key;  ///< equal keys are one resource
  int state = -1;   ///< the variable, or the table's keys
  int values = -1;  ///< the table's values
  DType key_dtype = DType::kInvalid, value_dtype = DType::kInvalid;
};

/// Turns one verified flatbuffer into a module.
class Reader {
 public:
  /// `model`: in the first `flatbuffer` bytes of the source.
  Reader(const Source& source, size_t flatbuffer, const tfl::Model& model)
      : source_(source), model_(model), buffers_(source.bytes.first(flatbuffer), model) {}
  Result<Module> read();

  const tfl::Model& model() const { return model_; }
  const Source& source() const { return source_; }
  Module& module() { return module_; }
  int subgraphs() const { return static_cast<int>(model_.subgraphs()->size()); }
  /// Bytes of buffer `index`, inside the flatbuffer or behind it; empty when it has none.
  Result<std::span<const uint8_t>> buffer(uint32_t index);
  /// Bytes of the file by absolute offset, or an error naming `what`.
  Result<std::span<const uint8_t>> file_bytes(uint64_t offset, uint64_t size, const char* what) const;
  /// The resource of this key, made on first use.
  int resource(const std::string& key);
  /// What a handle tensor names: an index of resource_at(), or -1 when it is not known before the run.
  int handle(int subgraph, int tensor) const;
  Resource& resource_at(int index) { return resources_[static_cast<size_t>(index)]; }
  /// A new variable of the module.
  int add_state(StateVar state);
  /// The state of a resource variable. It has no value until it is assigned.
  int variable_state(int resource, DType dtype);
  /// The shape of all values that are assigned to a resource variable; null if there is none such.
  const Shape* variable_shape(int resource);
  /// Notes that a value of this type is assigned to a resource variable.
  void variable_assigned(int resource, const ValueType& type);

 private:
  Status check_top();
  Status read_module();
  /// True if the shapes that variables were read with hold for all assignments. Otherwise the module has to be read
  /// again.
  bool variable_shapes_hold(int round);
  Status add_methods();
  /// Follows handles from the operators that make them through calls into other subgraphs.
  Status resolve_handles();
  /// Reads the subgraphs that this one runs, then itself.
  Status read_subgraph(int index, std::vector<char>& state, int depth);

  const Source& source_;
  const tfl::Model& model_;
  BufferTable buffers_;
  Module module_;
  std::vector<Resource> resources_;
  std::map<std::pair<int, int>, int> handles_;  // (subgraph, tensor) -> resource

  /// What is found out about a resource variable, by its key.
  struct VariableShape {
    std::optional<Shape> shape;  ///< of the assigned values
    bool differs = false;        ///< another assigned value has another shape, or none that is fixed
    bool unshaped = false;       ///< the variable was read without a shape
  };
  std::map<std::string, VariableShape> variable_shapes_;
};

/// Lowers one subgraph into the graph of the same index.
class SubgraphReader {
 public:
  SubgraphReader(Reader& reader, int index);
  Status read();

  Reader& reader() { return reader_; }
  const Reader& reader() const { return reader_; }
  Builder& builder() { return builder_; }
  int index() const { return index_; }
  int tensors() const { return static_cast<int>(slots_.size()); }
  TensorSlot& slot(int tensor) { return slots_[static_cast<size_t>(tensor)]; }
  /// The value of a tensor; a variable is read here and now.
  Result<ValueId> use(int tensor);
  /// Makes a variable of a tensor without contents.
  Status make_variable(int tensor);
  /// Type of the value that an operator writes to `tensor`: element type and quantization, shape left to inference.
  ValueType result_type(const TensorSlot& slot) const;

 private:
  Status read_tensors();
  Status read_tensor(int tensor);
  Status read_tensor_list(TensorSlot& slot, const tfl::VariantSubType& element);
  Status read_constant(int tensor, bool produced);
  Status read_operators();
  Status add_inputs();
  Status add_outputs();

  Reader& reader_;
  const tfl::SubGraph& table_;
  int index_;
  Builder builder_;
  std::vector<TensorSlot> slots_;
};

/// Subgraphs that an operator runs; indices are not checked.
std::vector<int> called_subgraphs(const tfl::Operator& op);
/// Effective number of an operator's code; -1 when its index is out of range.
int operator_number(const tfl::Model& model, const tfl::Operator& op);
/// Element type of a tensor type's number; kInvalid for resources and variants. An error for numbers beyond the schema.
Result<DType> dtype_of(tfl::TensorType type);
/// Quantization as the file states it; null when there is none. Block-wise parameters refer to other tensors of the
/// subgraph.
Result<QuantPtr> read_quantization(SubgraphReader& subgraph, const tfl::Tensor& tensor, DType dtype);
/// A string constant's elements.
Result<Tensor> read_strings(std::span<const uint8_t> bytes, const Shape& shape);
/// Expands a sparse constant.
Result<Tensor> densify(const tfl::SparsityParameters& sparsity, std::span<const uint8_t> bytes, DType dtype,
                       const Shape& shape);
/// Associated files, normalization and free-form entries of Model.metadata.
Status read_metadata(Reader& reader);
/// True if a value of this type keeps its quantization in the graph (TFLite ignores it on the other types).
bool keeps_quantization(DType dtype);

}  // namespace smelt::tflite
