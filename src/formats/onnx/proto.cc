#include "formats/onnx/proto.h"

#include <concepts>
#include <utility>

#include "base/error.h"
#include "formats/onnx/wire.h"

namespace smelt::onnx {
namespace {

constexpr int kMaxDepth = 100;

/// Handles field `tag`: calls `target` with it, or reads it into `target` by the target's type.
template <class T>
auto on(uint32_t tag, T&& target) {
  return [tag, &target](Field& f) {
    if (f.tag() != tag) return false;
    if constexpr (std::invocable<T, Field&>)
      target(f);
    else
      f.read(target);
    return true;
  };
}

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
    each(bytes, on(1, m.ir_version), on(2, m.producer_name), on(3, m.producer_version), on(4, m.domain),
         on(5, m.model_version), on(6, m.doc),
         on(7,
            [&](Field& f) {
              m.has_graph = true;
              inside("graph", -1, [&] { graph(f.bytes(), m.graph); });
            }),
         on(8, [&](Field& f) { add(f, "opset_import", m.opsets, &Parser::opset); }),
         on(14, [&](Field& f) { m.metadata.push_back(entry(f.bytes())); }),
         on(25, [&](Field& f) { add(f, "functions", m.functions, &Parser::function); }));
  }

  /// TensorProto, or the tensors of a SequenceProto or OptionalProto (field 3 of both; an optional holds a sequence in
  /// 5).
  void value(std::string_view bytes, TestKind kind, std::vector<TensorProto>& out) {
    if (kind == TestKind::kTensor) return tensor(bytes, out.emplace_back());
    each(bytes, on(3, [&](Field& f) { tensor(f.bytes(), out.emplace_back()); }),
         on(5, [&](Field& f) { kind == TestKind::kOptional ? value(f.bytes(), TestKind::kSequence, out) : f.skip(); }));
  }

 private:
  struct Step {
    const char* field;
    int64_t index;
  };

  /// Calls the first of the handlers that takes a field, for every field of the message; unknown fields are skipped.
  template <class... Handlers>
  void each(std::string_view bytes, const Handlers&... handlers) {
    protozero::pbf_reader r(bytes.data(), bytes.size());
    while (r.next()) {
      Field f(r);
      if (!(handlers(f) || ...)) f.skip();
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
  /// A single submessage: repeated occurrences merge into one.
  template <class T>
  void merge(Field& f, const char* name, std::unique_ptr<T>& into, void (Parser::*parse)(std::string_view, T&)) {
    if (!into) into = std::make_unique<T>();
    inside(name, -1, [&] { (this->*parse)(f.bytes(), *into); });
  }

  std::pair<std::string_view, std::string_view> entry(std::string_view bytes) {
    std::pair<std::string_view, std::string_view> e;
    each(bytes, on(1, e.first), on(2, e.second));
    return e;
  }

  void opset(std::string_view bytes, OpsetId& o) { each(bytes, on(1, o.domain), on(2, o.version)); }

  void graph(std::string_view bytes, GraphProto& g) {
    each(bytes, on(1, [&](Field& f) { add(f, "node", g.nodes, &Parser::node); }), on(2, g.name),
         on(5, [&](Field& f) { add(f, "initializer", g.initializers, &Parser::tensor); }), on(10, g.doc),
         on(11, [&](Field& f) { add(f, "input", g.inputs, &Parser::value_info); }),
         on(12, [&](Field& f) { add(f, "output", g.outputs, &Parser::value_info); }),
         on(13, [&](Field& f) { add(f, "value_info", g.value_info, &Parser::value_info); }),
         on(15, [&](Field& f) { add(f, "sparse_initializer", g.sparse_initializers, &Parser::sparse_tensor); }));
  }

  void node(std::string_view bytes, NodeProto& n) {
    n.message = bytes;
    if (++nodes_ > max_nodes_) throw Fault("the model has too many nodes");
    each(bytes, on(1, n.inputs), on(2, n.outputs), on(3, n.name), on(4, n.op_type),
         on(5, [&](Field& f) { add(f, "attribute", n.attributes, &Parser::attribute); }), on(7, n.domain),
         on(8, n.overload));
  }

  void attribute(std::string_view bytes, AttributeProto& a) {
    using A = AttributeProto;
    int64_t seen = A::kUndefined;
    // Field `tag` holds a value of type `type`.
    const auto value = [&](uint32_t tag, A::Type type, auto&& read) {
      return [tag, type, read, &seen, &a](Field& f) {
        if (f.tag() != tag) return false;
        read(f);
        seen = type;
        a.fields |= uint32_t{1} << type;
        return true;
      };
    };
    each(bytes, on(1, a.name), value(2, A::kFloat, [&](Field& f) { a.f = f.fixed_float(); }),
         value(3, A::kInt, [&](Field& f) { a.i = f.varint(); }),
         value(4, A::kString, [&](Field& f) { a.s = f.bytes(); }),
         value(5, A::kTensor, [&](Field& f) { merge(f, "t", a.tensor, &Parser::tensor); }),
         value(6, A::kGraph, [&](Field& f) { merge(f, "g", a.graph, &Parser::graph); }),
         value(7, A::kFloats, [&](Field& f) { f.floats(a.floats); }),
         value(8, A::kInts, [&](Field& f) { f.varints(a.ints); }),
         value(9, A::kStrings, [&](Field& f) { a.strings.push_back(f.bytes()); }),
         value(10, A::kTensors, [&](Field& f) { add(f, "tensors", a.tensors, &Parser::tensor); }),
         value(11, A::kGraphs, [](Field& f) { f.skip(); }),
         value(14, A::kTypeProto, [&](Field& f) { merge(f, "tp", a.type_proto, &Parser::type); }), on(20, a.type),
         on(21, a.ref),
         value(22, A::kSparseTensor, [&](Field& f) { merge(f, "sparse_tensor", a.sparse, &Parser::sparse_tensor); }));
    a.untyped = a.type == A::kUndefined;
    if (a.untyped) a.type = seen;
  }

  void tensor(std::string_view bytes, TensorProto& t) {
    each(bytes, on(1, t.dims), on(2, t.data_type), on(3, [&](Field& f) { f.skip(), t.is_segment = true; }),
         on(4, [&](Field& f) { f.run(pbf_wire_type::fixed32, t.floats); }),
         on(5, [&](Field& f) { f.run(pbf_wire_type::varint, t.int32s); }), on(6, t.strings),
         on(7, [&](Field& f) { f.run(pbf_wire_type::varint, t.int64s); }), on(8, t.name),
         on(9, [&](Field& f) { t.raw = f.bytes(), t.has_raw = true; }),
         on(10, [&](Field& f) { f.run(pbf_wire_type::fixed64, t.doubles); }),
         on(11, [&](Field& f) { f.run(pbf_wire_type::varint, t.uint64s); }),
         on(13, [&](Field& f) { t.external.push_back(entry(f.bytes())); }), on(14, [&](Field& f) {
           const int64_t location = f.varint();
           if (location < 0 || location > 1) throw Fault("data_location is neither DEFAULT nor EXTERNAL");
           t.is_external = location == 1;
         }));
  }

  void tensor_merge(std::string_view bytes, TensorProto& t, const char* name) {
    inside(name, -1, [&] { tensor(bytes, t); });
  }

  void sparse_tensor(std::string_view bytes, SparseTensorProto& t) {
    each(bytes, on(1, [&](Field& f) { tensor_merge(f.bytes(), t.values, "values"); }),
         on(2, [&](Field& f) { tensor_merge(f.bytes(), t.indices, "indices"); }), on(3, t.dims));
  }

  void value_info(std::string_view bytes, ValueInfo& v) {
    each(bytes, on(1, v.name), on(2, [&](Field& f) { inside("type", -1, [&] { type(f.bytes(), v.type); }); }),
         on(3, v.doc));
  }

  void dimension(std::string_view bytes, Dimension& d) {
    each(bytes, on(1, [&](Field& f) { d.value = f.varint(), d.param = {}; }),
         on(2, [&](Field& f) { d.param = f.bytes(), d.value = -1; }));
  }

  void shape(std::string_view bytes, TypeProto& t) {
    t.has_shape = true;
    each(bytes, on(1, [&](Field& f) { add(f, "dim", t.dims, &Parser::dimension); }));
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
        return false;
      return true;
    });
  }

  void type(std::string_view bytes, TypeProto& t) {
    const auto body = [&](uint32_t tag, const char* name, TypeProto::Kind kind) {
      return [=, this, &t](Field& f) {
        if (f.tag() != tag) return false;
        inside(name, -1, [&] { type_body(f.bytes(), t, kind); });
        return true;
      };
    };
    each(bytes, body(1, "tensor_type", TypeProto::Kind::kTensor), body(4, "sequence_type", TypeProto::Kind::kSequence),
         body(5, "map_type", TypeProto::Kind::kMap), body(8, "sparse_tensor_type", TypeProto::Kind::kSparseTensor),
         body(9, "optional_type", TypeProto::Kind::kOptional), on(7, [&](Field& f) {
           t.kind = TypeProto::Kind::kOpaque;
           f.skip();
         }));
  }

  void function(std::string_view bytes, FunctionProto& fn) {
    each(bytes, on(1, fn.name), on(4, fn.inputs), on(5, fn.outputs), on(6, fn.attributes),
         on(7, [&](Field& f) { add(f, "node", fn.nodes, &Parser::node); }),
         on(9, [&](Field& f) { add(f, "opset_import", fn.opsets, &Parser::opset); }), on(10, fn.domain),
         on(11, [&](Field& f) { add(f, "attribute_proto", fn.default_attributes, &Parser::attribute); }),
         on(12, [&](Field& f) { add(f, "value_info", fn.value_info, &Parser::value_info); }), on(13, fn.overload));
  }

  std::vector<Step> path_;
  size_t nodes_ = 0, max_nodes_;
};

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
    return fail("the file ends too early, or a length in it is too large");
  } catch (const protozero::varint_too_long_exception&) {
    return fail("a number takes more than 10 bytes");
  } catch (const protozero::exception&) {
    return fail("the bytes are not those of an ONNX file");
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
