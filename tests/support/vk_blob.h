// Vulkan graphs for tests, put together value by value, and their results.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "smelt/model.h"
#include "tensor/numeric.h"
#include "vulkan_graph_generated.h"

namespace smelt::executorch {

using vkgraph::GraphTypes;
using vkgraph::VkDataType;
using Ids = std::vector<int32_t>;

/// A Vulkan blob, put together value by value and call by call.
class VkBlob {
 public:
  flatbuffers::FlatBufferBuilder fbb;

  int32_t tensor(VkDataType type, const std::vector<uint32_t>& dims, int32_t constant = -1,
                 VkDataType host = VkDataType::UNSET) {
    return add(GraphTypes::VkTensor,
               vkgraph::CreateVkTensor(fbb, type, fbb.CreateVector(dims), constant, -1, storage, layout, host));
  }
  int32_t input(const std::vector<uint32_t>& dims, VkDataType type = VkDataType::FLOAT32) {
    inputs.push_back(static_cast<uint32_t>(tensor(type, dims)));
    return static_cast<int32_t>(inputs.back());
  }
  int32_t output(const std::vector<uint32_t>& dims, VkDataType type = VkDataType::FLOAT32) {
    outputs.push_back(static_cast<uint32_t>(tensor(type, dims)));
    return static_cast<int32_t>(outputs.back());
  }
  template <class T>
  int32_t constant(VkDataType type, const std::vector<uint32_t>& dims, const std::vector<T>& data) {
    data_.resize((data_.size() + 15) / 16 * 16);
    entries_.emplace_back(data_.size(), data.size() * sizeof(T));
    data_.resize(data_.size() + data.size() * sizeof(T));
    std::memcpy(data_.data() + entries_.back().first, data.data(), data.size() * sizeof(T));
    return tensor(type, dims, static_cast<int32_t>(entries_.size()) - 1);
  }
  int32_t null() { return add(GraphTypes::Null, vkgraph::CreateNull(fbb)); }
  int32_t integer(int64_t v) { return add(GraphTypes::Int, vkgraph::CreateInt(fbb, v)); }
  int32_t real(double v) { return add(GraphTypes::Double, vkgraph::CreateDouble(fbb, v)); }
  int32_t boolean(bool v) { return add(GraphTypes::Bool, vkgraph::CreateBool(fbb, v)); }
  int32_t string(const char* v) { return add(GraphTypes::String, vkgraph::CreateStringDirect(fbb, v)); }
  int32_t ints(const std::vector<int64_t>& v) {
    return add(GraphTypes::IntList, vkgraph::CreateIntList(fbb, fbb.CreateVector(v)));
  }
  int32_t list(const Ids& v) { return add(GraphTypes::ValueList, vkgraph::CreateValueList(fbb, fbb.CreateVector(v))); }
  int32_t symbol() { return add(GraphTypes::SymInt, vkgraph::CreateSymInt(fbb, 0)); }
  void call(const char* name, const Ids& args) {
    chain_.push_back(vkgraph::CreateOperatorCallDirect(fbb, static_cast<uint32_t>(chain_.size()), name, &args));
  }

  /// An entry of the constants that no tensor reads.
  void region(uint64_t offset, uint64_t length) { entries_.emplace_back(offset, length); }

  std::vector<std::byte> finish() {
    std::vector<flatbuffers::Offset<vkgraph::VkBytes>> code;
    for (const auto& [offset, length] : shaders) code.push_back(vkgraph::CreateVkBytes(fbb, offset, length));
    std::vector<flatbuffers::Offset<vkgraph::VkBytes>> constants;
    for (const auto& [offset, size] : entries_) constants.push_back(vkgraph::CreateVkBytes(fbb, offset, size));
    fbb.Finish(vkgraph::CreateVkGraphDirect(fbb, "0", &chain_, &values_, &inputs, &outputs, &constants, &code,
                                            storage_override, layout_override),
               "VK00");
    const size_t graph = fbb.GetSize(), data_at = 32 + (graph + 15) / 16 * 16;
    std::vector<std::byte> blob(data_at + data_.size());
    const auto put = [&](size_t at, auto number) { std::memcpy(blob.data() + at, &number, sizeof number); };
    std::memcpy(blob.data() + 4, "VH00", 4);
    put(8, uint16_t{30});
    put(10, uint32_t{32});
    put(14, static_cast<uint32_t>(graph));
    put(18, static_cast<uint32_t>(data_at));
    put(22, static_cast<uint64_t>(data_.size()));
    std::memcpy(blob.data() + 32, fbb.GetBufferPointer(), graph);
    if (!data_.empty()) std::memcpy(blob.data() + data_at, data_.data(), data_.size());
    return blob;
  }

  std::vector<uint32_t> inputs, outputs;
  std::vector<std::pair<uint64_t, uint64_t>> shaders;  ///< offset and length
  // Of the tensors that follow, and of the graph.
  vkgraph::VkStorageType storage = vkgraph::VkStorageType::DEFAULT_STORAGE, storage_override = storage;
  vkgraph::VkMemoryLayout layout = vkgraph::VkMemoryLayout::DEFAULT_LAYOUT, layout_override = layout;

 private:
  template <class T>
  int32_t add(GraphTypes type, flatbuffers::Offset<T> table) {
    values_.push_back(vkgraph::CreateVkValue(fbb, type, table.Union()));
    return static_cast<int32_t>(values_.size()) - 1;
  }
  std::vector<flatbuffers::Offset<vkgraph::VkValue>> values_;
  std::vector<flatbuffers::Offset<vkgraph::OperatorCall>> chain_;
  std::vector<std::pair<size_t, size_t>> entries_;
  std::vector<std::byte> data_;
};

inline Tensor floats(const Shape& shape, const std::vector<float>& v) {
  return Tensor::from<float>(DType::kF32, shape, v);
}

/// Output `which` after `runs` runs of one session.
inline std::vector<double> run(VkBlob& b, const std::vector<Datum>& inputs, size_t which = 0, int runs = 1) {
  const std::vector<std::byte> bytes = b.finish();
  auto model = Model::load_bytes(bytes, nullptr, "test.vkd");
  EXPECT_TRUE(model.ok()) << model.error().message();
  if (!model.ok()) return {};
  auto session = Session::create(*model, {.backend = BackendKind::kReference});
  EXPECT_TRUE(session.ok()) << session.error().message();
  std::vector<double> values;
  for (int i = 0; i < runs; ++i) {
    auto out = session->run(inputs);
    EXPECT_TRUE(out.ok()) << out.error().message();
    if (!out.ok()) return {};
    const Tensor& t = out->at(which).tensor;
    values.resize(static_cast<size_t>(t.elements()));
    to_doubles(t, values.data());
  }
  return values;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

inline Tensor bytes(const Shape& shape, const std::vector<int8_t>& v) {
  return Tensor::from<int8_t>(DType::kI8, shape, v);
}

}  // namespace smelt::executorch
