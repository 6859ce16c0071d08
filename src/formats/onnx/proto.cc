#include "formats/onnx/proto.h"

#include <utility>

#include "base/error.h"
#include "formats/onnx/wire.h"

namespace smelt::onnx {
namespace {

constexpr int kMaxDepth = 100;

class Parser {
 public:
  explicit Parser(size_t max_nodes) : max_nodes_(max_nodes) {}

  /// Where the parser stands: "graph.node[3].attribute[0]".
  std::string where() const {
    std::string out;
    for (const Step& s : path_) {
      if (!out.empty()) out += '.';
      out += s.field;
      if (s.index >= 0) out += Cat("[", s.index, "]");
    }
    return out;
  }

  void model(std::string_view bytes, ModelProto& m) {
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          m.ir_version = f.varint();
          break;
        case 2:
          m.producer_name = f.bytes();
          break;
        case 3:
          m.producer_version = f.bytes();
          break;
        case 4:
          m.domain = f.bytes();
          break;
        case 5:
          m.model_version = f.varint();
          break;
        case 6:
          m.doc = f.bytes();
          break;
        case 7:
          m.has_graph = true;
          inside("graph", -1, [&] { graph(f.bytes(), m.graph); });
          break;
        case 8:
          add(f, "opset_import", m.opsets, &Parser::opset);
          break;
        case 14:
          m.metadata.push_back(entry(f.bytes()));
          break;
        case 25:
          add(f, "functions", m.functions, &Parser::function);
          break;
        default:
          f.skip();
      }
    });
  }

  /// TensorProto, or the tensors of a SequenceProto or OptionalProto (field 3 of both; an optional holds a sequence in
  /// 5).
  void value(std::string_view bytes, TestKind kind, std::vector<TensorProto>& out) {
    if (kind == TestKind::kTensor) return tensor(bytes, out.emplace_back());
    each(bytes, [&](Field& f) {
      if (f.tag() == 3)
        tensor(f.bytes(), out.emplace_back());
      else if (f.tag() == 5 && kind == TestKind::kOptional)
        value(f.bytes(), TestKind::kSequence, out);
      else
        f.skip();
    });
  }

 private:
  struct Step {
    const char* field;
    int64_t index;
  };

  template <class F>
  void each(std::string_view bytes, F&& body) {
    protozero::pbf_reader r(bytes.data(), bytes.size());
    while (r.next()) {
      Field f(r);
      body(f);
    }
  }

  /// Runs body one level deeper; the path is left as it is when it throws.
  template <class F>
  void inside(const char* field, int64_t index, F&& body) {
    path_.push_back({field, index});
    if (path_.size() > kMaxDepth) throw Fault("messages are nested more than 100 deep");
    body();
    path_.pop_back();
  }

  template <class T>
  void add(Field& f, const char* name, std::vector<T>& list, void (Parser::*parse)(std::string_view, T&)) {
    list.emplace_back();
    inside(name, static_cast<int64_t>(list.size()) - 1, [&] { (this->*parse)(f.bytes(), list.back()); });
  }
  /// A single submessage: pieces merge into one.
  template <class T>
  void merge(Field& f, const char* name, std::unique_ptr<T>& into, void (Parser::*parse)(std::string_view, T&)) {
    if (!into) into = std::make_unique<T>();
    inside(name, -1, [&] { (this->*parse)(f.bytes(), *into); });
  }

  std::pair<std::string_view, std::string_view> entry(std::string_view bytes) {
    std::pair<std::string_view, std::string_view> e;
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          e.first = f.bytes();
          break;
        case 2:
          e.second = f.bytes();
          break;
        default:
          f.skip();
      }
    });
    return e;
  }

  void opset(std::string_view bytes, OpsetId& o) {
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          o.domain = f.bytes();
          break;
        case 2:
          o.version = f.varint();
          break;
        default:
          f.skip();
      }
    });
  }

  void graph(std::string_view bytes, GraphProto& g) {
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          add(f, "node", g.nodes, &Parser::node);
          break;
        case 2:
          g.name = f.bytes();
          break;
        case 5:
          add(f, "initializer", g.initializers, &Parser::tensor);
          break;
        case 10:
          g.doc = f.bytes();
          break;
        case 11:
          add(f, "input", g.inputs, &Parser::value_info);
          break;
        case 12:
          add(f, "output", g.outputs, &Parser::value_info);
          break;
        case 13:
          add(f, "value_info", g.value_info, &Parser::value_info);
          break;
        case 15:
          add(f, "sparse_initializer", g.sparse_initializers, &Parser::sparse_tensor);
          break;
        default:
          f.skip();
      }
    });
  }

  void node(std::string_view bytes, NodeProto& n) {
    if (++nodes_ > max_nodes_) throw Fault("the model has too many nodes");
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          n.inputs.push_back(f.bytes());
          break;
        case 2:
          n.outputs.push_back(f.bytes());
          break;
        case 3:
          n.name = f.bytes();
          break;
        case 4:
          n.op_type = f.bytes();
          break;
        case 5:
          add(f, "attribute", n.attributes, &Parser::attribute);
          break;
        case 7:
          n.domain = f.bytes();
          break;
        case 8:
          n.overload = f.bytes();
          break;
        default:
          f.skip();
      }
    });
  }

  void attribute(std::string_view bytes, AttributeProto& a) {
    int64_t seen = AttributeProto::kUndefined;
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          a.name = f.bytes();
          break;
        case 2:
          a.f = f.fixed_float(), seen = AttributeProto::kFloat;
          break;
        case 3:
          a.i = f.varint(), seen = AttributeProto::kInt;
          break;
        case 4:
          a.s = f.bytes(), seen = AttributeProto::kString;
          break;
        case 5:
          merge(f, "t", a.tensor, &Parser::tensor), seen = AttributeProto::kTensor;
          break;
        case 6:
          merge(f, "g", a.graph, &Parser::graph), seen = AttributeProto::kGraph;
          break;
        case 7:
          f.floats(a.floats), seen = AttributeProto::kFloats;
          break;
        case 8:
          f.varints(a.ints), seen = AttributeProto::kInts;
          break;
        case 9:
          a.strings.push_back(f.bytes()), seen = AttributeProto::kStrings;
          break;
        case 10:
          add(f, "tensors", a.tensors, &Parser::tensor), seen = AttributeProto::kTensors;
          break;
        case 14:
          merge(f, "tp", a.type_proto, &Parser::type), seen = AttributeProto::kTypeProto;
          break;
        case 20:
          a.type = f.varint();
          break;
        case 21:
          a.ref = f.bytes();
          break;
        case 22:
          merge(f, "sparse_tensor", a.sparse, &Parser::sparse_tensor), seen = AttributeProto::kSparseTensor;
          break;
        default:
          f.skip();
      }
    });
    if (a.type == AttributeProto::kUndefined) a.type = seen;
  }

  void tensor(std::string_view bytes, TensorProto& t) {
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          f.varints(t.dims);
          break;
        case 2:
          t.data_type = f.varint();
          break;
        case 4:
          f.run(pbf_wire_type::fixed32, t.floats);
          break;
        case 5:
          f.run(pbf_wire_type::varint, t.int32s);
          break;
        case 6:
          t.strings.push_back(f.bytes());
          break;
        case 7:
          f.run(pbf_wire_type::varint, t.int64s);
          break;
        case 8:
          t.name = f.bytes();
          break;
        case 9:
          t.raw = f.bytes(), t.has_raw = true;
          break;
        case 10:
          f.run(pbf_wire_type::fixed64, t.doubles);
          break;
        case 11:
          f.run(pbf_wire_type::varint, t.uint64s);
          break;
        case 13:
          t.external.push_back(entry(f.bytes()));
          break;
        case 14:
          t.is_external = f.varint() == 1;
          break;
        default:
          f.skip();
      }
    });
  }

  void tensor_merge(std::string_view bytes, TensorProto& t, const char* name) {
    inside(name, -1, [&] { tensor(bytes, t); });
  }

  void sparse_tensor(std::string_view bytes, SparseTensorProto& t) {
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          tensor_merge(f.bytes(), t.values, "values");
          break;
        case 2:
          tensor_merge(f.bytes(), t.indices, "indices");
          break;
        case 3:
          f.varints(t.dims);
          break;
        default:
          f.skip();
      }
    });
  }

  void value_info(std::string_view bytes, ValueInfo& v) {
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          v.name = f.bytes();
          break;
        case 2:
          inside("type", -1, [&] { type(f.bytes(), v.type); });
          break;
        case 3:
          v.doc = f.bytes();
          break;
        default:
          f.skip();
      }
    });
  }

  void dimension(std::string_view bytes, Dimension& d) {
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          d.value = f.varint(), d.param = {};
          break;
        case 2:
          d.param = f.bytes(), d.value = -1;
          break;
        default:
          f.skip();
      }
    });
  }

  void shape(std::string_view bytes, TypeProto& t) {
    t.has_shape = true;
    each(bytes, [&](Field& f) {
      if (f.tag() == 1)
        add(f, "dim", t.dims, &Parser::dimension);
      else
        f.skip();
    });
  }

  /// The body of a tensor, sequence, map or optional type.
  void type_body(std::string_view bytes, TypeProto& t, TypeProto::Kind kind) {
    if (t.kind != kind) {
      t = TypeProto{};
      t.kind = kind;
    }
    const bool tensor = kind == TypeProto::Kind::kTensor || kind == TypeProto::Kind::kSparseTensor;
    each(bytes, [&](Field& f) {
      const uint32_t tag = f.tag();
      if (tensor && tag == 1)
        t.elem_type = f.varint();
      else if (tensor && tag == 2)
        inside("shape", -1, [&] { shape(f.bytes(), t); });
      else if (kind == TypeProto::Kind::kMap && tag == 1)
        t.elem_type = f.varint();
      else if (!tensor && tag == (kind == TypeProto::Kind::kMap ? 2u : 1u))
        merge(f, "elem_type", t.element, &Parser::type);
      else
        f.skip();
    });
  }

  void type(std::string_view bytes, TypeProto& t) {
    each(bytes, [&](Field& f) {
      const auto body = [&](const char* name, TypeProto::Kind kind) {
        inside(name, -1, [&] { type_body(f.bytes(), t, kind); });
      };
      switch (f.tag()) {
        case 1:
          body("tensor_type", TypeProto::Kind::kTensor);
          break;
        case 4:
          body("sequence_type", TypeProto::Kind::kSequence);
          break;
        case 5:
          body("map_type", TypeProto::Kind::kMap);
          break;
        case 8:
          body("sparse_tensor_type", TypeProto::Kind::kSparseTensor);
          break;
        case 9:
          body("optional_type", TypeProto::Kind::kOptional);
          break;
        case 7:
          t.kind = TypeProto::Kind::kOpaque;
          f.skip();
          break;
        default:
          f.skip();
      }
    });
  }

  void function(std::string_view bytes, FunctionProto& fn) {
    each(bytes, [&](Field& f) {
      switch (f.tag()) {
        case 1:
          fn.name = f.bytes();
          break;
        case 4:
          fn.inputs.push_back(f.bytes());
          break;
        case 5:
          fn.outputs.push_back(f.bytes());
          break;
        case 6:
          fn.attributes.push_back(f.bytes());
          break;
        case 7:
          add(f, "node", fn.nodes, &Parser::node);
          break;
        case 9:
          add(f, "opset_import", fn.opsets, &Parser::opset);
          break;
        case 10:
          fn.domain = f.bytes();
          break;
        case 11:
          add(f, "attribute_proto", fn.default_attributes, &Parser::attribute);
          break;
        case 12:
          add(f, "value_info", fn.value_info, &Parser::value_info);
          break;
        case 13:
          fn.overload = f.bytes();
          break;
        default:
          f.skip();
      }
    });
  }

  std::vector<Step> path_;
  size_t nodes_ = 0, max_nodes_;
};

}  // namespace

namespace {

/// Runs the parser; what it throws becomes a located error.
template <class F>
Status guarded(Parser& parser, const char* whole, F&& parse) {
  const auto fail = [&](const char* what) {
    std::string where = parser.where();
    return InvalidModel(where.empty() ? whole : where, ": ", what);
  };
  try {
    parse();
  } catch (const protozero::end_of_buffer_exception&) {
    return fail("the file ends inside a field, or a length is larger than its message");
  } catch (const protozero::varint_too_long_exception&) {
    return fail("a varint is longer than 10 bytes");
  } catch (const protozero::exception& e) {
    return fail(e.what());
  } catch (const Fault& e) {
    return fail(e.what());
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<ModelProto>> parse_model(std::string_view bytes, size_t max_nodes) {
  auto m = std::make_unique<ModelProto>();
  Parser parser(max_nodes);
  SMELT_TRY(guarded(parser, "model", [&] { parser.model(bytes, *m); }));
  return m;
}

Result<std::vector<TensorProto>> parse_test_value(std::string_view bytes, TestKind kind) {
  std::vector<TensorProto> out;
  Parser parser(1);
  SMELT_TRY(guarded(parser, "value", [&] { parser.value(bytes, kind, out); }));
  return out;
}

}  // namespace smelt::onnx
