#include "backends/vulkan/layout/image.h"

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "shaders/texture_convert.h"

namespace smelt::vulkan {
Result<std::shared_ptr<Image>> make_image(const std::shared_ptr<Device>& device, const ImageLayout& layout) {
  SMELT_ASSIGN(auto image, Image::make(device, layout));
  return std::shared_ptr<Image>(std::move(image));
}
size_t image_bytes(const Image& image) { return image.bytes(); }
size_t image_alignment(const Image& image) { return image.alignment(); }

Status record_conversion(Recorder& recorder, const ImageLayout* from_layout, const Binding& from,
                         const ImageLayout* to_layout, Binding to) {
  const ImageLayout& any = to_layout ? *to_layout : *from_layout;
  const auto kind = [&](const ImageLayout* l) {
    if (l) return l->form.storage == Storage::kTexture2D ? std::string("2d") : std::string("3d");
    return std::string(any.dtype == DType::kF16 ? "f16" : "f32");
  };
  const auto shader =
      shaders::find_variant<shaders::TextureConvert>("texture_convert_" + kind(from_layout) + "_" + kind(to_layout));
  if (!shader) return Internal("no shader converts ", kind(from_layout), " to ", kind(to_layout));
  const auto packed = [](const ImageLayout* l) { return l ? static_cast<uint32_t>(l->packed()) : 0; };
  to.written = true;
  const auto n = static_cast<uint32_t>(any.count());
  return recorder.run(*shader, {.from = packed(from_layout), .to = packed(to_layout)}, {from, to},
                      Grid::flat(n, kWidth),
                      {.from_size = from_layout ? from_layout->size : GpuSize{},
                       .to_size = to_layout ? to_layout->size : GpuSize{},
                       .n = n});
}

}  // namespace smelt::vulkan
