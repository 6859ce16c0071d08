#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "smelt/result.h"

namespace smelt::onnx {

// The messages of an ONNX file. Text and tensor bytes are views of the file: it must outlive these structs.

struct Dimension {
  int64_t value = -1;
  std::string_view param;  ///< symbolic name
};

struct TypeProto {
  enum class Kind : uint8_t { kNone, kTensor, kSequence, kMap, kOptional, kSparseTensor, kOpaque };
  Kind kind = Kind::kNone;
  int64_t elem_type = 0;  ///< tensors; of maps the key type
  bool has_shape = false;
  std::vector<Dimension> dims;
  std::unique_ptr<TypeProto> element;  ///< of sequences and optionals, value type of maps
};

/// Values of a repeated numeric field as they lie in the file: packed runs, or one run an unpacked value.
using Runs = std::vector<std::string_view>;

struct TensorProto {
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  std::string_view name;
  bool has_raw = false;
  std::string_view raw;
  Runs floats, int32s, int64s, doubles, uint64s;
  std::vector<std::string_view> strings;
  std::vector<std::pair<std::string_view, std::string_view>> external;
  bool is_external = false;
  bool is_segment = false;  ///< holds a part of a larger tensor's values
};

struct SparseTensorProto {
  TensorProto values, indices;
  std::vector<int64_t> dims;
};

struct ValueInfo {
  std::string_view name;
  TypeProto type;
  std::string_view doc;
};

struct GraphProto;

struct AttributeProto {
  enum Type : int64_t {
    kUndefined = 0,
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
    kSparseTensor = 11,
    kSparseTensors = 12,
    kTypeProto = 13,
    kTypeProtos = 14
  };
  std::string_view name, ref;  ///< ref: the function's attribute that gives the value
  int64_t type = kUndefined;   ///< files of IR 1 leave it out; then it follows from the field that is set
  bool untyped = false;        ///< the file leaves it out
  uint32_t fields = 0;         ///< bit t: the file holds a value of type t
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  std::unique_ptr<TensorProto> tensor;
  std::unique_ptr<SparseTensorProto> sparse;
  std::unique_ptr<TypeProto> type_proto;
  std::unique_ptr<GraphProto> graph;
  std::vector<TensorProto> tensors;
};

struct NodeProto {
  std::vector<std::string_view> inputs, outputs;
  std::string_view name, op_type, domain, overload;
  std::vector<AttributeProto> attributes;
  std::string_view message;  ///< the serialized NodeProto; empty where the file is no .onnx
};

struct GraphProto {
  std::string_view name, doc;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<SparseTensorProto> sparse_initializers;
  std::vector<ValueInfo> inputs, outputs, value_info;
};

struct OpsetId {
  std::string_view domain;
  int64_t version = 0;
};

struct FunctionProto {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<AttributeProto> default_attributes;
  std::vector<NodeProto> nodes;
  std::vector<OpsetId> opsets;
  std::vector<ValueInfo> value_info;
};

struct ModelProto {
  int64_t ir_version = 0, model_version = 0;
  std::vector<OpsetId> opsets;
  std::string_view producer_name, producer_version, domain, doc;
  bool has_graph = false;
  GraphProto graph;
  std::vector<FunctionProto> functions;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  bool ordered = true;  ///< nodes must stand behind those whose results they read, as ONNX demands
};

/// Parses a whole file. Submessages given in parts merge, unknown fields are skipped, unpacked repeated fields are
/// accepted; nesting and the number of nodes are limited.
Result<std::unique_ptr<ModelProto>> parse_model(std::string_view bytes, size_t max_nodes);

/// Messages of ONNX's test data: input_N.pb and output_N.pb.
enum class TestKind : uint8_t { kTensor, kSequence, kOptional };
/// The tensors of one value: one of a tensor, any number of a sequence, at most one of an optional tensor.
Result<std::vector<TensorProto>> parse_test_value(std::string_view bytes, TestKind kind);

/// True if the bytes begin as a ModelProto does: known top-level fields with their wire types.
bool looks_like_model(std::string_view bytes);

/// Decodes the varints of runs; false when they are malformed or more than `limit`.
bool decode_varints(const Runs& runs, size_t limit, std::vector<uint64_t>& out);

}  // namespace smelt::onnx
