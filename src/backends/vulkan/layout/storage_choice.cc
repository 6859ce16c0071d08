#include "backends/vulkan/layout/storage_choice.h"

#include <algorithm>
#include <optional>

namespace smelt::vulkan {
namespace {

class Chooser {
 public:
  Chooser(const Graph& graph, std::span<ProgramNode> nodes, DeviceStorage preference, const DeviceInfo& device,
          const MakeTextureKernel& make)
      : graph_(graph),
        nodes_(nodes),
        // A software device samples its images in memory all the same: making them costs, whatever the model asks.
        preference_(preference == DeviceStorage::kAuto && device.type == "CPU" ? DeviceStorage::kBuffer : preference),
        default_(preference == DeviceStorage::kTexture ||
                         (preference == DeviceStorage::kAuto && prefers_textures(device))
                     ? Storage::kTexture3D
                     : Storage::kBuffer),
        make_(make),
        images_(graph.values.size()),
        candidates_(nodes.size()) {}

  void run() {
    if (preference_ == DeviceStorage::kBuffer) return;
    collect_hints();
    for (size_t k = 0; k < nodes_.size(); ++k) consider(k);
    if (preference_ == DeviceStorage::kAuto)
      while (drop_lonely()) {
      }
    for (size_t k = 0; k < nodes_.size(); ++k) {
      Candidate& c = candidates_[k];
      if (!c.kernel) continue;
      nodes_[k].kernel = std::move(c.kernel);
      nodes_[k].kernel_name = c.name;
      nodes_[k].storage = to_string(c.form);
    }
  }

 private:
  struct Candidate {
    std::unique_ptr<Kernel> kernel;  ///< null: the node stays with buffers
    const char* name = "";
    TextureForm form;
    bool asked = false;  ///< by the model
  };

  /// Values of which the model says nothing, inside what was one operator there, are as what is made of them.
  void collect_hints() {
    for (const Value& v : graph_.values) hints_.push_back(v.storage);
    for (size_t k = nodes_.size(); k-- > 0;) {
      const Node& n = *nodes_[k].node;
      if (n.outputs.empty() || n.outputs[0] == kNoValue) continue;
      const StorageHint& made = hints_[static_cast<size_t>(n.outputs[0])];
      for (ValueId id : n.inputs)
        if (id != kNoValue && hints_[static_cast<size_t>(id)].storage == Storage::kAny)
          hints_[static_cast<size_t>(id)] = made;
    }
  }

  /// The node's candidate: in the form that the model asks for, that its input has, or that its kernel likes.
  void consider(size_t k) {
    const Node& n = *nodes_[k].node;
    if (is_view(k)) {
      images_[static_cast<size_t>(n.outputs[0])] = images_[static_cast<size_t>(n.inputs[0])];
      return;
    }
    if (nodes_[k].placement != Placement::kHere || n.outputs.empty() || n.outputs[0] == kNoValue) return;
    const StorageHint& hint = hints_[static_cast<size_t>(n.outputs[0])];
    const Storage storage = hint.storage != Storage::kAny ? hint.storage : default_;
    if (storage == Storage::kBuffer && preference_ != DeviceStorage::kTexture) return;
    std::vector<Packing> packings;
    const auto add = [&](Packing p) {
      if (p != Packing::kAny && std::ranges::find(packings, p) == packings.end()) packings.push_back(p);
    };
    add(hint.packing);
    InputImages inputs;
    for (ValueId id : n.inputs) {
      inputs.push_back(id == kNoValue ? std::nullopt : images_[static_cast<size_t>(id)]);
      if (inputs.back()) add(inputs.back()->form.packing);
    }
    // By default tensors of low rank pack along the width, images along the channels.
    const ValueType& type = graph_.value(n.outputs[0]).type;
    const bool rows = type.ranked && type.shape.rank() > 0 && type.shape.rank() < 4;
    for (Packing p :
         {rows ? Packing::kWidth : Packing::kChannels, Packing::kChannels, Packing::kWidth, Packing::kHeight})
      add(p);
    std::vector<Storage> storages{storage == Storage::kTexture2D ? Storage::kTexture2D : Storage::kTexture3D};
    storages.push_back(storages[0] == Storage::kTexture2D ? Storage::kTexture3D : Storage::kTexture2D);
    Candidate& c = candidates_[k];
    for (const Storage kind : storages)
      for (const Packing p : packings) {
        if (c.kernel) break;
        c.form = {kind, p};
        c.kernel = make_(k, c.form, inputs, &c.name);
      }
    if (!c.kernel) return;
    c.asked = graph_.value(n.outputs[0]).storage.storage != Storage::kAny;
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (const auto* image = n.outputs[i] == kNoValue ? nullptr : c.kernel->output_image(i))
        images_[static_cast<size_t>(n.outputs[i])] = *image;
  }

  bool is_view(size_t k) const { return nodes_[k].placement == Placement::kView; }

  /// Gives a node back to buffers where more of its neighbours' values are buffers than textures.
  bool drop_lonely() {
    std::vector<int> maker(graph_.values.size(), -1);  // of a view's root
    for (size_t k = 0; k < nodes_.size(); ++k)
      for (ValueId id : nodes_[k].node->outputs)
        if (id != kNoValue)
          maker[static_cast<size_t>(id)] =
              is_view(k) ? maker[static_cast<size_t>(nodes_[k].node->inputs[0])] : static_cast<int>(k);
    std::vector<int> buffers(nodes_.size(), 0), textures(nodes_.size(), 0);
    const auto is_texture = [&](ValueId id) {
      const int m = maker[static_cast<size_t>(id)];
      return m >= 0 && candidates_[static_cast<size_t>(m)].kernel && images_[static_cast<size_t>(id)];
    };
    const auto meet = [&](size_t k, bool texture) { ++(texture ? textures : buffers)[k]; };
    for (size_t k = 0; k < nodes_.size(); ++k) {
      if (is_view(k)) continue;
      const Candidate& user = candidates_[k];
      for (size_t i = 0; i < nodes_[k].node->inputs.size(); ++i) {
        const ValueId id = nodes_[k].node->inputs[i];
        if (id == kNoValue || graph_.value(id).constant) continue;
        const int m = maker[static_cast<size_t>(id)];
        const bool takes = user.kernel && user.kernel->input_image(i);
        if (user.kernel && takes) meet(k, is_texture(id));
        if (is_texture(id)) meet(static_cast<size_t>(m), takes);
      }
    }
    for (ValueId id : graph_.outputs)
      if (id != kNoValue && is_texture(id)) meet(static_cast<size_t>(maker[static_cast<size_t>(id)]), false);
    bool dropped = false;
    for (size_t k = 0; k < nodes_.size(); ++k) {
      Candidate& c = candidates_[k];
      if (!c.kernel || c.asked || c.kernel->prefers_textures() || buffers[k] <= textures[k]) continue;
      c.kernel.reset();
      dropped = true;
    }
    return dropped;
  }

  const Graph& graph_;
  std::span<ProgramNode> nodes_;
  DeviceStorage preference_;
  Storage default_;
  const MakeTextureKernel& make_;
  std::vector<StorageHint> hints_;     ///< by value
  InputImages images_;                 ///< by value, that of a view's root
  std::vector<Candidate> candidates_;  ///< by node
};

}  // namespace

bool prefers_textures(const DeviceInfo& device) {
  constexpr uint32_t kQualcomm = 0x5143, kArm = 0x13b5, kImagination = 0x1010;
  return device.type == "integrated GPU" &&
         (device.vendor_id == kQualcomm || device.vendor_id == kArm || device.vendor_id == kImagination);
}

void choose_storage(const Graph& graph, std::span<ProgramNode> nodes, DeviceStorage preference,
                    const DeviceInfo& device, const MakeTextureKernel& make) {
  Chooser(graph, nodes, preference, device, make).run();
}

}  // namespace smelt::vulkan
