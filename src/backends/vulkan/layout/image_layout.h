#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "graph/storage.h"
#include "smelt/tensor.h"

namespace smelt::vulkan {

class Device;

/// The storage and packing of the images that a texture kernel works on.
struct TextureForm {
  Storage storage = Storage::kTexture3D;
  Packing packing = Packing::kChannels;
  bool float16 = false;  ///< float32 values are rounded to float16 texels
  bool operator==(const TextureForm&) const = default;
};

/// A tensor of at most four dimensions as an image. Each texel holds four neighbours along the packed dimension; the
/// components beyond that dimension's end are undefined. The fourth dimension from the end continues the
/// third: texel (w, h, c, n) lies at (w, h, n * blocks(c) + c). A 2-D image has the slices one below the other.
struct ImageLayout {
  TextureForm form;
  DType dtype = DType::kInvalid;            ///< float32 or float16
  std::array<int32_t, 4> size{};            ///< elements: width, height, channels, batch
  std::array<uint32_t, 3> texels() const;   ///< along width, height, and channels with batch
  std::array<uint32_t, 3> extents() const;  ///< of the image
  int packed() const { return static_cast<int>(form.packing) - 1; }
  uint64_t count() const { return uint64_t{texels()[0]} * texels()[1] * texels()[2]; }
  bool operator==(const ImageLayout&) const = default;
  /// True if element i of a tensor lies at the same texel component in both layouts, for every i.
  bool same_places(const ImageLayout& other) const;

  /// Nullopt where the device has no such image.
  static std::optional<ImageLayout> of(const Shape& shape, DType dtype, const TextureForm& form, const Device& device);
};

/// "texture3d, channels packed"
std::string to_string(const TextureForm& form);

/// The layout as texture.glsl reads it: sizes of a tensor.
using GpuSize = std::array<int32_t, 4>;

}  // namespace smelt::vulkan
