#include "formats/onnx/writer/encode.h"

#include <protozero/pbf_writer.hpp>

#include "formats/onnx/tensor.h"

namespace smelt::onnx {
namespace {

using protozero::pbf_writer;

/// IR version whose models import opset 21; it has all that a written model uses.
constexpr int64_t kIrVersion = 10;
constexpr size_t kExternalAlignment = 64;
constexpr size_t kExternalFrom = 1024;  ///< bytes of a constant from which it may lie in the data file

std::string message(auto&& fill) {
  std::string bytes;
  pbf_writer w(bytes);
  fill(w);
  return bytes;
}

std::string string_entry(const std::string& key, const std::string& value) {
  return message([&](pbf_writer& w) {
    w.add_string(1, key);
    w.add_string(2, value);
  });
}

std::string tensor_shape(const ValueType& type, const std::vector<std::string>& names) {
  return message([&](pbf_writer& w) {
    for (int i = 0; i < type.shape.rank(); ++i) {
      const auto k = static_cast<size_t>(i);
      w.add_message(1, message([&](pbf_writer& d) {
                      if (type.shape[i] >= 0)
                        d.add_int64(1, type.shape[i]);
                      else if (k < names.size() && !names[k].empty())
                        d.add_string(2, names[k]);
                    }));
    }
  });
}

std::string type_proto(const ValueType& type, const std::vector<std::string>& names = {}) {
  const auto element = [&] { return type_proto(type.element ? *type.element : ValueType{}); };
  return message([&](pbf_writer& w) {
    switch (type.kind) {
      case ValueType::Kind::kTensor:
        w.add_message(1, message([&](pbf_writer& t) {
                        t.add_int32(1, static_cast<int32_t>(type_code(type.dtype)));
                        if (type.ranked) t.add_message(2, tensor_shape(type, names));
                      }));
        break;
      case ValueType::Kind::kSequence:
        w.add_message(4, message([&](pbf_writer& s) { s.add_message(1, element()); }));
        break;
      case ValueType::Kind::kMap:
        w.add_message(5, message([&](pbf_writer& m) {
                        m.add_int32(1, static_cast<int32_t>(type_code(type.dtype)));
                        m.add_message(2, element());
                      }));
        break;
      case ValueType::Kind::kOptional:
        w.add_message(9, message([&](pbf_writer& o) { o.add_message(1, element()); }));
        break;
    }
  });
}

std::string port(const OutPort& p, const NameTable& names) {
  return message([&](pbf_writer& w) {
    w.add_string(1, names[static_cast<size_t>(p.name)]);
    w.add_message(2, type_proto(p.type, p.dim_names));
    if (!p.doc.empty()) w.add_string(3, p.doc);
  });
}

/// All of a TensorProto but its elements.
std::string tensor_header(const Tensor& t, const std::string& name) {
  return message([&](pbf_writer& w) {
    w.add_packed_int64(1, t.shape().begin(), t.shape().end());
    w.add_int32(2, static_cast<int32_t>(type_code(t.dtype())));
    if (t.dtype() == DType::kString)
      for (int64_t i = 0; i < t.elements(); ++i) w.add_bytes(6, t.data<std::string>()[i]);
    if (!name.empty()) w.add_string(8, name);
  });
}

std::string tensor_proto(const Tensor& t, const std::string& name) {
  std::string bytes = tensor_header(t, name);
  if (t.dtype() != DType::kString) pbf_writer(bytes).add_bytes(9, t.data<char>(), t.bytes());
  return bytes;
}

std::string graph_proto(const OutGraph& graph, const NameTable& names);

struct AttributeEncoder {
  pbf_writer& w;
  const NameTable& names;
  void operator()(int64_t v) const {
    w.add_int64(3, v);
    kind(2);
  }
  void operator()(double v) const {
    w.add_float(2, static_cast<float>(v));
    kind(1);
  }
  void operator()(const std::string& v) const {
    w.add_bytes(4, v);
    kind(3);
  }
  void operator()(const std::vector<int64_t>& v) const {
    for (const int64_t x : v) w.add_int64(8, x);
    kind(7);
  }
  void operator()(const std::vector<double>& v) const {
    for (const double x : v) w.add_float(7, static_cast<float>(x));
    kind(6);
  }
  void operator()(const std::vector<std::string>& v) const {
    for (const std::string& x : v) w.add_bytes(9, x);
    kind(8);
  }
  void operator()(const Tensor& v) const {
    w.add_message(5, tensor_proto(v, ""));
    kind(4);
  }
  void operator()(const ValueType& v) const {
    w.add_message(14, type_proto(v));
    kind(13);
  }
  void operator()(const std::shared_ptr<const OutGraph>& v) const {
    w.add_message(6, graph_proto(*v, names));
    kind(5);
  }
  void kind(int32_t code) const { w.add_enum(20, code); }
};

std::string node_proto(const OutNode& n, const NameTable& names) {
  const auto text = [&](Name name) { return name == kNoName ? std::string() : names[static_cast<size_t>(name)]; };
  return message([&](pbf_writer& w) {
    for (const Name i : n.inputs) w.add_string(1, text(i));
    for (const Name o : n.outputs) w.add_string(2, text(o));
    if (!n.name.empty()) w.add_string(3, n.name);
    w.add_string(4, n.op);
    for (const Attribute& a : n.attributes) {
      w.add_message(5, message([&](pbf_writer& m) {
                      m.add_string(1, a.name);
                      std::visit(AttributeEncoder{m, names}, a.value);
                    }));
    }
    if (!n.domain.empty()) w.add_string(7, n.domain);
  });
}

/// Nodes and name of a graph, then its ports: the fields before and behind the initializers.
std::string graph_nodes(const OutGraph& graph, const NameTable& names) {
  return message([&](pbf_writer& w) {
    for (const OutNode& n : graph.nodes) w.add_message(1, node_proto(n, names));
    w.add_string(2, graph.name.empty() ? "graph" : graph.name);
  });
}

std::string graph_ports(const OutGraph& graph, const NameTable& names) {
  return message([&](pbf_writer& w) {
    for (const OutPort& p : graph.inputs) w.add_message(11, port(p, names));
    for (const OutPort& p : graph.outputs) w.add_message(12, port(p, names));
  });
}

std::string graph_proto(const OutGraph& graph, const NameTable& names) {
  return graph_nodes(graph, names) + graph_ports(graph, names);
}

void varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
}

std::string tag_and_length(uint32_t tag, size_t length) {
  std::string out;
  varint(out, tag << 3 | 2);
  varint(out, length);
  return out;
}

std::string model_head(const OutModel& model) {
  return message([&](pbf_writer& w) {
    w.add_int64(1, kIrVersion);
    if (!model.producer.empty()) w.add_string(2, model.producer);
  });
}

std::string model_tail(const OutModel& model) {
  return message([&](pbf_writer& w) {
    const auto import = [&](const std::string& domain, int64_t version) {
      w.add_message(8, message([&](pbf_writer& o) {
                      o.add_string(1, domain);
                      o.add_int64(2, version);
                    }));
    };
    import("", model.opset);
    for (const std::string& d : model.domains) import(d, domain_version(d));
    for (const auto& [key, value] : model.metadata) w.add_message(14, string_entry(key, value));
  });
}

/// An encoded initializer: its bytes in `head`, then those of `tensor` unless they are outside or in `head` already.
struct Encoded {
  std::string head;
  const Tensor* tensor = nullptr;
  size_t size() const { return head.size() + (tensor ? tensor->bytes() : 0); }
};

std::span<const std::byte> bytes_of(const Tensor& t) { return {t.data<std::byte>(), t.bytes()}; }

std::string external_tensor(const OutInitializer& init, const std::string& name, const std::string& location,
                            formats::FileBytes& data) {
  const size_t padding = (kExternalAlignment - data.size() % kExternalAlignment) % kExternalAlignment;
  data.append(std::string(padding, '\0'));
  std::string head = tensor_header(init.tensor, name);
  pbf_writer w(head);
  w.add_message(13, string_entry("location", location));
  w.add_message(13, string_entry("offset", std::to_string(data.size())));
  w.add_message(13, string_entry("length", std::to_string(init.tensor.bytes())));
  w.add_enum(14, 1);
  data.append(bytes_of(init.tensor), init.tensor.owner());
  return head;
}

Encoded inline_tensor(const OutInitializer& init, const std::string& name) {
  Encoded e{tensor_header(init.tensor, name)};
  if (init.tensor.dtype() == DType::kString) return e;
  e.head += tag_and_length(9, init.tensor.bytes());
  e.tensor = &init.tensor;
  return e;
}

}  // namespace

int64_t type_code(DType dtype) {
  constexpr int64_t kCodes = 32;
  for (int64_t code = 1; code < kCodes; ++code)
    if (dtype_of(code) == dtype) return dtype == DType::kInvalid ? 0 : code;
  return 0;
}

int64_t domain_version(const std::string& domain) { return domain == "ai.onnx.ml" ? 3 : 1; }

std::vector<formats::WrittenFile> encode(const OutModel& model, const formats::WriteOptions& options) {
  const OutGraph& graph = model.graph;
  size_t constants = 0;
  for (const OutInitializer& init : graph.initializers) constants += init.tensor.bytes();
  const bool external = constants > options.external_above;
  const std::string suffix = ".onnx.data";
  formats::FileBytes data;
  std::vector<Encoded> initializers;
  for (const OutInitializer& init : graph.initializers) {
    const std::string& name = model.names[static_cast<size_t>(init.name)];
    const bool outside = external && init.tensor.dtype() != DType::kString && init.tensor.bytes() >= kExternalFrom;
    initializers.push_back(outside ? Encoded{external_tensor(init, name, options.stem + suffix, data)}
                                   : inline_tensor(init, name));
  }
  const std::string nodes = graph_nodes(graph, model.names), ports = graph_ports(graph, model.names);
  size_t size = nodes.size() + ports.size();
  for (const Encoded& e : initializers) size += tag_and_length(5, e.size()).size() + e.size();
  formats::WrittenFile file;
  file.bytes.append(model_head(model) + tag_and_length(7, size) + nodes);
  for (const Encoded& e : initializers) {
    file.bytes.append(tag_and_length(5, e.size()) + e.head);
    if (e.tensor) file.bytes.append(bytes_of(*e.tensor), e.tensor->owner());
  }
  file.bytes.append(ports + model_tail(model));
  std::vector<formats::WrittenFile> files{std::move(file)};
  if (external) files.push_back({suffix, std::move(data)});
  return files;
}

}  // namespace smelt::onnx
