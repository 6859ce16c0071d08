#include "formats/common/file_attributes.h"

#include <gtest/gtest.h>

#include <limits>

#include "binary/tflite_schema.h"
#include "formats/common/flatbuffer_attributes.h"
#include "formats/tflite/schema.h"
#include "ops/shape/shape.h"

namespace smelt {
namespace {

/// Two operators of one graph; the first becomes two nodes, the second one. Both have the name `name` and a location.
Module recorded(FileAttributes& to, const char* second) {
  Module m;
  m.graphs.emplace_back();
  Builder b(m, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{2}));
  const auto add = [&](const char* where, int nodes, const char* text) {
    b.at("Origin", "name", where);
    to.record(b, where, {{"key", text}});
    for (int i = 0; i < nodes; ++i) EXPECT_TRUE(b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, b.i64({2})}).ok());
  };
  add("node 0", 2, "1");
  add("node without nodes", 0, "2");
  add(second, 1, "3");
  to.finish(m);
  return m;
}

TEST(FileAttributes, AreThoseOfTheOperatorThatANodeComesFrom) {
  FileAttributes a;
  const Module m = recorded(a, "node 1");
  const auto& nodes = m.graphs[0].nodes;
  ASSERT_EQ(nodes.size(), 3u);
  for (const size_t i : {0, 1, 2}) {
    const StatedAttributes* found = a.find(0, nodes[i]);
    ASSERT_NE(found, nullptr) << i;
    EXPECT_EQ(*found, (StatedAttributes{{"key", i < 2 ? "1" : "3"}})) << i;
  }
  EXPECT_EQ(a.find(1, nodes[0]), nullptr);
}

TEST(FileAttributes, OfAPlaceThatTwoOperatorsShareAreNone) {
  FileAttributes a;
  const Module m = recorded(a, "node 0");
  for (const Node& n : m.graphs[0].nodes) EXPECT_EQ(a.find(0, n), nullptr);
}

TEST(FileAttributes, AreWantedWithinAScopeOnly) {
  EXPECT_EQ(FileAttributes::wanted(), nullptr);
  FileAttributes outer, inner;
  {
    const FileAttributes::Scope a(outer);
    {
      const FileAttributes::Scope b(inner);
      EXPECT_EQ(FileAttributes::wanted(), &inner);
    }
    EXPECT_EQ(FileAttributes::wanted(), &outer);
  }
  EXPECT_EQ(FileAttributes::wanted(), nullptr);
}

TEST(FileAttributes, TextsAreJson) {
  EXPECT_EQ(json_text(std::string_view("a\"b\\c\n")), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(json_text(0.1f), "0.1");
  EXPECT_EQ(json_text(-std::numeric_limits<double>::infinity()), "\"-Infinity\"");
  EXPECT_EQ(json_text(std::numeric_limits<float>::quiet_NaN()), "\"NaN\"");
  EXPECT_EQ(json_list(2, [](size_t i) { return json_text(static_cast<int64_t>(i)); }), "[0,1]");
  EXPECT_EQ(json_list(33, [](size_t) { return json_text(true); }), "\"33 values\"");
}

/// The options of an operator that has these builtin options.
template <class Options>
StatedAttributes builtin(tfl::BuiltinOptions type, Options&& make) {
  flatbuffers::FlatBufferBuilder fbb;
  const flatbuffers::Offset<void> options = make(fbb);
  fbb.Finish(tfl::CreateOperator(fbb, 0, 0, 0, type, options));
  const auto* op = flatbuffers::GetRoot<flatbuffers::Table>(fbb.GetBufferPointer());
  return union_attributes(tflite_schema(), "smelt.tfl.Operator", "builtin_options", *op);
}

TEST(FlatbufferAttributes, AreInTheSchemasOrderWithItsDefaultsAndNames) {
  const auto found = builtin(tfl::BuiltinOptions::Conv2DOptions, [](auto& fbb) {
    return tfl::CreateConv2DOptions(fbb, tfl::Padding::VALID, 2, 3, tfl::ActivationFunctionType::RELU6).Union();
  });
  ASSERT_GE(found.size(), 6u);
  EXPECT_EQ(StatedAttributes(found.begin(), found.begin() + 6),
            (StatedAttributes{{"padding", "\"VALID\""},
                              {"stride_w", "2"},
                              {"stride_h", "3"},
                              {"fused_activation_function", "\"RELU6\""},
                              {"dilation_w_factor", "1"},
                              {"dilation_h_factor", "1"}}));
}

TEST(FlatbufferAttributes, OfListsAreTheirElements) {
  const auto found = builtin(tfl::BuiltinOptions::ReshapeOptions, [](auto& fbb) {
    return tfl::CreateReshapeOptions(fbb, fbb.CreateVector(std::vector<int32_t>{-1, 7})).Union();
  });
  EXPECT_EQ(found, (StatedAttributes{{"new_shape", "[-1,7]"}}));
}

TEST(FlatbufferAttributes, OfAMemberThatTheSchemaLacksAreNone) {
  const auto found =
      builtin(static_cast<tfl::BuiltinOptions>(250), [](auto& fbb) { return tfl::CreateReshapeOptions(fbb).Union(); });
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace smelt
