// The layout pass on graphs of kernels that do nothing: no device is needed.
#include "backends/vulkan/layout/storage_choice.h"

#include <gtest/gtest.h>

namespace smelt::vulkan {
namespace {

class FakeKernel final : public Kernel {
 public:
  FakeKernel(bool texture, bool prefers, const TextureForm& form) : texture_(texture), prefers_(prefers) {
    layout_.form = form;
  }
  const ImageLayout* input_image(size_t) const override { return texture_ ? &layout_ : nullptr; }
  const ImageLayout* output_image(size_t) const override { return texture_ ? &layout_ : nullptr; }
  bool prefers_textures() const override { return prefers_; }
  Status record(KernelRecorder&) const override { return Ok(); }

 private:
  bool texture_, prefers_;
  ImageLayout layout_;
};

const DeviceInfo kPhone{.index = 0, .type = "integrated GPU", .vendor_id = 0x5143};
const DeviceInfo kCard{.index = 0, .type = "discrete GPU", .vendor_id = 0x10de};

/// A chain of nodes on the device: node k makes value k + 1 of value k; value 0 comes from the host, the last goes
/// there.
struct Chain {
  Graph graph;
  std::vector<ProgramNode> nodes;
  std::vector<bool> takes;    ///< there is a kernel for textures
  std::vector<bool> prefers;  ///< it is worth a change of form
  std::vector<Packing> only;  ///< in this packing alone; kAny: in all

  explicit Chain(size_t n) : takes(n, true), prefers(n, false), only(n, Packing::kAny) {
    graph.values.resize(n + 1);
    graph.inputs = {0};
    graph.outputs = {static_cast<ValueId>(n)};
    graph.nodes.resize(n);
    for (size_t k = 0; k < n; ++k) {
      graph.nodes[k].inputs = {static_cast<ValueId>(k)};
      graph.nodes[k].outputs = {static_cast<ValueId>(k) + 1};
      nodes.push_back({&graph.nodes[k], Placement::kHere, std::make_unique<FakeKernel>(false, false, TextureForm{})});
    }
  }
  /// What the pass makes of each node.
  std::vector<std::string> choose(DeviceStorage preference, const DeviceInfo& device) {
    choose_storage(
        graph, nodes, preference, device,
        [&](size_t k, const TextureForm& form, const InputImages&, const char** name) -> std::unique_ptr<Kernel> {
          if (!takes[k] || (only[k] != Packing::kAny && only[k] != form.packing)) return nullptr;
          *name = "texture";
          return std::make_unique<FakeKernel>(true, prefers[k], form);
        });
    std::vector<std::string> out;
    for (const ProgramNode& n : nodes) out.push_back(n.storage);
    return out;
  }
};

using Forms = std::vector<std::string>;
const std::string kChannels3D = "texture3d, channels packed", kWidth3D = "texture3d, width packed";

TEST(DeviceStorage, WithoutHintsTheDeviceDecides) {
  EXPECT_EQ(Chain(3).choose(DeviceStorage::kAuto, kCard), Forms(3));
  EXPECT_EQ(Chain(3).choose(DeviceStorage::kAuto, kPhone), Forms(3, kChannels3D));
  EXPECT_EQ(Chain(3).choose(DeviceStorage::kBuffer, kPhone), Forms(3));
  EXPECT_EQ(Chain(3).choose(DeviceStorage::kTexture, kCard), Forms(3, kChannels3D));
  DeviceInfo card = kPhone;
  card.type = "discrete GPU";
  EXPECT_EQ(Chain(3).choose(DeviceStorage::kAuto, card), Forms(3));
}

TEST(DeviceStorage, HintsGoFirst) {
  Chain c(2);
  c.graph.values[2].storage = {Storage::kTexture2D, Packing::kHeight};
  EXPECT_EQ(c.choose(DeviceStorage::kAuto, kCard), Forms(2, "texture2d, height packed"))
      << "what an operator of the model has inside is as its result";
  Chain buffers(2);
  buffers.graph.values[1].storage.storage = buffers.graph.values[2].storage.storage = Storage::kBuffer;
  EXPECT_EQ(buffers.choose(DeviceStorage::kAuto, kPhone), Forms(2));
  Chain forced(1);
  forced.graph.values[1].storage = {Storage::kTexture3D, Packing::kWidth};
  EXPECT_EQ(forced.choose(DeviceStorage::kBuffer, kPhone), Forms(1));
}

TEST(DeviceStorage, SoftwareDevicesHaveBuffers) {
  DeviceInfo software = kCard;
  software.type = "CPU";
  Chain asked(2);
  asked.graph.values[2].storage = {Storage::kTexture3D, Packing::kChannels};
  EXPECT_EQ(asked.choose(DeviceStorage::kAuto, software), Forms(2));
  EXPECT_EQ(asked.choose(DeviceStorage::kTexture, software), Forms(2, kChannels3D));
}

TEST(DeviceStorage, LonelyNodesStayInBuffers) {
  EXPECT_EQ(Chain(1).choose(DeviceStorage::kAuto, kPhone), Forms(1));
  Chain worth(1);
  worth.prefers[0] = true;
  EXPECT_EQ(worth.choose(DeviceStorage::kAuto, kPhone), Forms(1, kChannels3D));
  Chain between(3);
  between.takes[0] = between.takes[2] = false;
  EXPECT_EQ(between.choose(DeviceStorage::kAuto, kPhone), Forms(3));
  Chain asked(1);
  asked.graph.values[1].storage = {Storage::kTexture3D, Packing::kWidth};
  EXPECT_EQ(asked.choose(DeviceStorage::kAuto, kPhone), Forms(1, kWidth3D));
}

TEST(DeviceStorage, NodesTakeTheFormOfTheirInputs) {
  Chain c(3);
  c.only[0] = Packing::kWidth;
  EXPECT_EQ(c.choose(DeviceStorage::kAuto, kPhone), Forms(3, kWidth3D));
}

}  // namespace
}  // namespace smelt::vulkan
