// ONNX Runtime's model files: the flatbuffer becomes the messages of an ONNX file, which the ONNX lowering reads.
#include "formats/format.h"

#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/reader.h"
#include "ort_generated.h"

namespace smelt {
namespace ort {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TypeProto;

std::string_view text(const flatbuffers::String* s) { return s ? s->string_view() : std::string_view{}; }

/// Number of elements of a vector that may be absent.
template <class V>
size_t count(const V* v) {
  return v ? v->size() : 0;
}

/// Copies the tables of a verified file into ONNX messages, whose text and bytes are views of the file. Vectors may
/// share storage in a hostile file, so the number of copied elements is limited by the file's size.
class Converter {
 public:
  Converter(size_t file_bytes, size_t max_nodes) : elements_left_(1'000'000 + file_bytes / 4), nodes_left_(max_nodes) {}

  Result<onnx::ModelProto> model(const Model& m) {
    onnx::ModelProto out;
    out.ordered = false;  // ONNX Runtime appends the nodes that its optimisations make
    out.ir_version = m.ir_version();
    out.model_version = m.model_version();
    out.producer_name = text(m.producer_name());
    out.producer_version = text(m.producer_version());
    out.domain = text(m.domain());
    out.doc = text(m.doc_string());
    SMELT_TRY(take(count(m.opset_import()) + count(m.metadata_props())));
    if (m.opset_import())
      for (const OperatorSetId* o : *m.opset_import()) out.opsets.push_back({text(o->domain()), o->version()});
    if (m.metadata_props())
      for (const StringStringEntry* e : *m.metadata_props())
        out.metadata.emplace_back(text(e->key()), text(e->value()));
    if (!m.graph()) return out;
    out.has_graph = true;
    SMELT_TRY(graph(*m.graph(), out.graph));
    out.graph.doc = text(m.graph_doc_string());
    return out;
  }

 private:
  /// Counts copied elements.
  Status take(size_t n) {
    if (n > elements_left_) return LimitReached("the lists of the file repeat too much of it");
    elements_left_ -= n;
    return Ok();
  }

  template <class T>
  Status copy(const flatbuffers::Vector<T>* in, std::vector<T>& out) {
    SMELT_TRY(take(count(in)));
    if (in) out.assign(in->begin(), in->end());
    return Ok();
  }
  Status copy(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* in,
              std::vector<std::string_view>& out) {
    SMELT_TRY(take(count(in)));
    for (size_t i = 0; i < count(in); ++i) out.push_back(text(in->Get(static_cast<flatbuffers::uoffset_t>(i))));
    return Ok();
  }

  /// Fills one message of `out` for each table of `in`; an error says which.
  template <class T, class Message>
  Status each(const flatbuffers::Vector<flatbuffers::Offset<T>>* in, std::vector<Message>& out, const char* what,
              Status (Converter::*convert)(const T&, Message&)) {
    SMELT_TRY(take(count(in)));
    out.reserve(count(in));
    for (size_t i = 0; i < count(in); ++i) {
      const T& table = *in->Get(static_cast<flatbuffers::uoffset_t>(i));
      if (auto s = (this->*convert)(table, out.emplace_back()); !s.ok()) {
        if constexpr (requires { table.name(); })
          return s.error().within(Cat(what, " ", i, " '", text(table.name()), "'"));
        return s.error().within(Cat(what, " ", i));
      }
    }
    return Ok();
  }

  Status tensor(const Tensor& t, TensorProto& out) {
    if (t.external_data_offset() >= 0) return Unsupported("its data lies in another file, as in training checkpoints");
    out.name = text(t.name());
    out.data_type = t.data_type();
    SMELT_TRY(copy(t.dims(), out.dims));
    SMELT_TRY(copy(t.string_data(), out.strings));
    out.has_raw = t.raw_data() != nullptr;
    if (out.has_raw) out.raw = {reinterpret_cast<const char*>(t.raw_data()->data()), t.raw_data()->size()};
    return Ok();
  }

  Status sparse_tensor(const SparseTensor& t, onnx::SparseTensorProto& out) {
    if (!t.values() || !t.indices()) return InvalidModel("a sparse tensor lacks its values or indices");
    SMELT_TRY(tensor(*t.values(), out.values));
    SMELT_TRY(tensor(*t.indices(), out.indices));
    return copy(t.dims(), out.dims);
  }

  Status type(const TypeInfo& t, TypeProto& out) {
    switch (t.value_type()) {
      case TypeInfoValue::NONE:
        return Ok();
      case TypeInfoValue::tensor_type:
        if (!t.value_as_tensor_type()) break;
        return tensor_type(*t.value_as_tensor_type(), out);
      case TypeInfoValue::sequence_type:
        if (!t.value_as_sequence_type()) break;
        out.kind = TypeProto::Kind::kSequence;
        return element(t.value_as_sequence_type()->elem_type(), out);
      case TypeInfoValue::map_type:
        if (!t.value_as_map_type()) break;
        out.kind = TypeProto::Kind::kMap;
        out.elem_type = t.value_as_map_type()->key_type();
        return element(t.value_as_map_type()->value_type(), out);
    }
    return InvalidModel("type of kind ", static_cast<int>(t.value_type()), " or without contents");
  }

  Status element(const TypeInfo* t, TypeProto& out) {
    if (!t) return InvalidModel("the element type of a sequence or map is missing");
    out.element = std::make_unique<TypeProto>();
    return type(*t, *out.element);
  }

  Status tensor_type(const TensorTypeAndShape& t, TypeProto& out) {
    out.kind = TypeProto::Kind::kTensor;
    out.elem_type = t.elem_type();
    out.has_shape = t.shape() != nullptr;
    return out.has_shape ? each(t.shape()->dim(), out.dims, "dimension", &Converter::dimension) : Ok();
  }

  Status dimension(const Dimension& d, onnx::Dimension& out) {
    const DimensionValue* v = d.value();
    if (v && v->dim_type() == DimensionValueType::VALUE) out.value = v->dim_value();
    if (v && v->dim_type() == DimensionValueType::PARAM) out.param = text(v->dim_param());
    return Ok();
  }

  Status attribute(const Attribute& a, AttributeProto& out) {
    out.name = text(a.name());
    out.type = static_cast<int64_t>(a.type());
    out.f = a.f();
    out.i = a.i();
    out.s = text(a.s());
    SMELT_TRY(copy(a.floats(), out.floats));
    SMELT_TRY(copy(a.ints(), out.ints));
    SMELT_TRY(copy(a.strings(), out.strings));
    SMELT_TRY(each(a.tensors(), out.tensors, "tensor", &Converter::tensor));
    if (a.t()) SMELT_TRY(tensor(*a.t(), *(out.tensor = std::make_unique<TensorProto>())));
    if (a.g()) SMELT_TRY(graph(*a.g(), *(out.graph = std::make_unique<GraphProto>())));
    return Ok();
  }

  Status node(const Node& n, NodeProto& out) {
    if (nodes_left_ == 0) return LimitReached("the model has too many nodes");
    --nodes_left_;
    out.name = text(n.name());
    out.op_type = text(n.op_type());
    out.domain = text(n.domain());
    if (n.type() != NodeType::Primitive)
      return Unsupported("operator ", out.op_type, " was compiled by execution provider '",
                         text(n.execution_provider_type()), "' and runs only there");
    SMELT_TRY(copy(n.inputs(), out.inputs));
    SMELT_TRY(copy(n.outputs(), out.outputs));
    return each(n.attributes(), out.attributes, "attribute", &Converter::attribute);
  }

  Status value_info(const ValueInfo& v, onnx::ValueInfo& out) {
    out.name = text(v.name());
    out.doc = text(v.doc_string());
    return v.type() ? type(*v.type(), out.type) : Ok();
  }

  /// The graph lists types once for all names; ONNX states those of inputs and outputs with them.
  Status graph(const Graph& g, GraphProto& out) {
    SMELT_TRY(each(g.initializers(), out.initializers, "initializer", &Converter::tensor));
    SMELT_TRY(each(g.sparse_initializers(), out.sparse_initializers, "sparse initializer", &Converter::sparse_tensor));
    SMELT_TRY(each(g.nodes(), out.nodes, "node", &Converter::node));
    SMELT_TRY(each(g.node_args(), out.value_info, "node_arg", &Converter::value_info));
    std::unordered_map<std::string_view, const ValueInfo*> types;
    for (size_t i = 0; i < count(g.node_args()); ++i) {
      const ValueInfo* v = g.node_args()->Get(static_cast<flatbuffers::uoffset_t>(i));
      types.emplace(text(v->name()), v);
    }
    const auto ports = [&](const auto* names, std::vector<onnx::ValueInfo>& list) -> Status {
      SMELT_TRY(take(count(names)));
      for (size_t i = 0; i < count(names); ++i) {
        onnx::ValueInfo& port = list.emplace_back();
        port.name = text(names->Get(static_cast<flatbuffers::uoffset_t>(i)));
        if (const auto it = types.find(port.name); it != types.end()) SMELT_TRY(value_info(*it->second, port));
      }
      return Ok();
    };
    SMELT_TRY(ports(g.inputs(), out.inputs));
    return ports(g.outputs(), out.outputs);
  }

  size_t elements_left_, nodes_left_;
};

bool recognise(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, "ORTM", 4) == 0;
}

Result<Module> load(const Source& given) {
  constexpr int kMaxDepth = 256;
  const Source source = aligned(given);
  const auto bytes = source.bytes;
  if (bytes.size() < 12 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return InvalidModel("a flatbuffer of ", bytes.size(), " bytes");
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), kMaxDepth,
                                 static_cast<flatbuffers::uoffset_t>(1'000'000 + bytes.size() / 8));
  if (!VerifyInferenceSessionBuffer(verifier))
    return InvalidModel("the flatbuffer is damaged (an offset leads out of it or to an odd place)");
  const InferenceSession* session = GetInferenceSession(bytes.data());
  if (!session->model()) return InvalidModel("the file has no model");
  Converter converter(bytes.size(), source.options ? source.options->max_nodes : LoadOptions{}.max_nodes);
  SMELT_ASSIGN(const onnx::ModelProto proto, converter.model(*session->model()));
  SMELT_ASSIGN(Module module, onnx::lower_model(source, proto));
  module.format = "ort";
  module.metadata.emplace(module.metadata.begin(), "ort_version", std::string(text(session->ort_version())));
  return module;
}

}  // namespace
}  // namespace ort

extern const Format ort_format;
const Format ort_format{"ort", ort::recognise, ort::load};

}  // namespace smelt
