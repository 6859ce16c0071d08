// Programs and delegate graphs that break a rule of their format.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "executorch_ptd_generated.h"
#include "smelt/model.h"
#include "support/program_writer.h"
#include "support/temporary_folder.h"
#include "support/tolerance_check.h"
#include "support/vk_blob.h"
#include "support/xnn_blob.h"

namespace smelt::executorch {
namespace {

/// y = -x as a program; `change` sets what ends up in it.
class ProgramValidity : public ::testing::Test {
 protected:
  template <class Change>
  static std::vector<uint8_t> program(Change change, const char* overload = "out") {
    ProgramWriter w;
    change(w);
    const int x = w.tensor({2}, 0), y = w.tensor({2}, 64);
    w.call("aten::neg", overload, {x, y, y});
    return w.finish({x}, {y});
  }
  static std::vector<uint8_t> good() {
    return program([](ProgramWriter&) {});
  }
  static void refused(const std::vector<uint8_t>& bytes, const std::string& words, const std::string& rule = "") {
    expect_refused(std::as_bytes(std::span(bytes)), words, rule);
  }
};

TEST_F(ProgramValidity, Identifier) {
  std::vector<uint8_t> bytes = good();
  EXPECT_TRUE(Model::load_bytes(std::as_bytes(std::span(bytes))).ok());
  for (const char* id : {"ET11", "ET13", "ET99"}) {
    std::memcpy(bytes.data() + 4, id, 4);
    refused(bytes, std::string("identifier ") + id + ", ET12 expected", "program-identifier");
  }
}

TEST_F(ProgramValidity, Overloads) {
  const auto nothing = [](ProgramWriter&) {};
  refused(program(nothing, "nope_out"), "operator aten::neg has no overload 'nope_out'");
  refused(program(nothing, "Tensor_out"), "has no overload");
  ProgramWriter w;
  const int x = w.tensor({2}, 0), y = w.tensor({2}, 64), alpha = w.integer(1);
  w.call("aten::add", "Scalar_out", {x, alpha, alpha, y, y});
  const auto bytes = w.finish({x}, {y});
  const auto m = Model::load_bytes(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(m.ok()) << m.error().message();
}

TEST_F(ProgramValidity, Tensors) {
  refused(program([](ProgramWriter& w) { w.layout = 1; }), "value 0: layout 1, 0 (strided) expected");
  refused(program([](ProgramWriter& w) { w.dynamism = static_cast<fb::et::TensorShapeDynamism>(3); }),
          "value 0: shape dynamism 3 is unknown");
}

TEST_F(ProgramValidity, SegmentsAndNames) {
  refused(program([](ProgramWriter& w) { w.segments = {{0, 0}, {0, 8}}; }), "segment 1 at 0 of 8 bytes lies outside");
  refused(program([](ProgramWriter& w) { w.mutable_data = {0, 0}; }), "segment 0 does not exist");
  refused(program([](ProgramWriter& w) {
            w.segments = {{0, 0}};
            w.mutable_data = {0, 16};
          }),
          "data 1 at 16 of 0 bytes lies outside its segment of 0 bytes");
  refused(program([](ProgramWriter& w) {
            w.segments = {{0, 0}};
            w.named = {{"w", 0}, {"w", 0}};
          }),
          "named data 'w' are listed twice");
  refused(program([](ProgramWriter& w) { w.methods = 2; }), "two methods are named 'forward'");
}

using fb_xnnpack::XNodeUnion;
/// Bytes of a .ptd file: an index of tensors "w" in segments of `bytes` bytes each.
std::string data_file(const std::vector<int32_t>& sizes, uint64_t bytes, size_t entries = 1) {
  flatbuffers::FlatBufferBuilder b;
  const auto layout = fb::ptd::CreateTensorLayout(b, fb::et::ScalarType::FLOAT, b.CreateVector(sizes));
  const std::vector segments{fb::ptd::CreateDataSegment(b, 0, bytes)};
  std::vector<flatbuffers::Offset<fb::ptd::NamedData>> named;
  for (size_t i = 0; i < entries; ++i) named.push_back(fb::ptd::CreateNamedData(b, b.CreateString("w"), 0, layout));
  b.Finish(fb::ptd::CreateFlatTensor(b, 0, b.CreateVector(segments), b.CreateVector(named)), "FT01");
  // The header stands between the identifier and the rest: offsets to the right of it move.
  constexpr size_t kHeader = 40;
  std::string file(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize());
  uint32_t root;
  std::memcpy(&root, file.data(), 4);
  root += kHeader;
  std::memcpy(file.data(), &root, 4);
  const uint64_t index = file.size() + kHeader;
  std::string header("FH01");
  const auto put = [&](auto v) { header.append(reinterpret_cast<const char*>(&v), sizeof v); };
  put(static_cast<uint32_t>(kHeader));
  put(uint64_t{0});
  put(index);
  put(index);
  put(bytes);
  file.insert(8, header);
  return file + std::string(bytes, '\0');
}

TEST_F(ProgramValidity, DataFiles) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> bytes = good();
  const auto error = [&](const std::string& data) {
    const std::string path = (folder.path() / "w.ptd").string();
    std::ofstream(path, std::ios::binary) << data;
    const auto m = Model::load_bytes(std::as_bytes(std::span(bytes)), nullptr, "file", "", {.data_files = {path}});
    return m.ok() ? "" : m.error().message();
  };
  EXPECT_EQ(error(data_file({2, 3}, 24)), "");
  EXPECT_NE(error(data_file({2, 3}, 20)).find("'w': float32[2,3] in 20 bytes"), std::string::npos);
  EXPECT_NE(error(data_file({2, 3}, 24, 2)).find("'w' is listed twice"), std::string::npos);
}

using testing::XnnBlob;
constexpr auto kReal = fb_xnnpack::XNNDatatype::xnn_datatype_fp32;

class XnnValidity : public ::testing::Test {
 protected:
  /// y = x + w, w constant.
  template <class Change>
  static std::vector<std::byte> sum(Change change) {
    XnnBlob b;
    change(b);
    const uint32_t x = b.input(kReal, {2}), w = b.constant<float>(kReal, {2}, {1, 2}), y = b.output(kReal, {2});
    b.node(XNodeUnion::XNNAdd, fb_xnnpack::Create_XNNNode2x1(b.fbb, x, w, y));
    return b.finish();
  }
  static std::vector<std::byte> sum() {
    return sum([](XnnBlob&) {});
  }
  /// y = f(x) by one node.
  template <class Node>
  static std::vector<std::byte> one(XNodeUnion type, Node node) {
    XnnBlob b;
    const uint32_t x = b.input(kReal, {2}), y = b.output(kReal, {2});
    b.node(type, node(b, x, y));
    return b.finish();
  }
  static void accepted(const std::vector<std::byte>& blob) {
    const auto m = Model::load_bytes(blob);
    EXPECT_TRUE(m.ok()) << m.error().message();
  }
};

TEST_F(XnnValidity, ConstantsLieApartFromTheFlatbuffer) {
  const std::vector<std::byte> good = sum();
  accepted(good);
  for (const uint32_t at : {0u, 16u, 31u, 32u, 64u}) {
    std::vector<std::byte> blob = good;
    std::memcpy(blob.data() + 18, &at, 4);
    expect_refused(blob, at < 30 ? "overlap the header" : "overlap the flatbuffer");
  }
}

TEST_F(XnnValidity, RegionsLieInTheConstants) {
  accepted(sum([](XnnBlob& b) { b.region(0, 8); }));
  expect_refused(sum([](XnnBlob& b) { b.region(0, 1000); }), "constant 1: it lies at 0, 1000 bytes, outside");
}

TEST_F(XnnValidity, CountsOfDimensions) {
  expect_refused(sum([](XnnBlob& b) { b.extra_dims = 1; }), "value 0: num_dims is 2, dims has 1");
  const std::vector<uint32_t> list{0}, two{2};
  for (const uint32_t count : {1u, 2u}) {
    const std::vector<std::vector<std::byte>> blobs{
        one(XNodeUnion::XNNStaticTranspose,
            [&](XnnBlob& b, uint32_t x, uint32_t y) {
              return fb_xnnpack::CreateXNNStaticTransposeDirect(b.fbb, count, &list, x, y);
            }),
        one(XNodeUnion::XNNStaticReshape,
            [&](XnnBlob& b, uint32_t x, uint32_t y) {
              return fb_xnnpack::CreateXNNStaticReshapeDirect(b.fbb, count, &two, x, y);
            }),
        one(XNodeUnion::XNNStaticSlice, [&](XnnBlob& b, uint32_t x, uint32_t y) {
          return fb_xnnpack::CreateXNNStaticSliceDirect(b.fbb, count, &list, &two, x, y);
        })};
    for (const auto& blob : blobs)
      if (count == 1)
        accepted(blob);
      else
        expect_refused(blob, "num_dims is 2, the list has 1");
  }
}

TEST_F(XnnValidity, Parameters) {
  const auto elu = [](float alpha) {
    return one(XNodeUnion::XNNELU,
               [&](XnnBlob& b, uint32_t x, uint32_t y) { return fb_xnnpack::CreateXNNELU(b.fbb, alpha, x, y); });
  };
  const auto leaky = [](float slope) {
    return one(XNodeUnion::XNNLeakyReLU,
               [&](XnnBlob& b, uint32_t x, uint32_t y) { return fb_xnnpack::CreateXNNLeakyReLU(b.fbb, slope, x, y); });
  };
  const auto clamp = [](float lo, float hi) {
    XnnBlob b;
    const uint32_t x = b.input(kReal, {2}), y = b.output(kReal, {2});
    b.node(XNodeUnion::XNNClamp, fb_xnnpack::Create_XNNNode1x1(b.fbb, x, y), std::pair(lo, hi));
    return b.finish();
  };
  const float infinite = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  accepted(elu(1));
  for (const float alpha : {0.0f, -1.0f, infinite, nan}) expect_refused(elu(alpha), "alpha");
  accepted(leaky(-0.5f));
  for (const float slope : {infinite, nan}) expect_refused(leaky(slope), "negative slope");
  accepted(clamp(-infinite, 6));
  expect_refused(clamp(1, 1), "output range 1 to 1 is not a range");
  expect_refused(clamp(nan, 1), "is not a range");
}

TEST_F(XnnValidity, ListsOfExternals) {
  const auto listed = [](uint32_t in, uint32_t out) {
    XnnBlob b;
    b.listed_inputs = {in};
    b.listed_outputs = {out};
    const uint32_t x = b.input(kReal, {2}), y = b.output(kReal, {2});
    b.node(XNodeUnion::XNNAbs, fb_xnnpack::Create_XNNNode1x1(b.fbb, x, y));
    return b.finish();
  };
  accepted(listed(0, 1));
  expect_refused(listed(1, 1), "input_ids lists other values");
  expect_refused(listed(0, 7), "output_ids lists other values");
}

class VulkanValidity : public ::testing::Test {
 protected:
  /// y = relu(x)
  template <class Change>
  static std::vector<std::byte> relu(Change change) {
    VkBlob b;
    change(b);
    const int32_t x = b.input({2}), y = b.output({2});
    b.call("aten.relu.default", {x, y});
    return b.finish();
  }
};

TEST_F(VulkanValidity, RegionsLieInTheData) {
  const auto m = Model::load_bytes(relu([](VkBlob& b) { b.shaders = {{0, 0}, {UINT64_MAX, 8}}; }));
  EXPECT_TRUE(m.ok()) << m.error().message();
  expect_refused(relu([](VkBlob& b) { b.shaders = {{0, 1 << 20}}; }), "shader 0: it lies at 0, 1048576 bytes, outside");
  expect_refused(relu([](VkBlob& b) { b.region(1 << 20, 4); }), "constant 0: it lies at 1048576");
}

TEST_F(VulkanValidity, Enumerators) {
  using vkgraph::VkMemoryLayout;
  using vkgraph::VkStorageType;
  expect_refused(relu([](VkBlob& b) { b.storage = static_cast<VkStorageType>(7); }), "storage type 7 is unknown");
  expect_refused(relu([](VkBlob& b) { b.layout = static_cast<VkMemoryLayout>(77); }), "memory layout 77 is unknown");
  expect_refused(relu([](VkBlob& b) { b.storage_override = static_cast<VkStorageType>(7); }), "storage type 7");
  expect_refused(relu([](VkBlob& b) { b.tensor(static_cast<VkDataType>(99), {2}, -1, VkDataType::FLOAT32); }),
                 "data type 99 is unknown");
}

TEST_F(VulkanValidity, Inputs) {
  expect_refused(relu([](VkBlob& b) {
                   const int32_t x = b.input({2});
                   b.inputs.push_back(static_cast<uint32_t>(x));
                 }),
                 "input 1 is value 0 again");
  expect_refused(relu([](VkBlob& b) {
                   const int32_t k = b.constant<float>(VkDataType::FLOAT32, {2}, {1, 2});
                   b.inputs.push_back(static_cast<uint32_t>(k));
                 }),
                 "input 0 is the constant value 0");
}

TEST_F(VulkanValidity, Overloads) {
  VkBlob b;
  const int32_t x = b.input({2}), y = b.output({2});
  b.call("aten.relu.nope", {x, y});
  expect_refused(b.finish(), "operator aten::relu has no overload 'nope'");
}

}  // namespace
}  // namespace smelt::executorch
