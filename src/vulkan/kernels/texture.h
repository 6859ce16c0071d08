#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "vulkan/kernel_recorder.h"
#include "vulkan/kernels/common.h"

namespace smelt::vulkan {

/// The value as an image of the form that the kernel is asked for.
inline std::optional<ImageLayout> image_of(const KernelSpec& spec, const ValueType& type) {
  if (type.quant) return std::nullopt;
  return ImageLayout::of(type.shape, type.dtype, spec.form, spec.device);
}

/// How images of pixels lie: pixel_position() of shaders/texture.glsl. Nullopt: their texels are not fours of channels.
std::optional<uint32_t> pixel_axes(const TextureForm& form, int rank, bool channels_last);

/// A kernel whose first inputs and only output are images of one form.
class TextureKernel : public Kernel {
 public:
  TextureKernel(std::vector<ImageLayout> inputs, const ImageLayout& output)
      : inputs_(std::move(inputs)), output_(output) {}
  const ImageLayout* input_image(size_t i) const override { return i < inputs_.size() ? &inputs_[i] : nullptr; }
  const ImageLayout* output_image(size_t i) const override { return i == 0 ? &output_ : nullptr; }

 protected:
  const ImageLayout& input(size_t i) const { return inputs_[i]; }
  const ImageLayout& output() const { return output_; }
  uint32_t packed() const { return static_cast<uint32_t>(output_.packed()); }
  /// Runs the variant of `family` for these images on `items` invocations; `constants` are those from id 1 on.
  template <class Push>
  Status dispatch(KernelRecorder& r, const char* family, std::vector<uint32_t> constants, std::vector<Binding> operands,
                  uint64_t items, const Push& push) const {
    const std::string shader = std::string(family) + (output_.form.storage == Storage::kTexture2D ? "_2d" : "_3d");
    constants.insert(constants.begin(), kWidth);
    Dispatch d{shader.c_str(), std::move(constants), std::move(operands)};
    set_grid(d, items, kWidth);
    return r.dispatch(d, push);
  }

 private:
  std::vector<ImageLayout> inputs_;
  ImageLayout output_;
};

}  // namespace smelt::vulkan
