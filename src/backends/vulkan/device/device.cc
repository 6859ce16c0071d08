#include "backends/vulkan/device/device.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "backends/vulkan/device/cooperative_matrix.h"
#include "backends/vulkan/device/memory.h"

namespace smelt::vulkan {

const char* to_string(VkResult result) {
  switch (result) {
    case VK_SUCCESS:
      return "VK_SUCCESS";
    case VK_NOT_READY:
      return "VK_NOT_READY";
    case VK_TIMEOUT:
      return "VK_TIMEOUT";
    case VK_INCOMPLETE:
      return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      return "VK_ERROR_OUT_OF_POOL_MEMORY";
    default:
      return "a Vulkan error";
  }
}

Status check(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return Ok();
  const bool memory = result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY;
  return Error(memory ? ErrorCode::kLimit : ErrorCode::kDevice, Cat(call, ": ", to_string(result)));
}

namespace {

/// The process's one Vulkan instance. It lives as long as the process: drivers don't agree on when they may go.
struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  Status status;

  Instance() { status = create(); }
  Status create() {
    if (volkInitialize() != VK_SUCCESS)
      return Error(ErrorCode::kDevice, "there is no Vulkan loader (libvulkan.so.1) on this machine");
    VkApplicationInfo app{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    app.pApplicationName = "smelt";
    app.pEngineName = "smelt";
    app.apiVersion = std::min<uint32_t>(volkGetInstanceVersion(), VK_API_VERSION_1_3);
    if (app.apiVersion < VK_API_VERSION_1_1) return Error(ErrorCode::kDevice, "Vulkan 1.1 is needed");
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &app;
    const VkResult made = vkCreateInstance(&info, nullptr, &handle);
    if (made == VK_ERROR_INCOMPATIBLE_DRIVER)
      return Error(ErrorCode::kDevice, "there is no Vulkan driver on this machine (VK_ERROR_INCOMPATIBLE_DRIVER)");
    SMELT_TRY(check(made, "vkCreateInstance"));
    volkLoadInstance(handle);
    return Ok();
  }
};

Instance& instance() {
  static Instance* const one = new Instance;
  return *one;
}

const char* type_name(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "CPU";
    default:
      return "other";
  }
}

std::string version_text(uint32_t v) {
  return Cat(VK_API_VERSION_MAJOR(v), ".", VK_API_VERSION_MINOR(v), ".", VK_API_VERSION_PATCH(v));
}

/// Tests run what lesser devices get on machines that have more: 1, plain Vulkan 1.1 without 64-bit arithmetic; 2, what
/// is core later by its extensions.
char lesser() {
  const char* e = std::getenv("SMELT_VULKAN_PLAIN");
  return e && (*e == '1' || *e == '2') ? *e : '0';
}
bool core_only() { return lesser() == '1'; }

/// The version whose features are used.
uint32_t version_of(const VkPhysicalDeviceProperties& p) {
  return lesser() != '0' ? std::min<uint32_t>(p.apiVersion, VK_API_VERSION_1_1) : p.apiVersion;
}

/// The extensions that a device has; none if only core Vulkan 1.1 is used.
class Extensions {
 public:
  explicit Extensions(VkPhysicalDevice physical) {
    uint32_t n = 0;
    if (core_only() || vkEnumerateDeviceExtensionProperties(physical, nullptr, &n, nullptr) != VK_SUCCESS) return;
    all_.resize(n);
    if (vkEnumerateDeviceExtensionProperties(physical, nullptr, &n, all_.data()) != VK_SUCCESS) all_.clear();
  }
  bool has(std::string_view name) const {
    return std::ranges::any_of(all_, [&](const VkExtensionProperties& e) { return name == e.extensionName; });
  }

 private:
  std::vector<VkExtensionProperties> all_;
};

/// Everything that a device can do and smelt uses, chained for query and for creation.
struct Features {
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  VkPhysicalDevice16BitStorageFeatures storage16{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDevice8BitStorageFeatures storage8{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
  VkPhysicalDeviceShaderFloat16Int8Features small{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
  CooperativeMatrixFeatures matrices;

  std::vector<const char*> extensions;  ///< to be enabled

  /// What is core in `version`, or an extension.
  Features(uint32_t version, const Extensions& known) {
    core.pNext = &storage16;
    void** last = &storage16.pNext;
    const auto chain = [&](auto& structure, std::optional<uint32_t> since, const char* extension) {
      const bool is_core = since && version >= *since;
      if (!is_core && !known.has(extension)) return;
      if (!is_core) extensions.push_back(extension);
      *last = &structure;
      last = &structure.pNext;
    };
    chain(storage8, VK_API_VERSION_1_2, VK_KHR_8BIT_STORAGE_EXTENSION_NAME);
    chain(small, VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME);
    chain(dot, VK_API_VERSION_1_3, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    chain(memory_model, VK_API_VERSION_1_2, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME);
    chain(matrices, std::nullopt, kCooperativeMatrixExtension);
    if (version >= VK_API_VERSION_1_2) *last = &timeline;  // whose functions are found by their core names
  }
  Features(const Features&) = delete;
  Features& operator=(const Features&) = delete;
};

DeviceInfo describe(VkPhysicalDevice physical, int index) {
  DeviceInfo info;
  info.index = index;
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroup{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  vkGetPhysicalDeviceProperties(physical, &p.properties);
  const uint32_t version = version_of(p.properties);
  VkPhysicalDeviceShaderIntegerDotProductProperties dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  const Extensions extensions(physical);
  p.pNext = &subgroup;
  if (version >= VK_API_VERSION_1_2) subgroup.pNext = &driver;
  if (version >= VK_API_VERSION_1_3 || extensions.has(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) {
    dot.pNext = subgroup.pNext;
    subgroup.pNext = &dot;
  }
  vkGetPhysicalDeviceProperties2(physical, &p);
  info.name = p.properties.deviceName;
  info.type = type_name(p.properties.deviceType);
  info.api_version = version_text(version);
  info.driver = driver.driverInfo[0] ? Cat(driver.driverName, " ", driver.driverInfo) : Cat(p.properties.driverVersion);
  info.vendor_id = p.properties.vendorID;
  info.device_id = p.properties.deviceID;
  info.subgroup_size = subgroup.subgroupSize;
  info.subgroup_shuffle = (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) &&
                          (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT);
  Features f(version, extensions);
  vkGetPhysicalDeviceFeatures2(physical, &f.core);
  info.int64 = !core_only() && f.core.features.shaderInt64;
  info.float64 = !core_only() && f.core.features.shaderFloat64;
  info.storage16 = f.storage16.storageBuffer16BitAccess;
  info.storage8 = f.storage8.storageBuffer8BitAccess;
  info.fp16 = f.small.shaderFloat16 && info.storage16;
  info.int8 = f.small.shaderInt8 && info.storage8;
  info.timeline_semaphores = f.timeline.timelineSemaphore;
  info.int8_dot_product = f.dot.shaderIntegerDotProduct;
  info.fast_int8_dot_product = dot.integerDotProduct4x8BitPackedSignedAccelerated;
  constexpr uint32_t kMatricesBytes = 28 << 10;  // of cooperative_matrix.comp, in shared memory
  const VkPhysicalDeviceLimits& limits = p.properties.limits;
  if (f.matrices.cooperativeMatrix && f.memory_model.vulkanMemoryModel &&
      limits.maxComputeSharedMemorySize >= kMatricesBytes &&
      std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]) >= 4 * info.subgroup_size) {
    const CooperativeMatrixSizes sizes = cooperative_matrix_sizes(instance().handle, physical);
    if (info.fp16) info.half_matrices = sizes.float16;
    if (info.int8) info.int8_matrices = sizes.bytes;
  }
  info.push_descriptors = extensions.has(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  constexpr VkMemoryPropertyFlags kShared = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                            VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryType& t = memory.memoryTypes[i];
    if (!(t.propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)) continue;
    info.memory_bytes = std::max(info.memory_bytes, memory.memoryHeaps[t.heapIndex].size);
    if ((t.propertyFlags & kShared) == kShared && p.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU)
      info.unified_memory = true;
  }
  // Tests run the way with staging copies on machines whose memory is shared.
  if (const char* e = std::getenv("SMELT_VULKAN_STAGING"); e && *e == '1') info.unified_memory = false;
  return info;
}

std::optional<uint32_t> compute_family(VkPhysicalDevice physical) {
  uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families.data());
  for (const VkQueueFlags avoid : {VkQueueFlags{VK_QUEUE_GRAPHICS_BIT}, VkQueueFlags{0}})
    for (uint32_t i = 0; i < n; ++i)
      if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) && !(families[i].queueFlags & avoid)) return i;
  return std::nullopt;
}

Result<std::vector<VkPhysicalDevice>> physical_devices() {
  SMELT_TRY(instance().status);
  uint32_t n = 0;
  SMELT_TRY(check(vkEnumeratePhysicalDevices(instance().handle, &n, nullptr), "vkEnumeratePhysicalDevices"));
  std::vector<VkPhysicalDevice> all(n), usable;
  SMELT_TRY(check(vkEnumeratePhysicalDevices(instance().handle, &n, all.data()), "vkEnumeratePhysicalDevices"));
  for (VkPhysicalDevice d : all) {
    VkPhysicalDeviceProperties p;
    vkGetPhysicalDeviceProperties(d, &p);
    if (p.apiVersion >= VK_API_VERSION_1_1 && compute_family(d)) usable.push_back(d);
  }
  if (usable.empty())
    return Error(ErrorCode::kDevice, "this machine has no Vulkan 1.1 device (no driver is installed)");
  return usable;
}

int rank(const DeviceInfo& info) {
  if (info.type == "discrete GPU") return 0;
  if (info.type == "integrated GPU") return 1;
  return info.type == "CPU" ? 3 : 2;
}

}  // namespace

Result<std::vector<DeviceInfo>> devices() {
  SMELT_ASSIGN(const auto physical, physical_devices());
  std::vector<DeviceInfo> out;
  for (size_t i = 0; i < physical.size(); ++i) out.push_back(describe(physical[i], static_cast<int>(i)));
  return out;
}

namespace {
/// The devices that are in use, by index.
struct Opened {
  std::mutex mutex;
  std::map<int, std::weak_ptr<Device>> devices;
};
Opened& opened() {
  static Opened one;
  return one;
}
}  // namespace

void Device::settle() {
  const std::lock_guard lock(opened().mutex);
  for (const auto& [index, device] : opened().devices)
    if (const auto known = device.lock()) known->pipelines().settle();
}

Result<std::shared_ptr<Device>> Device::open(int index) {
  const std::lock_guard lock(opened().mutex);
  SMELT_ASSIGN(const auto physical, physical_devices());
  SMELT_ASSIGN(const auto infos, devices());
  if (index < 0) {
    index = 0;
    for (const DeviceInfo& d : infos)
      if (rank(d) < rank(infos[static_cast<size_t>(index)])) index = d.index;
  }
  if (static_cast<size_t>(index) >= infos.size())
    return Error(ErrorCode::kDevice, Cat("there is no Vulkan device ", index, "; this machine has ", infos.size()));
  std::weak_ptr<Device>& entry = opened().devices[index];
  if (auto known = entry.lock(); known && !known->lost()) return known;
  std::shared_ptr<Device> device(new Device);
  SMELT_TRY(device->create(physical[static_cast<size_t>(index)], infos[static_cast<size_t>(index)]));
  entry = device;
  return device;
}

Result<std::shared_ptr<Device>> open_device(int index) { return Device::open(index); }
size_t memory_held(const Device& device) { return device.heap().held(); }
const DeviceInfo& device_info(const Device& device) { return device.info(); }

Device::Device() = default;

Status Device::create(VkPhysicalDevice physical, const DeviceInfo& info) {
  physical_ = physical;
  info_ = info;
  unified_ = info.unified_memory;
  vkGetPhysicalDeviceProperties(physical, &properties_);
  // Tests bind little.
  if (const char* e = std::getenv("SMELT_VULKAN_BINDING"))
    if (const auto bytes = static_cast<uint32_t>(std::strtoul(e, nullptr, 10)); bytes > 0)
      properties_.limits.maxStorageBufferRange = std::min(properties_.limits.maxStorageBufferRange, bytes);
  vkGetPhysicalDeviceMemoryProperties(physical, &memory_);
  family_ = *compute_family(physical);
  const Extensions extensions(physical);
  Features has(version_of(properties_), extensions), use(version_of(properties_), extensions);
  vkGetPhysicalDeviceFeatures2(physical, &has.core);
  use.core.features.shaderInt64 = info.int64;
  use.core.features.shaderFloat64 = info.float64;
  use.core.features.shaderInt16 = has.core.features.shaderInt16;
  // One shader writes float32 and float16 images.
  textures_ = has.core.features.shaderStorageImageWriteWithoutFormat;
  use.core.features.shaderStorageImageWriteWithoutFormat = textures_;
  use.storage16.storageBuffer16BitAccess = has.storage16.storageBuffer16BitAccess;
  use.storage8.storageBuffer8BitAccess = has.storage8.storageBuffer8BitAccess;
  use.small.shaderFloat16 = has.small.shaderFloat16;
  use.small.shaderInt8 = has.small.shaderInt8;
  use.timeline.timelineSemaphore = info.timeline_semaphores;
  use.dot.shaderIntegerDotProduct = has.dot.shaderIntegerDotProduct;
  use.matrices.cooperativeMatrix = use.memory_model.vulkanMemoryModel = info.half_matrices || info.int8_matrices;
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo create{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  create.pNext = &use.core;
  if (info.push_descriptors) use.extensions.push_back(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
  create.enabledExtensionCount = static_cast<uint32_t>(use.extensions.size());
  create.ppEnabledExtensionNames = use.extensions.data();
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  SMELT_TRY(check(vkCreateDevice(physical, &create, nullptr, &device_), "vkCreateDevice"));
  SMELT_ASSIGN(queue_, Queue::make(device_, family_, info.timeline_semaphores));
  heap_ = std::make_unique<Heap>(device_);
  pipelines_ = std::make_unique<Pipelines>(device_, properties_, info.push_descriptors);
  textures_ = textures_ && images_share_memory();
  return Ok();
}

bool Device::images_share_memory() const {
  constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkImageCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
  info.imageType = VK_IMAGE_TYPE_3D;
  info.format = VK_FORMAT_R32G32B32A32_SFLOAT;
  info.extent = {8, 8, 8};
  info.mipLevels = info.arrayLayers = 1;
  info.samples = VK_SAMPLE_COUNT_1_BIT;
  info.usage = VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_STORAGE_BIT;
  VkImage image = VK_NULL_HANDLE;
  if (vkCreateImage(device_, &info, nullptr, &image) != VK_SUCCESS) return false;
  VkMemoryRequirements need;
  vkGetImageMemoryRequirements(device_, image, &need);
  vkDestroyImage(device_, image, nullptr);
  return memory_type(need.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | (unified_ ? kMapped : 0), 0) >= 0;
}

Device::~Device() {
  if (!device_) return;
  // What the device still works on must not be taken from under it: all goes with the process.
  if (queue_ && hangs()) {
    static_cast<void>(heap_.release());
    pipelines_->abandon();
    return;
  }
  vkDeviceWaitIdle(device_);
  if (pipelines_) pipelines_->save();
  pipelines_.reset();
  heap_.reset();
  queue_.reset();
  vkDestroyDevice(device_, nullptr);
}

bool Device::stores(DType dtype) const {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
    case DType::kF64:
      return true;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return info_.storage16;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return info_.storage8 && info_.int8;
    default:
      return false;
  }
}

int Device::memory_type(uint32_t type_bits, VkMemoryPropertyFlags required, VkMemoryPropertyFlags wanted) const {
  for (const VkMemoryPropertyFlags flags : {required | wanted, required})
    for (uint32_t i = 0; i < memory_.memoryTypeCount; ++i)
      if ((type_bits >> i & 1) && (memory_.memoryTypes[i].propertyFlags & flags) == flags) return static_cast<int>(i);
  return -1;
}

}  // namespace smelt::vulkan
