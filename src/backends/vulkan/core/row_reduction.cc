#include "backends/vulkan/core/row_reduction.h"

#include "backends/vulkan/device/device.h"

namespace smelt::vulkan {

bool uses_subgroups(const KernelSpec& spec, uint32_t lanes) {
  const DeviceInfo& device = spec.device.info();
  const bool whole = device.subgroup_size > 1 && lanes % device.subgroup_size == 0;
  return lanes > 1 && whole && device.subgroup_shuffle && environment_switch("SMELT_VULKAN_SUBGROUPS").value_or(true);
}

}  // namespace smelt::vulkan
