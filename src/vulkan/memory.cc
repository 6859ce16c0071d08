#include "vulkan/memory.h"

#include <algorithm>

namespace smelt::vulkan {
namespace {
constexpr size_t kBlock = size_t{1} << 20;
size_t rounded(size_t bytes) { return (std::max<size_t>(bytes, 4) + kBindingAlignment - 1) & ~(kBindingAlignment - 1); }
}  // namespace

Result<std::unique_ptr<Buffer>> Buffer::make(std::shared_ptr<Device> device, size_t bytes, Use use) {
  std::unique_ptr<Buffer> b(new Buffer(std::move(device)));
  Device& d = *b->device_;
  b->bytes_ = rounded(bytes);
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
  const int type = d.memory_type(need.memoryTypeBits, required, wanted);
  if (type < 0) return Error(ErrorCode::kDevice, "the Vulkan device has no memory of the kind that is needed");
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.allocationSize = need.size;
  allocate.memoryTypeIndex = static_cast<uint32_t>(type);
  if (auto s = check(vkAllocateMemory(d.handle(), &allocate, nullptr, &b->memory_), "vkAllocateMemory"); !s.ok())
    return s.error().within(Cat(bytes, " bytes of device memory"));
  SMELT_TRY(check(vkBindBufferMemory(d.handle(), b->buffer_, b->memory_, 0), "vkBindBufferMemory"));
  if (maps) {
    void* p = nullptr;
    SMELT_TRY(check(vkMapMemory(d.handle(), b->memory_, 0, VK_WHOLE_SIZE, 0, &p), "vkMapMemory"));
    b->mapped_ = static_cast<char*>(p);
  }
  return b;
}

Buffer::~Buffer() {
  // Memory of a lost device may still be in use: it goes with the process.
  if (device_->lost()) return;
  vkDestroyBuffer(device_->handle(), buffer_, nullptr);
  vkFreeMemory(device_->handle(), memory_, nullptr);
}

Result<Pool::Piece> Pool::take(size_t bytes) {
  const size_t size = rounded(bytes);
  Buffer* block = open_;
  size_t offset = used_;
  if (size > kBlock / 4) {
    SMELT_ASSIGN(auto own, Buffer::make(device_, size, Buffer::Use::kDevice));
    block = own.get();
    offset = 0;
    held_ += own->bytes();
    blocks_.push_back(std::move(own));
  } else {
    if (!block || used_ + size > block->bytes()) {
      SMELT_ASSIGN(auto fresh, Buffer::make(device_, kBlock, Buffer::Use::kDevice));
      block = open_ = fresh.get();
      offset = 0;
      held_ += fresh->bytes();
      blocks_.push_back(std::move(fresh));
    }
    used_ = offset + size;
  }
  return Piece{block->slice(offset, bytes), block->mapped() ? block->mapped() + offset : nullptr};
}

}  // namespace smelt::vulkan
