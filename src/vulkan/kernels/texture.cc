#include "vulkan/kernels/texture.h"

namespace smelt::vulkan {

std::optional<uint32_t> pixel_axes(const TextureForm& form, int rank, bool channels_last) {
  if (rank != 3 && rank != 4) return std::nullopt;
  if (channels_last) return form.packing == Packing::kWidth ? std::optional<uint32_t>(1) : std::nullopt;
  if (rank == 4) return form.packing == Packing::kChannels ? std::optional<uint32_t>(0) : std::nullopt;
  return form.packing == Packing::kHeight ? std::optional<uint32_t>(2) : std::nullopt;
}

Result<Binding> no_buffer(KernelRecorder& r) {
  return r.table("nothing", sizeof(float), [](void* to) { std::memset(to, 0, sizeof(float)); });
}

}  // namespace smelt::vulkan
