#include "backends/vulkan/layout/texture_kernel.h"

namespace smelt::vulkan {

std::optional<uint32_t> pixel_axes(const TextureForm& form, int rank, bool channels_last) {
  if (rank != 3 && rank != 4) return std::nullopt;
  if (channels_last) return form.packing == Packing::kWidth ? std::optional<uint32_t>(1) : std::nullopt;
  if (rank == 4) return form.packing == Packing::kChannels ? std::optional<uint32_t>(0) : std::nullopt;
  return form.packing == Packing::kHeight ? std::optional<uint32_t>(2) : std::nullopt;
}

std::optional<ImageLayout> existing_image(const KernelSpec& spec, size_t i) {
  const ValueType& type = spec.inputs[i];
  if (i < spec.images.size() && spec.images[i] && !type.quant) {
    const ImageLayout& l = *spec.images[i];
    const int64_t elements = int64_t{l.size[0]} * l.size[1] * l.size[2] * l.size[3];
    if (l.dtype == type.dtype && l.form.storage == spec.form.storage && elements == type.shape.elements()) return l;
  }
  return image_of(spec, type);
}

GpuSize image_strides(const Shape& strides) {
  GpuSize s{};
  for (int d = 0; d < strides.rank(); ++d)
    s[static_cast<size_t>(d)] = static_cast<int32_t>(strides[strides.rank() - 1 - d]);
  return s;
}

Result<Binding> no_buffer(KernelRecorder& r) {
  return r.table("nothing", sizeof(float), [](void* to) { std::memset(to, 0, sizeof(float)); });
}

}  // namespace smelt::vulkan
