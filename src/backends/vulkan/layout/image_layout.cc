#include "backends/vulkan/layout/image_layout.h"

#include "backends/vulkan/device/device.h"
#include "base/error.h"

namespace smelt::vulkan {

std::array<uint32_t, 3> ImageLayout::texels() const {
  std::array<uint32_t, 3> t{};
  for (int d = 0; d < 3; ++d) {
    const auto n = static_cast<uint32_t>(size[static_cast<size_t>(d)]);
    t[static_cast<size_t>(d)] = d == packed() ? (n + 3) / 4 : n;
  }
  t[2] *= static_cast<uint32_t>(size[3]);
  return t;
}

std::array<uint32_t, 3> ImageLayout::extents() const {
  const auto t = texels();
  if (form.storage == Storage::kTexture3D) return t;
  return {t[0], t[1] * t[2], 1};
}

bool ImageLayout::same_places(const ImageLayout& other) const {
  if (*this == other) return true;
  // Images of a batch continue the channels, unless the last texel of an image's channels is not full.
  return form == other.form && dtype == other.dtype && size[0] == other.size[0] && size[1] == other.size[1] &&
         int64_t{size[2]} * size[3] == int64_t{other.size[2]} * other.size[3] &&
         (packed() != 2 || (size[2] % 4 == 0 && other.size[2] % 4 == 0));
}

std::optional<ImageLayout> ImageLayout::of(const Shape& shape, DType dtype, const TextureForm& form,
                                           const Device& device) {
  if (!device.textures() || shape.rank() > 4 || !device.stores(dtype)) return std::nullopt;
  if (dtype != DType::kF32 && dtype != DType::kF16) return std::nullopt;
  ImageLayout l{form, dtype, {1, 1, 1, 1}};
  const bool flat = form.storage == Storage::kTexture2D;
  const int64_t most = flat ? device.limits().maxImageDimension2D : device.limits().maxImageDimension3D;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t n = shape[shape.rank() - 1 - d];
    if (n < 1 || n > 4 * most) return std::nullopt;
    l.size[static_cast<size_t>(d)] = static_cast<int32_t>(n);
  }
  if (int64_t{l.size[2]} * l.size[3] > INT32_MAX) return std::nullopt;
  const auto t = l.texels();
  const uint64_t across[] = {t[0], flat ? uint64_t{t[1]} * t[2] : t[1], flat ? 1 : t[2]};
  for (const uint64_t n : across)
    if (n > static_cast<uint64_t>(most)) return std::nullopt;
  return l;
}

std::string to_string(const TextureForm& form) {
  static const char* const packings[] = {"", "width", "height", "channels"};
  return Cat(form.storage == Storage::kTexture2D ? "texture2d, " : "texture3d, ",
             packings[static_cast<size_t>(form.packing)], " packed");
}

}  // namespace smelt::vulkan
