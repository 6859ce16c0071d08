#pragma once

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "formats/common/writer.h"
#include "graph/graph.h"

namespace smelt::onnx {

/// A name in the written model: an index into NameTable, so that a result can take its final text after it was used.
using Name = int;
inline constexpr Name kNoName = -1;  ///< an absent optional operand
using NameTable = std::vector<std::string>;

struct OutGraph;

struct Attribute {
  using Value = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                             std::vector<std::string>, Tensor, ValueType, std::shared_ptr<const OutGraph>>;
  std::string name;
  Value value;

  template <class T>
  Attribute(std::string n, T v) : name(std::move(n)), value(value_of(std::move(v))) {}

 private:
  template <class T>
  static Value value_of(T v) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<int64_t>(v);
    else if constexpr (std::is_convertible_v<T, const char*>)
      return std::string(v);
    else
      return Value(std::move(v));
  }
};

struct OutNode {
  std::string op, domain, name;
  std::vector<Name> inputs, outputs;
  std::vector<Attribute> attributes;
};

/// A typed input or output of a graph.
struct OutPort {
  Name name = kNoName;
  ValueType type;
  std::vector<std::string> dim_names;
  std::string doc;
};

struct OutInitializer {
  Name name = kNoName;
  Tensor tensor;
};

/// A graph of the written model. Bodies of control flow have no initializers: theirs are the main graph's.
struct OutGraph {
  std::string name;
  std::vector<OutNode> nodes;
  std::vector<OutPort> inputs, outputs;
  std::vector<OutInitializer> initializers;
};

struct OutModel {
  OutGraph graph;
  NameTable names;
  int opset = 0;
  std::string producer;
  std::vector<std::string> domains;  ///< besides the default one
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// The model's files: the model itself, and a data file with the constants if they are large or the option asks.
std::vector<formats::WrittenFile> encode(const OutModel& model, const formats::WriteOptions& options);

/// ONNX's number of an element type; 0: ONNX has none.
int64_t type_code(DType dtype);
/// The version of a domain that a written model imports.
int64_t domain_version(const std::string& domain);

}  // namespace smelt::onnx
