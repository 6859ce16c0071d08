#include "backends/vulkan/device/pipelines.h"

#include <new>
#include <system_error>

#include "backends/vulkan/device/cache_file.h"
#include "backends/vulkan/device/cooperative_matrix.h"

namespace smelt::vulkan {

VkDescriptorType descriptor_type(char kind) {
  if (kind == 'b') return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  return kind == 'r' ? VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE : VK_DESCRIPTOR_TYPE_STORAGE_IMAGE;
}

Pipelines::Pipelines(VkDevice device, const VkPhysicalDeviceProperties& properties, bool push_descriptors)
    : device_(device), push_descriptors_(push_descriptors), path_(cache_file(properties)) {
  const std::vector<char> bytes = path_.empty() ? std::vector<char>() : read_cache_file(path_, properties);
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = bytes.size();
  info.pInitialData = bytes.data();
  if (vkCreatePipelineCache(device_, &info, nullptr, &cache_) == VK_SUCCESS || bytes.empty()) return;
  info.initialDataSize = 0;
  if (vkCreatePipelineCache(device_, &info, nullptr, &cache_) != VK_SUCCESS) cache_ = VK_NULL_HANDLE;
}

Pipelines::~Pipelines() {
  end_threads();
  if (!device_) return;
  for (const auto& [key, entry] : entries_) vkDestroyPipeline(device_, entry.handle, nullptr);
  for (const auto& [n, l] : layouts_) {
    vkDestroyPipelineLayout(device_, l.pipeline, nullptr);
    vkDestroyDescriptorSetLayout(device_, l.set, nullptr);
  }
  vkDestroyPipelineCache(device_, cache_, nullptr);
}

std::set<std::string> Pipelines::shaders() {
  const std::lock_guard lock(mutex_);
  std::set<std::string> names;
  for (const auto& [key, entry] : entries_) names.insert(key.first->name);
  return names;
}

void Pipelines::abandon() {
  end_threads();
  device_ = VK_NULL_HANDLE;
}

void Pipelines::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  asked_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

Result<Pipelines::Layout> Pipelines::layout(const std::string& kinds) {
  Layout& l = layouts_[kinds];
  if (!l.set) {
    std::vector<VkDescriptorSetLayoutBinding> list(kinds.size());
    for (uint32_t i = 0; i < list.size(); ++i)
      list[i] = {i, descriptor_type(kinds[i]), 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    if (push_descriptors_) info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR;
    info.bindingCount = static_cast<uint32_t>(list.size());
    info.pBindings = list.data();
    SMELT_TRY(check(vkCreateDescriptorSetLayout(device_, &info, nullptr, &l.set), "vkCreateDescriptorSetLayout"));
  }
  if (!l.pipeline) {
    const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
    VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    info.setLayoutCount = 1;
    info.pSetLayouts = &l.set;
    info.pushConstantRangeCount = 1;
    info.pPushConstantRanges = &push;
    SMELT_TRY(check(vkCreatePipelineLayout(device_, &info, nullptr, &l.pipeline), "vkCreatePipelineLayout"));
  }
  return l;
}

VkResult Pipelines::create(const Key& key, VkPipelineLayout layout, VkPipeline* out) const {
  const auto& [shader, constants] = key;
  VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  const auto code = shader->words();
  const std::vector<uint32_t> khr = to_khr_cooperative_matrix(code);
  module_info.codeSize = khr.empty() ? code.size_bytes() : khr.size() * sizeof(uint32_t);
  module_info.pCode = khr.empty() ? code.data() : khr.data();
  VkShaderModule module = VK_NULL_HANDLE;
  if (const VkResult r = vkCreateShaderModule(device_, &module_info, nullptr, &module); r != VK_SUCCESS) return r;
  std::vector<VkSpecializationMapEntry> entries(constants.size());
  for (uint32_t i = 0; i < entries.size(); ++i) entries[i] = {i, i * 4, 4};
  const VkSpecializationInfo special{static_cast<uint32_t>(entries.size()), entries.data(), constants.size() * 4,
                                     constants.data()};
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &special;
  info.layout = layout;
  const VkResult result = vkCreateComputePipelines(device_, cache_, 1, &info, nullptr, out);
  vkDestroyShaderModule(device_, module, nullptr);
  return result;
}

void Pipelines::make(std::unique_lock<std::mutex>& lock, const Key& key, Entry& entry) {
  entry.state = Entry::State::kBegun;
  ++making_;
  VkPipeline handle = VK_NULL_HANDLE;
  VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
  try {
    const auto l = layout(key.first->kinds);
    lock.unlock();
    if (l.ok()) result = create(key, l->pipeline, &handle);
  } catch (const std::bad_alloc&) {
    // As the result says: others wait for it.
  }
  if (!lock.owns_lock()) lock.lock();
  entry.handle = handle;
  entry.result = result;
  entry.state = Entry::State::kMade;
  --making_;
  grew_ = grew_ || result == VK_SUCCESS;
  made_.notify_all();
}

bool Pipelines::make_next(std::unique_lock<std::mutex>& lock) {
  while (!queue_.empty()) {
    const Key& key = queue_.front()->first;
    queue_.pop_front();
    Entry& entry = entries_.find(key)->second;
    if (entry.state != Entry::State::kAsked) continue;
    make(lock, key, entry);
    return true;
  }
  return false;
}

void Pipelines::work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (make_next(lock)) continue;
    ++idle_;
    asked_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    --idle_;
  }
}

void Pipelines::request(const Shader& shader, std::span<const uint32_t> constants, int threads) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = entries_.try_emplace(Key{&shader, {constants.begin(), constants.end()}});
  if (!is_new) return;
  queue_.push_back(&*at);
  if (queue_.size() > idle_ && threads_.size() < static_cast<size_t>(threads)) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // No more threads: get() makes what is left.
    }
  }
  asked_.notify_one();
}

Result<Pipeline> Pipelines::get(const Shader& shader, std::span<const uint32_t> constants) {
  std::unique_lock lock(mutex_);
  SMELT_ASSIGN(const Layout l, layout(shader.kinds));
  const auto at = entries_.try_emplace(Key{&shader, {constants.begin(), constants.end()}}).first;
  Entry& entry = at->second;
  const bool here = entry.state == Entry::State::kAsked;
  if (here) make(lock, at->first, entry);
  // A thread is at it: meanwhile others are made here.
  while (entry.state != Entry::State::kMade)
    if (!make_next(lock)) made_.wait(lock);
  // What failed before is tried again: memory may have come back.
  if (!here && entry.result != VK_SUCCESS) make(lock, at->first, entry);
  if (auto s = check(entry.result, "vkCreateComputePipelines"); !s.ok()) return s.error().within(shader.name);
  return Pipeline{entry.handle, l.pipeline, l.set};
}

void Pipelines::settle() {
  std::unique_lock lock(mutex_);
  while (make_next(lock)) {
  }
  made_.wait(lock, [&] { return making_ == 0; });
}

void Pipelines::save() {
  const std::lock_guard lock(mutex_);
  if (!grew_ || !cache_ || path_.empty()) return;
  grew_ = false;
  size_t size = 0;
  if (vkGetPipelineCacheData(device_, cache_, &size, nullptr) != VK_SUCCESS || size == 0) return;
  std::vector<char> bytes(size);
  if (vkGetPipelineCacheData(device_, cache_, &size, bytes.data()) != VK_SUCCESS) return;
  write_cache_file(path_, {bytes.data(), size});
}

}  // namespace smelt::vulkan
