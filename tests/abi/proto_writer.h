#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace abi {

/// Writes protobuf fields; just enough to make ONNX models for tests.
class Message {
 public:
  Message& number(int field, uint64_t v) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(v);
    return *this;
  }
  Message& bytes(int field, std::string_view v) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(v.size());
    data_ += v;
    return *this;
  }
  Message& message(int field, const Message& m) { return bytes(field, m.data_); }
  const std::string& str() const { return data_; }

 private:
  void varint(uint64_t v) {
    while (v >= 0x80) {
      data_ += static_cast<char>(v | 0x80);
      v >>= 7;
    }
    data_ += static_cast<char>(v);
  }
  std::string data_;
};

/// A dimension: a number, or a name when `name` is set.
struct Dim {
  int64_t value = 0;
  std::string name;
  Dim(int v) : value(v) {}         // NOLINT(google-explicit-constructor)
  Dim(const char* n) : name(n) {}  // NOLINT(google-explicit-constructor)
};

struct Tensor {
  std::string name;
  int type = 1;  ///< ONNX element type
  std::vector<Dim> dims;
  bool unranked = false;  ///< no shape is declared
};

struct NodeSpec {
  std::string op;
  std::vector<std::string> inputs, outputs;
  std::vector<std::pair<std::string, int64_t>> ints;  ///< integer attributes
  std::string domain;
  std::vector<std::pair<std::string, std::vector<int64_t>>> lists;  ///< integer list attributes
  std::vector<std::pair<std::string, Message>> graphs;              ///< bodies: graph_message
};

struct ModelSpec {
  std::vector<Tensor> inputs, outputs;
  std::vector<NodeSpec> nodes;
  std::vector<std::pair<Tensor, std::string>> initializers;  ///< with raw bytes
  int64_t ir = 8, opset = 17;
  std::string domain;  ///< of a second opset import
  int64_t domain_version = 1;
  std::vector<Tensor> infos;       ///< declared types of values between nodes
  std::vector<Message> functions;  ///< function_message
};

inline Message value_info(const Tensor& t) {
  Message shape, tensor, type, info;
  for (const Dim& d : t.dims) {
    Message dim;
    if (d.name.empty())
      dim.number(1, static_cast<uint64_t>(d.value));
    else
      dim.bytes(2, d.name);
    shape.message(1, dim);
  }
  tensor.number(1, static_cast<uint64_t>(t.type));
  if (!t.unranked) tensor.message(2, shape);
  type.message(1, tensor);
  info.bytes(1, t.name).message(2, type);
  return info;
}

inline Message node_message(const NodeSpec& n) {
  Message node;
  for (const auto& i : n.inputs) node.bytes(1, i);
  for (const auto& o : n.outputs) node.bytes(2, o);
  node.bytes(4, n.op);
  for (const auto& [name, v] : n.ints) {
    Message a;
    a.bytes(1, name).number(3, static_cast<uint64_t>(v)).number(20, 2);
    node.message(5, a);
  }
  for (const auto& [name, list] : n.lists) {
    Message a;
    a.bytes(1, name);
    for (int64_t v : list) a.number(8, static_cast<uint64_t>(v));
    a.number(20, 7);
    node.message(5, a);
  }
  for (const auto& [name, graph] : n.graphs) {
    Message a;
    a.bytes(1, name).message(6, graph).number(20, 5);
    node.message(5, a);
  }
  if (!n.domain.empty()) node.bytes(7, n.domain);
  return node;
}

inline Message graph_message(const ModelSpec& m) {
  Message graph;
  for (const NodeSpec& n : m.nodes) graph.message(1, node_message(n));
  graph.bytes(2, "g");
  for (const auto& [t, raw] : m.initializers) {
    Message tensor;
    for (const Dim& d : t.dims) tensor.number(1, static_cast<uint64_t>(d.value));
    tensor.number(2, static_cast<uint64_t>(t.type)).bytes(8, t.name).bytes(9, raw);
    graph.message(5, tensor);
  }
  for (const Tensor& t : m.inputs) graph.message(11, value_info(t));
  for (const Tensor& t : m.outputs) graph.message(12, value_info(t));
  for (const Tensor& t : m.infos) graph.message(13, value_info(t));
  return graph;
}

inline Message opset_message(const std::string& domain, int64_t version) {
  Message m;
  m.bytes(1, domain).number(2, static_cast<uint64_t>(version));
  return m;
}

/// A function of a domain, over opset 17.
inline Message function_message(const std::string& domain, const std::string& name,
                                const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                                const std::vector<NodeSpec>& nodes) {
  Message f;
  f.bytes(1, name);
  for (const auto& i : inputs) f.bytes(4, i);
  for (const auto& o : outputs) f.bytes(5, o);
  for (const auto& n : nodes) f.message(7, node_message(n));
  f.message(9, opset_message("", 17)).bytes(10, domain);
  return f;
}

inline std::string serialize(const ModelSpec& m) {
  Message model;
  model.number(1, static_cast<uint64_t>(m.ir)).message(7, graph_message(m)).message(8, opset_message("", m.opset));
  if (!m.domain.empty()) model.message(8, opset_message(m.domain, m.domain_version));
  for (const Message& f : m.functions) model.message(25, f);
  return model.str();
}

template <class T>
std::string raw(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}

/// y = Relu(x), both [n].
inline ModelSpec relu_model(int n = 4) { return {{{"x", 1, {n}}}, {{"y", 1, {n}}}, {{"Relu", {"x"}, {"y"}}}}; }
/// y = Add(x, w); w is an input that weights may set.
inline ModelSpec add_model(int n = 4) {
  return {{{"x", 1, {n}}, {"w", 1, {n}}}, {{"y", 1, {n}}}, {{"Add", {"x", "w"}, {"y"}}}};
}

}  // namespace abi
