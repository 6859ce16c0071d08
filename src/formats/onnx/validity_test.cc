// Files that break a rule of ONNX's specification.
#include <gtest/gtest.h>

#include "base/cat.h"
#include "smelt/model.h"
#include "support/onnx_proto_writer.h"
#include "support/tolerance_check.h"

namespace smelt::onnx {
namespace {

class OnnxValidity : public testing::Test {
 protected:
  /// A graph of these nodes from x to z, both float32 [2].
  static ProtoWriter graph(std::initializer_list<ProtoWriter> nodes) {
    ProtoWriter g;
    for (const ProtoWriter& n : nodes) g.message(1, n);
    return g.message(11, make_value("x", 1, {2})).message(12, make_value("z", 1, {2}));
  }
  static ProtoWriter neg() { return make_node("Neg", {"x"}, {"z"}); }
  /// Neg, and an initializer that nothing reads.
  static ProtoWriter with_tensor(const ProtoWriter& tensor) { return make_model(graph({neg()}).message(5, tensor)); }
  static ProtoWriter body(const ProtoWriter& node, int64_t type) {
    return ProtoWriter().message(1, node).text(2, "body").message(12, make_value("r", type, {2}));
  }
  static ProtoWriter graph_attribute(std::string_view name, const ProtoWriter& g) {
    return ProtoWriter().text(1, name).number(20, 5).message(6, g);
  }
  static ProtoWriter int_attribute(std::string_view name, int64_t v) {
    return ProtoWriter().text(1, name).number(3, static_cast<uint64_t>(v)).number(20, 2);
  }
  static ProtoWriter ints_attribute(std::string_view name, std::initializer_list<int64_t> list) {
    ProtoWriter a;
    a.text(1, name).number(20, 7);
    for (const int64_t v : list) a.number(8, static_cast<uint64_t>(v));
    return a;
  }
  static void refused(const ProtoWriter& model, const std::string& words, const std::string& rule = "") {
    expect_refused(model.bytes(), words, rule);
  }
  static void accepted(const ProtoWriter& model) {
    const auto m = Model::load_bytes(std::as_bytes(std::span(model.bytes())));
    EXPECT_TRUE(m.ok()) << m.error().message();
  }
};

TEST_F(OnnxValidity, Versions) {
  const ProtoWriter good = make_model(graph({neg()}));
  for (const int64_t ir : {1, 2, 3, 13, 14}) accepted(ProtoWriter(good).number(1, static_cast<uint64_t>(ir)));
  for (const int64_t ir : {0, 15, 999, 9999, -1})
    refused(ProtoWriter(good).number(1, static_cast<uint64_t>(ir)), "IR version", "ir-version");
  for (const auto& [domain, version] : {std::pair("ai.onnx.ml", 6), std::pair("ai.onnx.preview.training", 2)})
    refused(ProtoWriter(good).message(8, ProtoWriter().text(1, domain).number(2, static_cast<uint64_t>(version))),
            "the newest known is");
  accepted(ProtoWriter(good).message(8, ProtoWriter().text(1, "ai.onnx.ml").number(2, 5)));
}

TEST_F(OnnxValidity, NodeOrder) {
  const ProtoWriter last = make_node("Mul", {"y", "x"}, {"z"}), first = make_node("Neg", {"x"}, {"y"});
  refused(make_model(graph({last, first})), "node 0 Mul: reads 'y', which a later node makes", "node-order");
  accepted(make_model(graph({first, last})));
  // A cast may stand anywhere, behind the nodes whose results it reads.
  const auto cast = [](std::string_view x) { return make_node("Cast", {x}, {"y"}).message(5, int_attribute("to", 1)); };
  accepted(make_model(graph({last, cast("x")})));
  accepted(make_model(graph({make_node("Neg", {"x"}, {"t"}), last, cast("t")})));
  refused(make_model(graph({last, cast("t"), make_node("Neg", {"x"}, {"t"})})), "Cast: reads 't'", "node-order");
  // The names that a body reads count as well.
  const ProtoWriter captures = body(make_node("Neg", {"y"}, {"r"}), 1);
  ProtoWriter branch = make_node("If", {"c"}, {"z"});
  branch.message(5, graph_attribute("then_branch", captures)).message(5, graph_attribute("else_branch", captures));
  const ProtoWriter truth = make_raw_tensor("c", 9, {}, std::string_view("\1", 1));
  refused(make_model(graph({branch, first}).message(5, truth)), "reads 'y'", "node-order");
  accepted(make_model(graph({first, branch}).message(5, truth)));
  // Those of a function's body too.
  ProtoWriter f;
  f.text(1, "F").text(4, "x").text(5, "z").text(10, "local").message(7, last).message(7, first);
  f.message(9, ProtoWriter().text(1, "").number(2, 17));
  refused(make_model(graph({make_node("F", {"x"}, {"z"}, "local")})).message(25, f), "reads 'y'", "node-order");
}

TEST_F(OnnxValidity, InputsHaveTypes) {
  const auto model = [](const ProtoWriter& input) {
    ProtoWriter g;
    g.message(1, make_node("Identity", {"x"}, {"z"})).message(11, input).message(12, ProtoWriter().text(1, "z"));
    return make_model(g);
  };
  const ProtoWriter tensor = ProtoWriter().message(1, ProtoWriter().number(1, 0));
  refused(model(ProtoWriter().text(1, "x")), "input 0 'x': has no type", "untyped-input");
  refused(model(ProtoWriter().text(1, "x").message(2, tensor)), "input 0 'x': has no element type", "untyped-input");
  refused(model(ProtoWriter().text(1, "x").message(2, ProtoWriter().message(4, ProtoWriter().message(1, tensor)))),
          "has no element type", "untyped-input");
  accepted(model(make_value("x", 1, {2})));
}

TEST_F(OnnxValidity, KeysOfMaps) {
  const auto model = [](uint64_t key) {
    const ProtoWriter element = ProtoWriter().message(1, ProtoWriter().number(1, 1));
    const ProtoWriter map = ProtoWriter().message(5, ProtoWriter().number(1, key).message(2, element));
    return make_model(graph({neg()}).message(11, ProtoWriter().text(1, "m").message(2, map)));
  };
  for (const uint64_t key : {7u, 8u}) accepted(model(key));
  for (const uint64_t key : {0u, 1u, 9u}) refused(model(key), "a map's keys have type code");
}

TEST_F(OnnxValidity, OutputsAreWhatTheyAreDeclared) {
  ProtoWriter g;
  g.message(11, make_value("x", 1, {2})).message(12, make_value("x", 7, {2}));
  refused(make_model(g), "output 0 'x' is declared int64 but is float32");
  for (const int64_t type : {27, 99999, -1}) {
    ProtoWriter unknown;
    unknown.message(11, make_value("x", 1, {2})).message(12, make_value("x", type, {2}));
    refused(make_model(unknown), Cat("output 0 'x': element type code ", type));
  }
}

TEST_F(OnnxValidity, Attributes) {
  const auto model = [](const ProtoWriter& attribute) {
    return make_model(graph({make_node("Softmax", {"x"}, {"z"}).message(5, attribute)}));
  };
  accepted(model(int_attribute("axis", 0)));
  const ProtoWriter untyped = ProtoWriter().text(1, "axis").number(3, 0);
  refused(model(untyped), "node 0 Softmax: attribute 'axis': has no type", "untyped-attribute");
  // IR version 1 had no types, and no opset imports.
  ProtoWriter old;
  accepted(old.number(1, 1).message(7, graph({make_node("Softmax", {"x"}, {"z"}).message(5, untyped)})));
}

TEST_F(OnnxValidity, AttributesHoldWhatTheirTypeSays) {
  const auto model = [](const ProtoWriter& attribute) {
    return make_model(graph({make_node("Softmax", {"x"}, {"z"}).message(5, attribute)}));
  };
  refused(model(ProtoWriter().text(1, "axis").real(2, 1).number(20, 2)), "has type 2, but a value of type 1");
  refused(model(int_attribute("axis", 0).number(8, 1)), "has type 2, but a value of type 7");
  refused(model(ProtoWriter().number(3, 0).number(20, 2)), "has no name");
  refused(model(ProtoWriter().text(1, "axis").number(20, 2).text(21, "axis")), "stands in none");
  refused(make_model(graph({make_node("Softmax", {"x"}, {"z"})
                                .message(5, int_attribute("axis", 0))
                                .message(5, int_attribute("axis", 0))})),
          "attribute 'axis': is given twice");
}

TEST_F(OnnxValidity, Functions) {
  const auto model = [](const ProtoWriter& f) {
    ProtoWriter whole = f;
    whole.text(10, "local").message(9, ProtoWriter().text(1, "").number(2, 17));
    return make_model(graph({neg()})).message(25, whole);
  };
  accepted(model(ProtoWriter().text(1, "F").text(4, "a").text(5, "b").message(7, make_node("Neg", {"a"}, {"b"}))));
  refused(model(ProtoWriter().text(4, "a")), "function '': has no name");
  refused(model(ProtoWriter().text(1, "F").text(4, "a").text(4, "a")), "an input is listed twice");
  refused(model(ProtoWriter().text(1, "F").text(5, "a").text(5, "a")), "an output is listed twice");
  refused(model(ProtoWriter().text(1, "F").text(6, "k").text(6, "k")), "an attribute is listed twice");
  refused(model(ProtoWriter().text(1, "F").text(6, "k").message(11, int_attribute("k", 1))),
          "an attribute is listed twice");
}

TEST_F(OnnxValidity, TensorsHoldWhatTheirShapeTakes) {
  ProtoWriter floats, both, located, segment;
  floats.number(1, 2).number(2, 1).text(8, "w").text(4, std::string(12, '\0'));
  refused(with_tensor(floats), "float_data holds 3 values, shape [2] needs 2", "tensor-length");
  ProtoWriter few;
  few.number(1, 2).number(2, 1).text(8, "w").text(4, std::string(4, '\0'));
  refused(with_tensor(few), "float_data holds 1 values, shape [2] needs 2");
  both.number(1, 1).number(2, 1).text(8, "w").text(9, std::string(4, '\0')).text(4, std::string(4, '\0'));
  refused(with_tensor(both), "has its values in 2 places", "tensor-fields");
  located.number(1, 1).number(2, 1).text(8, "w").text(9, std::string(4, '\0')).number(14, 2);
  refused(with_tensor(located), "data_location is neither");
  segment.number(1, 1).number(2, 1).text(8, "w").text(9, std::string(4, '\0')).message(3, ProtoWriter().number(1, 0));
  refused(with_tensor(segment), "in segments");
  for (const auto& [type, value] : {std::pair(2, 256), std::pair(2, -1), std::pair(3, 128), std::pair(9, 2),
                                    std::pair(4, 65536), std::pair(10, 65536)}) {
    ProtoWriter t;
    t.number(1, 1).number(2, static_cast<uint64_t>(type)).text(8, "w");
    refused(with_tensor(t.number(5, static_cast<uint64_t>(int64_t{value}))), "does not fit", "value-range");
  }
  for (const auto& [type, value] : {std::pair(2, 255), std::pair(3, -128), std::pair(10, 65535), std::pair(10, -1),
                                    std::pair(9, 1), std::pair(6, -5)}) {
    ProtoWriter t;
    t.number(1, 1).number(2, static_cast<uint64_t>(type)).text(8, "w");
    accepted(with_tensor(t.number(5, static_cast<uint64_t>(int64_t{value}))));
  }
}

TEST_F(OnnxValidity, SparseIndicesAscend) {
  const auto model = [](std::initializer_list<int64_t> at) {
    ProtoWriter sparse;
    const std::string raw(reinterpret_cast<const char*>(at.begin()), at.size() * 8);
    sparse.message(1, make_raw_tensor("w", 1, {2}, std::string(8, '\0')));
    sparse.message(2, make_raw_tensor("", 7, {2}, raw)).number(3, 4);
    return make_model(graph({neg()}).message(15, sparse));
  };
  accepted(model({0, 3}));
  refused(model({3, 0}), "sparse index 1 does not follow", "sparse-order");
  refused(model({3, 3}), "sparse index 1 does not follow", "sparse-order");
}

TEST_F(OnnxValidity, BranchesGiveOneType) {
  const auto model = [](int64_t other) {
    ProtoWriter cast = make_node("Cast", {"x"}, {"r"}), n = make_node("If", {"c"}, {"z"}), g;
    cast.message(5, int_attribute("to", other));
    n.message(5, graph_attribute("then_branch", body(make_node("Neg", {"x"}, {"r"}), 1)));
    n.message(5, graph_attribute("else_branch", body(cast, other)));
    g.message(1, n).message(11, make_value("x", 1, {2})).message(12, ProtoWriter().text(1, "z"));
    return make_model(g.message(5, make_raw_tensor("c", 9, {}, std::string_view("\1", 1))));
  };
  accepted(model(1));
  refused(model(7), "output 0 is float32", "branch-types");
}

TEST_F(OnnxValidity, BodiesTakeWhatTheyAreGiven) {
  const auto model = [](int64_t type) {
    ProtoWriter b;
    b.message(1, make_node("Identity", {"go"}, {"on"})).message(1, make_node("Identity", {"v"}, {"r"}));
    b.message(11, make_value("i", 7, {})).message(11, make_value("go", 9, {})).message(11, make_value("v", type, {2}));
    b.message(12, make_value("on", 9, {})).message(12, make_value("r", type, {2}));
    return make_model(graph({make_node("Loop", {"", "c", "x"}, {"z"}).message(5, graph_attribute("body", b))})
                          .message(5, make_raw_tensor("c", 9, {}, std::string_view("\0", 1))));
  };
  accepted(model(1));
  refused(model(7), "input 2 'v': declared int64, the node gives float32");
}

TEST_F(OnnxValidity, ScanDirections) {
  const auto model = [](std::string_view attribute, int64_t direction) {
    ProtoWriter b;
    b.message(1, make_node("Neg", {"v"}, {"r"}))
        .message(11, make_value("v", 1, {}))
        .message(12, make_value("r", 1, {}));
    return make_model(graph({make_node("Scan", {"x"}, {"z"})
                                 .message(5, graph_attribute("body", b))
                                 .message(5, int_attribute("num_scan_inputs", 1))
                                 .message(5, ints_attribute(attribute, {direction}))}));
  };
  for (const char* attribute : {"scan_input_directions", "scan_output_directions"}) {
    for (const int64_t d : {0, 1}) accepted(model(attribute, d));
    for (const int64_t d : {-1, 2}) refused(model(attribute, d), "a scan direction is");
  }
}

TEST_F(OnnxValidity, ZeroPointsHaveTheTypeOfTheirData) {
  // x uint8, its scale and a zero point of `type`.
  const auto model = [](const ProtoWriter& node, int64_t type) {
    ProtoWriter g;
    g.message(1, node).message(11, make_value("x", 2, {1, 1})).message(12, ProtoWriter().text(1, "z"));
    g.message(5, make_raw_tensor("s", 1, {}, std::string("\0\0\x80\x3f", 4)));
    g.message(5, make_raw_tensor("w", 2, {1, 1}, std::string_view("\2", 1)));
    g.message(5, make_raw_tensor("p", type, {}, std::string_view("\1", 1)));
    g.message(5, make_raw_tensor("u", 2, {}, std::string_view("\1", 1)));
    return make_model(g).message(8, ProtoWriter().text(1, "com.microsoft").number(2, 1));
  };
  const ProtoWriter nodes[] = {
      make_node("DequantizeLinear", {"x", "s", "p"}, {"z"}),
      make_node("MatMulInteger", {"x", "w", "p", "u"}, {"z"}),
      make_node("MatMulInteger", {"x", "w", "u", "p"}, {"z"}),
      make_node("QLinearMatMul", {"x", "s", "p", "w", "s", "u", "s", "u"}, {"z"}),
      make_node("QLinearMatMul", {"x", "s", "u", "w", "s", "p", "s", "u"}, {"z"}),
      make_node("QLinearAdd", {"x", "s", "p", "w", "s", "u", "s", "u"}, {"z"}, "com.microsoft"),
      make_node("QLinearConcat", {"s", "u", "x", "s", "u", "w", "s", "p"}, {"z"}, "com.microsoft"),
  };
  for (const ProtoWriter& n : nodes) {
    accepted(model(n, 2));
    refused(model(n, 3), "a zero point, is int8, input", "zero-point-type");
  }
}

TEST_F(OnnxValidity, ParametersOfQuantizedConstantsFitThem) {
  // x plus int8 [2], of as many scales along `axis` and as many zero points.
  const auto model = [](int64_t axis, int64_t scales, int64_t zeros) {
    const auto integers = [](const char* name, int64_t n) {
      return make_raw_tensor(name, 3, {n}, std::string(static_cast<size_t>(n), '\1'));
    };
    ProtoWriter g =
        graph({make_node("DequantizeLinear", {"b", "s", "p"}, {"r"}).message(5, int_attribute("axis", axis)),
               make_node("Add", {"x", "r"}, {"z"})});
    g.message(5, integers("b", 2)).message(5, integers("p", zeros));
    return make_model(
        g.message(5, make_raw_tensor("s", 1, {scales}, std::string(static_cast<size_t>(scales) * 4, '\0'))));
  };
  accepted(model(0, 2, 2));
  accepted(model(-1, 2, 1));
  accepted(model(1, 1, 1));  // one scale is of no axis
  const std::string where = "node 0 DequantizeLinear: ";
  refused(model(1, 2, 2), where + "axis 1 is out of range for rank 1");
  refused(model(-2, 2, 2), where + "axis -2 is out of range for rank 1");
  refused(model(0, 3, 3), where + "scale has 3 elements, dimension 0 of [2] expected");
  refused(model(0, 2, 3), where + "zero point has 3 elements, the scale has 2");
}

TEST_F(OnnxValidity, RuleNamesAreChecked) {
  const std::string file = make_model(graph({neg()})).bytes();
  const auto m =
      Model::load_bytes(std::as_bytes(std::span(file)), nullptr, "file", "", {.tolerate = {"node-order", "no-rule"}});
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(m.error().message().find("no rule 'no-rule'"), std::string::npos) << m.error().message();
}

}  // namespace
}  // namespace smelt::onnx
