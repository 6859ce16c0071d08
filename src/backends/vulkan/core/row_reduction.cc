#include "backends/vulkan/core/row_reduction.h"

#include "backends/vulkan/device/device.h"
#include "base/cat.h"

namespace smelt::vulkan {

const char* row_shader(const KernelSpec& spec, const char* shader, uint32_t lanes) {
  const DeviceInfo& device = spec.device.info();
  const bool whole = device.subgroup_size > 1 && lanes % device.subgroup_size == 0;
  if (lanes == 1 || !whole || !device.subgroup_shuffle || !environment_switch("SMELT_VULKAN_SUBGROUPS").value_or(true))
    return shader;
  const Shader* variant = find_shader(Cat(shader, "_subgroups").c_str());
  return variant ? variant->name : shader;
}

}  // namespace smelt::vulkan
