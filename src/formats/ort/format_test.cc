// .ort files written here: what the golden cases, which ONNX Runtime wrote, do not have.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "graph/graph.h"
#include "ort_generated.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "support/guarded.h"

namespace smelt::ort {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;

/// A model y = Add(x, w) of float vectors with two elements; members change parts of it.
struct SmallModel {
  NodeType node_type = NodeType::Primitive;
  const char* domain = "";
  int64_t weight_dim = 2;
  int64_t external = -1;
  int weight_copies = 1;  ///< names in the node's list of inputs that stand for w
  bool has_model = true;
  bool reversed = false;  ///< y = Neg(t), t = Add(x, w): the nodes in this order
  TypeInfoValue value_type = TypeInfoValue::tensor_type;

  std::string bytes() const {
    Builder b;
    const auto vector_of_two = [&](const char* name) {
      const auto dim = CreateDimension(b, CreateDimensionValue(b, DimensionValueType::VALUE, 2));
      const auto shape = CreateShape(b, b.CreateVector(&dim, 1));
      const auto tensor = CreateTensorTypeAndShape(b, 1, shape);
      return CreateValueInfoDirect(b, name, nullptr, CreateTypeInfo(b, 0, value_type, tensor.Union()));
    };
    const std::vector<float> weights{10, 20};
    std::vector<uint8_t> raw(8);
    std::memcpy(raw.data(), weights.data(), raw.size());
    const std::vector<int64_t> dims{weight_dim};
    const std::vector<flatbuffers::Offset<Tensor>> constants{
        CreateTensorDirect(b, "w", nullptr, &dims, 1, &raw, nullptr, external)};
    const std::vector<flatbuffers::Offset<ValueInfo>> types{vector_of_two("x"), vector_of_two("y")};
    std::vector<flatbuffers::Offset<flatbuffers::String>> inputs{b.CreateString("x")};
    inputs.resize(1 + static_cast<size_t>(weight_copies), b.CreateString("w"));
    const auto in = b.CreateVector(inputs);
    const std::vector<flatbuffers::Offset<flatbuffers::String>> x{b.CreateString("x")}, y{b.CreateString("y")};
    const std::vector<flatbuffers::Offset<flatbuffers::String>> sum{b.CreateString(reversed ? "t" : "y")};
    const auto out = b.CreateVector(sum);
    const auto op = b.CreateString("Add"), where = b.CreateString(domain);
    const auto provider = b.CreateString("SomeProvider");
    NodeBuilder node(b);
    node.add_op_type(op);
    node.add_domain(where);
    node.add_type(node_type);
    node.add_execution_provider_type(provider);
    node.add_inputs(in);
    node.add_outputs(out);
    std::vector<flatbuffers::Offset<Node>> nodes{node.Finish()};
    if (reversed) {
      const auto neg = b.CreateString("Neg"), result = b.CreateString("y"), domain_name = b.CreateString("");
      const auto from = b.CreateVector(sum), to = b.CreateVector(&result, 1);
      NodeBuilder last(b);
      last.add_op_type(neg);
      last.add_domain(domain_name);
      last.add_type(NodeType::Primitive);
      last.add_inputs(from);
      last.add_outputs(to);
      nodes.insert(nodes.begin(), last.Finish());
    }
    const auto graph = CreateGraphDirect(b, &constants, &types, &nodes, 1, &x, &y);
    const std::vector<flatbuffers::Offset<OperatorSetId>> opsets{CreateOperatorSetIdDirect(b, "", 17)};
    const auto model = CreateModelDirect(b, 8, &opsets, "a test", nullptr, nullptr, 0, nullptr, graph);
    FinishInferenceSessionBuffer(b, CreateInferenceSessionDirect(b, "6", has_model ? model : 0));
    return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
  }
};

Result<smelt::Model> load(const std::string& bytes) {
  return smelt::Model::load_bytes(std::as_bytes(std::span(bytes)), nullptr, "model");
}

std::string error_of(const SmallModel& m) {
  const std::string bytes = m.bytes();
  const auto model = load(bytes);
  return model.ok() ? "none" : model.error().message();
}

TEST(OrtFormat, NodesStandInAnyOrder) { EXPECT_EQ(error_of({.reversed = true}), "none"); }

TEST(OrtFormat, RunsASmallModel) {
  const std::string bytes = SmallModel().bytes();
  const auto model = load(bytes);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->format(), "ort");
  EXPECT_EQ(module_of(*model).metadata.front(), (std::pair<std::string, std::string>("ort_version", "6")));
  EXPECT_EQ(module_of(*model).producer, "a test");
  ASSERT_EQ(model->inputs().size(), 1u);
  EXPECT_EQ(model->inputs()[0].shape, (smelt::Shape{2}));
  auto session = Session::create(*model);
  ASSERT_TRUE(session.ok());
  const std::array<float, 2> values{1, 2};
  const Datum x = smelt::Tensor::from<float>(DType::kF32, smelt::Shape{2}, values);
  const auto y = session->run({&x, 1});
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ((*y)[0].tensor.data<float>()[0], 11);
  EXPECT_EQ((*y)[0].tensor.data<float>()[1], 22);
}

TEST(OrtFormat, WhatOnlyOnnxRuntimeCanRunIsRefusedByName) {
  EXPECT_EQ(error_of({.node_type = NodeType::Fused}),
            "model: node 0 '': operator Add was compiled by execution provider 'SomeProvider' and runs only there");
  EXPECT_NE(error_of({.domain = "com.microsoft.nchwc"}).find("operator Add of domain 'com.microsoft.nchwc'"),
            std::string::npos);
  EXPECT_NE(error_of({.external = 0}).find("initializer 0 'w': its data lies in another file"), std::string::npos);
}

TEST(OrtFormat, DamagedFilesEndInErrors) {
  EXPECT_NE(error_of({.has_model = false}).find("has no model"), std::string::npos);
  EXPECT_NE(error_of({.weight_dim = 3}).find("initializer 0 'w': raw_data holds 8 bytes"), std::string::npos);
  EXPECT_NE(error_of({.weight_copies = 2}).find("node 0"), std::string::npos);
  EXPECT_NE(error_of({.value_type = static_cast<TypeInfoValue>(9)}).find("type of kind 9"), std::string::npos);
  const std::string whole = SmallModel().bytes();
  // What the end of a flatbuffer cuts off may be padding.
  for (size_t n = 8; n + 4 < whole.size(); ++n) {
    const std::string cut = whole.substr(0, n);
    EXPECT_FALSE(load(cut).ok()) << n;
    if (n % test::Guarded::kAligned == 0) {
      EXPECT_FALSE(smelt::Model::load_bytes(test::Guarded(cut).bytes(), nullptr, "cut").ok());
    }
  }
}

/// Nodes that share one list of names: the file is small, what it says is not.
TEST(OrtFormat, SharedListsAreNotCopiedWithoutEnd) {
  Builder b;
  const std::vector<flatbuffers::Offset<flatbuffers::String>> names(50'000, b.CreateString("x"));
  const auto list = b.CreateVector(names);
  const auto op = b.CreateString("Add");
  std::vector<flatbuffers::Offset<Node>> nodes;
  for (int i = 0; i < 50; ++i) {
    NodeBuilder node(b);
    node.add_op_type(op);
    node.add_inputs(list);
    nodes.push_back(node.Finish());
  }
  const auto graph = CreateGraphDirect(b, nullptr, nullptr, &nodes);
  FinishInferenceSessionBuffer(
      b, CreateInferenceSessionDirect(b, "6",
                                      CreateModelDirect(b, 8, nullptr, nullptr, nullptr, nullptr, 0, nullptr, graph)));
  const auto model = load({reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message().find("repeat too much"), std::string::npos) << model.error().message();
}

}  // namespace
}  // namespace smelt::ort
