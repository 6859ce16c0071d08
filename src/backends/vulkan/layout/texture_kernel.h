#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"

namespace smelt::vulkan {

/// The layout of a value in an image of spec.form; nullopt if it is quantized or the device has no such image.
inline std::optional<ImageLayout> image_of(const KernelSpec& spec, const ValueType& type) {
  if (type.quant) return std::nullopt;
  return ImageLayout::of(type.shape, type.dtype, spec.form, spec.device);
}

/// Strides by dimension as strides along an image's width, height, channels and batch.
GpuSize image_strides(const Shape& strides);

/// The layout of the image that input i already lies in, or else of one of spec.form.
std::optional<ImageLayout> existing_image(const KernelSpec& spec, size_t i);

/// A buffer for a binding that the shader does not read.
Result<Binding> no_buffer(KernelRecorder& r);

/// The axes argument of pixel_position() (texture.glsl); nullopt if a texel does not hold four channels.
std::optional<uint32_t> pixel_axes(const TextureForm& form, int rank, bool channels_last);

/// A kernel whose operands are images of one storage kind, or buffers where nullopt.
class TextureKernel : public Kernel {
 public:
  using Images = std::vector<std::optional<ImageLayout>>;
  TextureKernel(const TextureForm& form, Images inputs, Images outputs)
      : form_(form), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}
  /// The only output is an image.
  TextureKernel(Images inputs, const ImageLayout& output) : TextureKernel(output.form, std::move(inputs), {output}) {}
  const ImageLayout* input_image(size_t i) const override { return at(inputs_, i); }
  const ImageLayout* output_image(size_t i) const override { return at(outputs_, i); }

 protected:
  /// Precondition: it is an image.
  const ImageLayout& output(size_t i = 0) const { return *outputs_[i]; }
  uint32_t packed() const { return static_cast<uint32_t>(form_.packing) - 1; }
  /// Runs the variant of the images' kind, `variants` being those for 3-D and for 2-D images, on `items` invocations,
  /// or workgroups of constants.width of them. Sets constants.half_image.
  template <class Interface, size_t N>
  Status run(KernelRecorder& r, const shaders::Variant<Interface> (&variants)[2],
             typename Interface::Constants constants, const Binding (&operands)[N], uint64_t items,
             const typename Interface::Push& push, bool groups = false) const {
    if constexpr (requires { constants.half_image; }) constants.half_image = gives_half();
    return r.run(variants[form_.storage == Storage::kTexture2D ? 1 : 0], constants, operands,
                 Grid::flat(items, groups ? 1 : constants.width), push);
  }

 private:
  bool gives_half() const {
    return std::ranges::any_of(outputs_, [](const auto& y) { return y && y->dtype == DType::kF16; });
  }
  static const ImageLayout* at(const Images& images, size_t i) {
    return i < images.size() && images[i] ? &*images[i] : nullptr;
  }
  TextureForm form_;
  Images inputs_, outputs_;
};

/// The images that a texture kernel works on; buffers where nullopt or missing.
struct ImageOperands {
  TextureForm form;
  ShaderKernel::Images inputs, outputs;
};

/// A binding that the shader does not read.
inline Arg no_arg() {
  return {[](KernelRecorder& r) { return no_buffer(r); }};
}

/// The kernel that runs the variant of the images' kind, `variants` being those for 3-D and for 2-D images, on `items`
/// invocations, or workgroups of constants.width of them. Sets the constants that follow from the images: half_image,
/// packed and packed_x.
template <class Interface, size_t N>
std::unique_ptr<ShaderKernel> texture_kernel(ImageOperands images, const shaders::Variant<Interface> (&variants)[2],
                                             typename Interface::Constants constants, Arg (&&args)[N], uint64_t items,
                                             const typename Interface::Push& push, bool groups = false) {
  if constexpr (requires { constants.half_image; })
    constants.half_image =
        std::ranges::any_of(images.outputs, [](const auto& y) { return y && y->dtype == DType::kF16; });
  if constexpr (requires { constants.packed; }) constants.packed = static_cast<uint32_t>(images.form.packing) - 1;
  if constexpr (requires { constants.packed_x; })
    constants.packed_x = static_cast<uint32_t>(images.inputs[0]->packed());
  auto kernel = shader_kernel(variants[images.form.storage == Storage::kTexture2D ? 1 : 0], constants, std::move(args),
                              Grid::flat(items, groups ? 1 : constants.width), push);
  kernel->inputs = std::move(images.inputs);
  kernel->outputs = std::move(images.outputs);
  return kernel;
}

}  // namespace smelt::vulkan
