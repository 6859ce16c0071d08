#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "smelt/result.h"
#include "smelt/tensor.h"

/// What the command line and tests see of the GPU back-end's devices; no Vulkan types.
namespace smelt::vulkan {

/// Of matrices that a subgroup multiplies: [m, k] x [k, n].
struct MatrixSize {
  uint32_t m, n, k;
};

struct DeviceInfo {
  int index = 0;  ///< SessionOptions::device
  std::string name, type /* "discrete GPU", "CPU", ... */, driver, api_version;
  uint64_t memory_bytes = 0;  ///< of the largest device-local heap
  uint32_t vendor_id = 0, device_id = 0;
  bool fp16 = false, int8 = false, int64 = false, float64 = false;  ///< arithmetic
  bool storage16 = false, storage8 = false;                         ///< elements of these bits in buffers
  bool int8_dot_product = false;
  bool fast_int8_dot_product = false;  ///< faster than multiplying and adding
  /// Cooperative matrices of float16 with float32 sums, and of int8 with int32 sums.
  std::optional<MatrixSize> half_matrices, int8_matrices;
  bool push_descriptors = false;  ///< VK_KHR_push_descriptor
  bool timeline_semaphores = false;
  bool unified_memory = false;  ///< host and device share the memory that activations lie in
  uint32_t subgroup_size = 1;
  bool subgroup_shuffle = false;  ///< in compute shaders
};

/// Every Vulkan device of the machine with a compute queue. An error when there is no Vulkan loader or no driver.
Result<std::vector<DeviceInfo>> devices();

class Device;
/// Opens device `index`; -1: the first discrete GPU, else integrated, else any. Devices are shared by their users.
Result<std::shared_ptr<Device>> open_device(int index);
const DeviceInfo& device_info(const Device& device);
/// Bytes that are allocated there now, by everybody in the process.
size_t memory_held(const Device& device);
}  // namespace smelt::vulkan
