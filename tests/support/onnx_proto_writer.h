#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace smelt::onnx {

/// Writes protobuf messages field by field, for tests.
class ProtoWriter {
 public:
  ProtoWriter& number(uint32_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  ProtoWriter& text(uint32_t field, std::string_view bytes) {
    varint(field << 3 | 2);
    varint(bytes.size());
    out_.append(bytes);
    return *this;
  }
  ProtoWriter& message(uint32_t field, const ProtoWriter& m) { return text(field, m.out_); }
  ProtoWriter& real(uint32_t field, float value) {
    varint(field << 3 | 5);
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    out_.append(bytes, 4);
    return *this;
  }
  const std::string& bytes() const { return out_; }

 private:
  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.push_back(static_cast<char>(v | 0x80));
    out_.push_back(static_cast<char>(v));
  }
  std::string out_;
};

/// NodeProto of an operator.
inline ProtoWriter make_node(std::string_view op, std::initializer_list<std::string_view> inputs,
                             std::initializer_list<std::string_view> outputs, std::string_view domain = "") {
  ProtoWriter n;
  for (const auto i : inputs) n.text(1, i);
  for (const auto o : outputs) n.text(2, o);
  n.text(4, op);
  if (!domain.empty()) n.text(7, domain);
  return n;
}

/// ValueInfoProto of a tensor.
inline ProtoWriter make_value(std::string_view name, int64_t elem_type, std::initializer_list<int64_t> dims) {
  ProtoWriter shape, tensor, type, value;
  for (const int64_t d : dims) shape.message(1, ProtoWriter().number(1, static_cast<uint64_t>(d)));
  tensor.number(1, static_cast<uint64_t>(elem_type)).message(2, shape);
  type.message(1, tensor);
  return value.text(1, name).message(2, type);
}

/// TensorProto with raw data.
inline ProtoWriter make_raw_tensor(std::string_view name, int64_t data_type, std::initializer_list<int64_t> dims,
                                   std::string_view raw) {
  ProtoWriter t;
  for (const int64_t d : dims) t.number(1, static_cast<uint64_t>(d));
  return t.number(2, static_cast<uint64_t>(data_type)).text(8, name).text(9, raw);
}

/// ModelProto around a graph.
inline ProtoWriter make_model(const ProtoWriter& graph, int64_t opset = 17) {
  ProtoWriter m;
  m.number(1, 8).message(8, ProtoWriter().text(1, "").number(2, static_cast<uint64_t>(opset))).message(7, graph);
  return m;
}

}  // namespace smelt::onnx
