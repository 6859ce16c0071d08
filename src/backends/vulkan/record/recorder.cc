#include "backends/vulkan/record/recorder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

namespace smelt::vulkan {
namespace {
bool overlap(const Binding& a, const Binding& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool any_overlap(const Binding& a, std::span<const Binding> list) {
  return std::ranges::any_of(list, [&](const Binding& b) { return overlap(a, b); });
}
}  // namespace

Recorder::~Recorder() {
  if (device_->hangs()) return;
  vkDestroyDescriptorPool(device_->handle(), descriptor_pool_, nullptr);
  vkDestroyQueryPool(device_->handle(), queries_, nullptr);
  vkDestroyCommandPool(device_->handle(), pool_, nullptr);
}

/// The command buffer, begun, and what it refers to.
Status Recorder::make_objects() {
  VkDevice d = device_->handle();
  VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  info.queueFamilyIndex = device_->queue_family();
  SMELT_TRY(check(vkCreateCommandPool(d, &info, nullptr, &pool_), "vkCreateCommandPool"));
  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  SMELT_TRY(check(vkAllocateCommandBuffers(d, &allocate, &commands_), "vkAllocateCommandBuffers"));
  if (!device_->info().push_descriptors) SMELT_TRY(make_descriptor_pool());
  const auto marks = static_cast<uint32_t>(
      std::count_if(work_.begin(), work_.end(), [](const Work& w) { return w.kind == Work::Kind::kMark; }));
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  SMELT_TRY(check(vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer"));
  if (marks > 0) {
    VkQueryPoolCreateInfo q{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    q.queryType = VK_QUERY_TYPE_TIMESTAMP;
    q.queryCount = marks;
    SMELT_TRY(check(vkCreateQueryPool(d, &q, nullptr, &queries_), "vkCreateQueryPool"));
    vkCmdResetQueryPool(commands_, queries_, 0, marks);
  }
  return Ok();
}

Status Recorder::make_descriptor_pool() {
  uint32_t sets = 0;
  std::map<char, uint32_t> kinds;
  for (const Work& w : work_) {
    if (w.kind != Work::Kind::kDispatch) continue;
    ++sets;
    for (const char* kind = w.shader->kinds; *kind; ++kind) ++kinds[*kind];
  }
  if (sets == 0) return Ok();
  std::vector<VkDescriptorPoolSize> sizes;
  for (const auto& [kind, count] : kinds) sizes.push_back({descriptor_type(kind), count});
  VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool.maxSets = sets;
  pool.poolSizeCount = static_cast<uint32_t>(sizes.size());
  pool.pPoolSizes = sizes.data();
  return check(vkCreateDescriptorPool(device_->handle(), &pool, nullptr, &descriptor_pool_), "vkCreateDescriptorPool");
}

void Recorder::order(std::span<const Binding> touched, VkPipelineStageFlags stage) {
  const bool conflict = std::ranges::any_of(
      touched, [&](const Binding& b) { return any_overlap(b, writes_) || (b.written && any_overlap(b, reads_)); });
  if (conflict) barrier({});
  for (const Binding& b : touched) (b.written ? writes_ : reads_).push_back(b);
  stages_ |= stage;
}

Status Recorder::bind(const Pipeline& pipeline, const char* kinds, std::span<const Binding> bindings) {
  constexpr VkPipelineBindPoint kCompute = VK_PIPELINE_BIND_POINT_COMPUTE;
  VkDevice d = device_->handle();
  const bool pushed = device_->info().push_descriptors;
  VkDescriptorSet set = VK_NULL_HANDLE;
  if (!pushed) {
    VkDescriptorSetAllocateInfo allocate{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    allocate.descriptorPool = descriptor_pool_;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &pipeline.set_layout;
    SMELT_TRY(check(vkAllocateDescriptorSets(d, &allocate, &set), "vkAllocateDescriptorSets"));
  }
  const auto n = static_cast<uint32_t>(bindings.size());
  std::vector<VkDescriptorBufferInfo> buffers(n);
  std::vector<VkDescriptorImageInfo> images(n);
  std::vector<VkWriteDescriptorSet> writes(n);
  for (uint32_t i = 0; i < n; ++i) {
    writes[i] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes[i].dstSet = set;
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = descriptor_type(kinds[i]);
    if (bindings[i].view) {
      images[i] = {VK_NULL_HANDLE, bindings[i].view, VK_IMAGE_LAYOUT_GENERAL};
      writes[i].pImageInfo = &images[i];
    } else {
      // Elements below a word are read word by word at a tensor's end: the range is whole words.
      buffers[i] = {bindings[i].buffer, bindings[i].offset,
                    (std::max<VkDeviceSize>(bindings[i].bytes, 4) + 3) & ~VkDeviceSize{3}};
      writes[i].pBufferInfo = &buffers[i];
    }
  }
  if (pushed) {
    vkCmdPushDescriptorSetKHR(commands_, kCompute, pipeline.layout, 0, n, writes.data());
  } else {
    vkUpdateDescriptorSets(d, n, writes.data(), 0, nullptr);
    vkCmdBindDescriptorSets(commands_, kCompute, pipeline.layout, 0, 1, &set, 0, nullptr);
  }
  return Ok();
}

Status Recorder::dispatch(const Shader& shader, std::span<const uint32_t> constants, std::span<const Binding> bindings,
                          const Grid& grid, const void* push, size_t push_bytes) {
  const std::string_view kinds = shader.kinds;
  const bool fit = std::equal(kinds.begin(), kinds.end(), bindings.begin(), bindings.end(),
                              [](char kind, const Binding& b) { return (kind != 'b') == (b.view != VK_NULL_HANDLE); });
  if (!fit)
    return Internal("shader ", shader.name, " takes operands ", kinds, ", ", bindings.size(), " others are given");
  if (push_bytes != shader.push_bytes || constants.size() > shader.constants)
    return Internal("shader ", shader.name, " takes ", shader.push_bytes, " bytes of push constants and ",
                    shader.constants, " specialization constants, ", push_bytes, " and ", constants.size(),
                    " are given");
  const auto& most = device_->limits().maxComputeWorkGroupCount;
  if (grid.x > most[0] || grid.y > most[1] || grid.z > most[2])
    return Unsupported("too many workgroups for ", shader.name);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return Ok();
  device_->pipelines().request(shader, constants, threads_);
  Work& w = work_.emplace_back();
  w.kind = Work::Kind::kDispatch;
  w.shader = &shader;
  w.constants.assign(constants.begin(), constants.end());
  w.buffers.assign(bindings.begin(), bindings.end());
  w.push.resize(push_bytes / 4);
  std::memcpy(w.push.data(), push, push_bytes);
  w.x = grid.x;
  w.y = grid.y;
  w.z = grid.z;
  ++dispatches_;
  return Ok();
}

void Recorder::start(std::span<const Binding> images) {
  if (images.empty()) return;
  Work& w = work_.emplace_back();
  w.kind = Work::Kind::kStart;
  w.buffers.assign(images.begin(), images.end());
}

void Recorder::emit_start(std::span<const Binding> images) {
  std::vector<VkImageMemoryBarrier> changes(images.size(), {VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER});
  for (size_t i = 0; i < images.size(); ++i) {
    changes[i].srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    changes[i].dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    changes[i].oldLayout = VK_IMAGE_LAYOUT_UNDEFINED;
    changes[i].newLayout = VK_IMAGE_LAYOUT_GENERAL;
    changes[i].srcQueueFamilyIndex = changes[i].dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    changes[i].image = images[i].image;
    changes[i].subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
  }
  barrier(changes);
}

void Recorder::barrier(std::span<const VkImageMemoryBarrier> images) {
  // The lists start anew: whatever comes later, of either stage, is ordered after what they held. Memory that an image
  // takes over may have been used at any time before.
  constexpr VkPipelineStageFlags kStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  const VkPipelineStageFlags before = images.empty() ? stages_ : kStages;
  VkMemoryBarrier all{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  if (before & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) all.srcAccessMask |= VK_ACCESS_SHADER_WRITE_BIT;
  if (before & VK_PIPELINE_STAGE_TRANSFER_BIT) all.srcAccessMask |= VK_ACCESS_TRANSFER_WRITE_BIT;
  all.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                      VK_ACCESS_TRANSFER_WRITE_BIT;
  vkCmdPipelineBarrier(commands_, before, kStages, 0, 1, &all, 0, nullptr, static_cast<uint32_t>(images.size()),
                       images.data());
  reads_.clear();
  writes_.clear();
  stages_ = 0;
}

void Recorder::copy(const Binding& from, const Binding& to) {
  Work& w = work_.emplace_back();
  w.kind = Work::Kind::kCopy;
  w.buffers = {from, to};
  w.buffers[0].written = false;
  w.buffers[1].written = true;
}

void Recorder::fill(const Binding& to, uint32_t word) {
  Work& w = work_.emplace_back();
  w.kind = Work::Kind::kFill;
  w.buffers = {to};
  w.buffers[0].written = true;
  w.word = word;
}

Status Recorder::emit(const Work& w) {
  switch (w.kind) {
    case Work::Kind::kDispatch: {
      SMELT_ASSIGN(const Pipeline pipeline, device_->pipelines().get(*w.shader, w.constants));
      order(w.buffers, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
      if (bound_ != pipeline.handle) vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle);
      bound_ = pipeline.handle;
      SMELT_TRY(bind(pipeline, w.shader->kinds, w.buffers));
      vkCmdPushConstants(commands_, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                         static_cast<uint32_t>(w.push.size() * 4), w.push.data());
      vkCmdDispatch(commands_, w.x, w.y, w.z);
      break;
    }
    case Work::Kind::kStart:
      emit_start(w.buffers);
      break;
    case Work::Kind::kCopy: {
      const Binding &from = w.buffers[0], &to = w.buffers[1];
      order(w.buffers, VK_PIPELINE_STAGE_TRANSFER_BIT);
      const VkBufferCopy region{from.offset, to.offset, std::min(from.bytes, to.bytes)};
      if (region.size > 0) vkCmdCopyBuffer(commands_, from.buffer, to.buffer, 1, &region);
      break;
    }
    case Work::Kind::kFill: {
      const Binding& to = w.buffers[0];
      order(w.buffers, VK_PIPELINE_STAGE_TRANSFER_BIT);
      vkCmdFillBuffer(commands_, to.buffer, to.offset, (to.bytes + 3) & ~VkDeviceSize{3}, w.word);
      break;
    }
    case Work::Kind::kMark:
      vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, marks_++);
      break;
  }
  return Ok();
}

Status Recorder::end() {
  SMELT_TRY(make_objects());
  for (const Work& w : work_) SMELT_TRY(emit(w));
  work_ = {};
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                       VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
  return check(vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
}

Result<std::vector<double>> Recorder::intervals() const {
  std::vector<uint64_t> ticks(marks_);
  std::vector<double> out;
  if (marks_ == 0) return out;
  SMELT_TRY(check(vkGetQueryPoolResults(device_->handle(), queries_, 0, marks_, ticks.size() * 8, ticks.data(), 8,
                                        VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                  "vkGetQueryPoolResults"));
  const double period = device_->limits().timestampPeriod;
  for (size_t i = 0; i + 1 < ticks.size(); ++i) out.push_back(static_cast<double>(ticks[i + 1] - ticks[i]) * period);
  return out;
}

}  // namespace smelt::vulkan
