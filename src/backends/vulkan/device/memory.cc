#include "backends/vulkan/device/memory.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "backends/vulkan/device/alignment.h"
#include "base/checked.h"

namespace smelt::vulkan {
namespace {
constexpr size_t kBlock = size_t{1} << 20;
}  // namespace

Heap::~Heap() {
  for (const auto& b : blocks_) vkFreeMemory(device_, b->memory, nullptr);
}

Result<Heap::Block*> Heap::add_block(size_t bytes, uint32_t type, bool maps) {
  auto block = std::make_unique<Block>();
  block->bytes = std::max(bytes, kBlock);
  block->type = type;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.allocationSize = block->bytes;
  info.memoryTypeIndex = type;
  SMELT_TRY(check(vkAllocateMemory(device_, &info, nullptr, &block->memory), "vkAllocateMemory"));
  if (maps) {
    void* p = nullptr;
    if (auto s = check(vkMapMemory(device_, block->memory, 0, VK_WHOLE_SIZE, 0, &p), "vkMapMemory"); !s.ok()) {
      vkFreeMemory(device_, block->memory, nullptr);
      return s.error();
    }
    block->mapped = static_cast<char*>(p);
  }
  block->free[0] = block->bytes;
  blocks_.push_back(std::move(block));
  return blocks_.back().get();
}

Result<Heap::Chunk> Heap::take(const VkMemoryRequirements& need, uint32_t type, bool maps) {
  const std::lock_guard lock(mutex_);
  const size_t align = std::max<size_t>(need.alignment, kBindingAlignment);
  const auto cut = [&](Block& b) -> std::optional<Chunk> {
    for (auto it = b.free.begin(); it != b.free.end(); ++it) {
      const size_t start = round_up(it->first, align), end = it->first + it->second;
      if (start + need.size > end) continue;
      const size_t before = start - it->first, from = it->first;
      b.free.erase(it);
      if (before > 0) b.free[from] = before;
      if (start + need.size < end) b.free[start + need.size] = end - start - need.size;
      b.used += need.size;
      return Chunk{&b, start, need.size};
    }
    return std::nullopt;
  };
  for (const auto& b : blocks_)
    if (b->type == type && (b->mapped != nullptr) == maps)
      if (auto chunk = cut(*b)) return *chunk;
  SMELT_ASSIGN(Block * fresh, add_block(need.size, type, maps));
  return *cut(*fresh);
}

size_t Heap::held() {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& b : blocks_) bytes += b->bytes;
  return bytes;
}

void Heap::give(const Chunk& chunk) {
  const std::lock_guard lock(mutex_);
  Block& b = *chunk.block;
  b.used -= chunk.bytes;
  if (b.used == 0) {
    vkFreeMemory(device_, b.memory, nullptr);
    std::erase_if(blocks_, [&](const auto& p) { return p.get() == &b; });
    return;
  }
  auto at = b.free.emplace(chunk.offset, chunk.bytes).first;
  if (auto next = std::next(at); next != b.free.end() && at->first + at->second == next->first) {
    at->second += next->second;
    b.free.erase(next);
  }
  if (at == b.free.begin()) return;
  if (auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    b.free.erase(at);
  }
}

Result<std::unique_ptr<Buffer>> Buffer::make(std::shared_ptr<Device> device, size_t bytes, Use use,
                                             const ImageWorkspace& images) {
  std::unique_ptr<Buffer> b(new Buffer(std::move(device)));
  Device& d = *b->device_;
  b->bytes_ = align_binding(std::max<size_t>(bytes, 1));
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = b->bytes_;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (use == Use::kDevice) info.usage |= VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  SMELT_TRY(check(vkCreateBuffer(d.handle(), &info, nullptr, &b->buffer_), "vkCreateBuffer"));
  VkMemoryRequirements need;
  vkGetBufferMemoryRequirements(d.handle(), b->buffer_, &need);
  constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const bool maps = use == Use::kStaging || d.unified();
  VkMemoryPropertyFlags required = 0, wanted = 0;
  if (maps) {
    required = kMapped;
    wanted = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  }
  if (use == Use::kDevice) required |= VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  if (images.alignment > 0) {
    need.alignment = std::max<VkDeviceSize>(need.alignment, images.alignment);
    need.size = round_up(need.size, images.alignment);
  }
  const int type = d.memory_type(need.memoryTypeBits & images.types, required, wanted);
  if (type < 0) return Error(ErrorCode::kDevice, "the Vulkan device has no memory of the kind that is needed");
  auto chunk = d.heap().take(need, static_cast<uint32_t>(type), maps);
  if (!chunk.ok()) return chunk.error().within(Cat(bytes, " bytes of device memory"));
  b->chunk_ = *chunk;
  b->mapped_ = chunk->mapped();
  SMELT_TRY(
      check(vkBindBufferMemory(d.handle(), b->buffer_, chunk->block->memory, chunk->offset), "vkBindBufferMemory"));
  return b;
}

Buffer::~Buffer() {
  // Work that hangs may still use it: it goes with the process.
  if (device_->hangs()) return;
  vkDestroyBuffer(device_->handle(), buffer_, nullptr);
  if (chunk_.block) device_->heap().give(chunk_);
}

namespace {

VkFormat format_of(const ImageLayout& l) {
  return l.dtype == DType::kF16 || l.form.float16 ? VK_FORMAT_R16G16B16A16_SFLOAT : VK_FORMAT_R32G32B32A32_SFLOAT;
}

}  // namespace

Result<std::unique_ptr<Image>> Image::make(std::shared_ptr<Device> device, const ImageLayout& layout) {
  std::unique_ptr<Image> image(new Image(std::move(device), layout));
  VkDevice d = image->device_->handle();
  const bool flat = layout.form.storage == Storage::kTexture2D;
  const auto extents = layout.extents();
  VkImageCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
  info.imageType = flat ? VK_IMAGE_TYPE_2D : VK_IMAGE_TYPE_3D;
  info.format = format_of(layout);
  info.extent = {extents[0], extents[1], extents[2]};
  info.mipLevels = info.arrayLayers = 1;
  info.samples = VK_SAMPLE_COUNT_1_BIT;
  info.tiling = VK_IMAGE_TILING_OPTIMAL;
  info.usage = VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_STORAGE_BIT;
  info.initialLayout = VK_IMAGE_LAYOUT_UNDEFINED;
  SMELT_TRY(check(vkCreateImage(d, &info, nullptr, &image->binding_.image), "vkCreateImage"));
  vkGetImageMemoryRequirements(d, image->binding_.image, &image->need_);
  return image;
}

void Image::join(ImageWorkspace& workspace) const {
  workspace.types &= need_.memoryTypeBits;
  workspace.alignment = std::max(workspace.alignment, alignment());
}

/// Images and buffers never share a page.
size_t Image::alignment() const {
  return std::max<size_t>({need_.alignment, device_->limits().bufferImageGranularity, kBindingAlignment});
}

Status Image::place(const Buffer& memory, size_t offset) {
  VkDevice d = device_->handle();
  binding_.buffer = memory.handle();
  binding_.offset = offset;
  binding_.bytes = need_.size;
  SMELT_TRY(check(vkBindImageMemory(d, binding_.image, memory.chunk().block->memory, memory.chunk().offset + offset),
                  "vkBindImageMemory"));
  VkImageViewCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
  info.image = binding_.image;
  info.viewType = layout_.form.storage == Storage::kTexture2D ? VK_IMAGE_VIEW_TYPE_2D : VK_IMAGE_VIEW_TYPE_3D;
  info.format = format_of(layout_);
  info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
  return check(vkCreateImageView(d, &info, nullptr, &binding_.view), "vkCreateImageView");
}

Image::~Image() {
  if (device_->hangs()) return;
  vkDestroyImageView(device_->handle(), binding_.view, nullptr);
  vkDestroyImage(device_->handle(), binding_.image, nullptr);
}

}  // namespace smelt::vulkan
