#include "runtime/device_storage.h"

#include <algorithm>
#include <optional>

namespace smelt {
namespace {

using vulkan::Kernel;
using vulkan::TextureForm;

class Chooser {
 public:
  Chooser(const Graph& graph, std::span<Step> steps, std::span<std::unique_ptr<Kernel>> kernels, DeviceStorage wish,
          const vulkan::DeviceInfo& device, const MakeTextureKernel& make)
      : graph_(graph),
        steps_(steps),
        kernels_(kernels),
        // A software device samples its images in memory all the same: making them costs, whatever the model asks.
        wish_(wish == DeviceStorage::kAuto && device.type == "CPU" ? DeviceStorage::kBuffer : wish),
        default_(wish == DeviceStorage::kTexture || (wish == DeviceStorage::kAuto && prefers_textures(device))
                     ? Storage::kTexture3D
                     : Storage::kBuffer),
        make_(make),
        images_(graph.values.size()),
        candidates_(steps.size()) {}

  void run() {
    if (wish_ == DeviceStorage::kBuffer) return;
    collect_hints();
    for (size_t k = 0; k < steps_.size(); ++k) consider(k);
    if (wish_ == DeviceStorage::kAuto)
      while (drop_lonely()) {
      }
    for (size_t k = 0; k < steps_.size(); ++k) {
      Candidate& c = candidates_[k];
      if (!c.kernel) continue;
      kernels_[k] = std::move(c.kernel);
      steps_[k].kernel_name = c.name;
      steps_[k].storage = vulkan::to_string(c.form);
    }
  }

 private:
  struct Candidate {
    std::unique_ptr<Kernel> kernel;  ///< null: the step stays with buffers
    const char* name = "";
    TextureForm form;
    bool asked = false;  ///< by the model
  };

  /// Values of which the model says nothing, inside what was one operator there, are as what is made of them.
  void collect_hints() {
    for (const Value& v : graph_.values) hints_.push_back(v.storage);
    for (size_t k = steps_.size(); k-- > 0;) {
      const Step& s = steps_[k];
      if (s.out.empty() || s.out[0] == kNoValue) continue;
      const StorageHint& made = hints_[static_cast<size_t>(s.out[0])];
      for (int32_t id : s.in)
        if (id != kNoValue && hints_[static_cast<size_t>(id)].storage == Storage::kAny)
          hints_[static_cast<size_t>(id)] = made;
    }
  }

  /// The step's candidate: in the form that the model asks for, that its input has, or that its kernel likes.
  void consider(size_t k) {
    const Step& s = steps_[k];
    if (is_view(k)) {
      images_[static_cast<size_t>(s.out[0])] = images_[static_cast<size_t>(s.in[0])];
      return;
    }
    if (s.kind != Step::Kind::kDevice || s.out.empty() || s.out[0] == kNoValue) return;
    const StorageHint& hint = hints_[static_cast<size_t>(s.out[0])];
    const Storage storage = hint.storage != Storage::kAny ? hint.storage : default_;
    if (storage == Storage::kBuffer && wish_ != DeviceStorage::kTexture) return;
    std::vector<Packing> packings;
    const auto add = [&](Packing p) {
      if (p != Packing::kAny && std::find(packings.begin(), packings.end(), p) == packings.end()) packings.push_back(p);
    };
    add(hint.packing);
    InputImages inputs;
    for (int32_t id : s.in) {
      inputs.push_back(id == kNoValue ? std::nullopt : images_[static_cast<size_t>(id)]);
      if (inputs.back()) add(inputs.back()->form.packing);
    }
    // Without a word from anybody, rows are rows and images are channels first.
    const ValueType& type = graph_.value(s.out[0]).type;
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
    c.asked = graph_.value(s.out[0]).storage.storage != Storage::kAny;
    for (size_t i = 0; i < s.out.size(); ++i)
      if (const auto* image = s.out[i] == kNoValue ? nullptr : c.kernel->output_image(i))
        images_[static_cast<size_t>(s.out[i])] = *image;
  }

  bool is_view(size_t k) const { return steps_[k].kind == Step::Kind::kDeviceAlias; }

  /// Gives a step back to buffers where more of its neighbours' values are buffers than textures.
  bool drop_lonely() {
    std::vector<int> maker(graph_.values.size(), -1);  // of a view's root
    for (size_t k = 0; k < steps_.size(); ++k)
      for (int32_t id : steps_[k].out)
        if (id != kNoValue)
          maker[static_cast<size_t>(id)] =
              is_view(k) ? maker[static_cast<size_t>(steps_[k].in[0])] : static_cast<int>(k);
    std::vector<int> buffers(steps_.size(), 0), textures(steps_.size(), 0);
    const auto is_texture = [&](int32_t id) {
      const int m = maker[static_cast<size_t>(id)];
      return m >= 0 && candidates_[static_cast<size_t>(m)].kernel && images_[static_cast<size_t>(id)];
    };
    const auto meet = [&](size_t k, bool texture) { ++(texture ? textures : buffers)[k]; };
    for (size_t k = 0; k < steps_.size(); ++k) {
      if (is_view(k)) continue;
      const Candidate& user = candidates_[k];
      for (size_t i = 0; i < steps_[k].in.size(); ++i) {
        const int32_t id = steps_[k].in[i];
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
    for (size_t k = 0; k < steps_.size(); ++k) {
      Candidate& c = candidates_[k];
      if (!c.kernel || c.asked || c.kernel->prefers_textures() || buffers[k] <= textures[k]) continue;
      c.kernel.reset();
      dropped = true;
    }
    return dropped;
  }

  const Graph& graph_;
  std::span<Step> steps_;
  std::span<std::unique_ptr<Kernel>> kernels_;
  DeviceStorage wish_;
  Storage default_;
  const MakeTextureKernel& make_;
  std::vector<StorageHint> hints_;     ///< by value
  InputImages images_;                 ///< by value, that of a view's root
  std::vector<Candidate> candidates_;  ///< by step
};

}  // namespace

bool prefers_textures(const vulkan::DeviceInfo& device) {
  constexpr uint32_t kQualcomm = 0x5143, kArm = 0x13b5, kImagination = 0x1010;
  return device.type == "integrated GPU" &&
         (device.vendor_id == kQualcomm || device.vendor_id == kArm || device.vendor_id == kImagination);
}

void choose_storage(const Graph& graph, std::span<Step> steps, std::span<std::unique_ptr<vulkan::Kernel>> kernels,
                    DeviceStorage wish, const vulkan::DeviceInfo& device, const MakeTextureKernel& make) {
  Chooser(graph, steps, kernels, wish, device, make).run();
}

}  // namespace smelt
