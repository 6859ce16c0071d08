// For tests: runs one node on the Vulkan device in textures of several forms.
#pragma once

#include <string>
#include <vector>

#include "vulkan/check_gpu.h"
#include "vulkan/image_layout.h"

namespace smelt::vulkan {

inline constexpr Packing kPackings[] = {Packing::kWidth, Packing::kHeight, Packing::kChannels};
inline constexpr Storage kStorages[] = {Storage::kTexture3D, Storage::kTexture2D};

/// The node runs with that kernel in the packings given, in images of both kinds.
inline void check_forms(const KernelCase& c, const std::string& kernel,
                        std::vector<Packing> packings = {std::begin(kPackings), std::end(kPackings)}) {
  const bool half = c.output.dtype == DType::kF16 || c.inputs[0].dtype() == DType::kF16;
  for (const Storage storage : kStorages)
    for (const Packing packing : packings) {
      SCOPED_TRACE(to_string(TextureForm{storage, packing}));
      check_on_gpu(c, kernel, half ? 4e-3 : 2e-5, {{storage, packing}, DeviceStorage::kTexture});
    }
}

}  // namespace smelt::vulkan
