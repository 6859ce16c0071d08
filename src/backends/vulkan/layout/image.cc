#include "backends/vulkan/layout/image.h"

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"

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
  const std::string shader = "texture_convert_" + kind(from_layout) + "_" + kind(to_layout);
  const auto packed = [](const ImageLayout* l) { return l ? static_cast<uint32_t>(l->packed()) : 0; };
  to.written = true;
  ConversionPush push{{}, {}, static_cast<uint32_t>(any.count())};
  if (from_layout) push.from = from_layout->size;
  if (to_layout) push.to = to_layout->size;
  Dispatch d{shader.c_str(), {kWidth, packed(from_layout), packed(to_layout)}, {from, to}};
  set_grid(d, push.n, kWidth);
  return recorder.dispatch(d, push);
}

}  // namespace smelt::vulkan
