#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/image_layout.h"

namespace smelt::vulkan {

/// A range of a buffer, or an image placed in a range of a buffer, as shaders and copies take it.
struct Binding {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize offset = 0, bytes = 0;
  bool written = false;  ///< the dispatch writes it
  VkImageView view = VK_NULL_HANDLE;
  VkImage image = VK_NULL_HANDLE;
};

/// A device's memory: blocks of at least a megabyte, cut into chunks that come and go. Thread-safe.
class Heap {
 public:
  struct Block {
    VkDeviceMemory memory = VK_NULL_HANDLE;
    size_t bytes = 0, used = 0;
    uint32_t type = 0;
    char* mapped = nullptr;
    std::map<size_t, size_t> free;  ///< offset -> bytes
  };
  struct Chunk {
    Block* block = nullptr;
    size_t offset = 0, bytes = 0;
    char* mapped() const { return block->mapped ? block->mapped + offset : nullptr; }
  };
  explicit Heap(VkDevice device) : device_(device) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  /// `maps`: memory of this type is mapped as long as it lives.
  Result<Chunk> take(const VkMemoryRequirements& need, uint32_t type, bool maps);
  void give(const Chunk& chunk);
  size_t held();  ///< bytes of all blocks

 private:
  Result<Block*> add_block(size_t bytes, uint32_t type, bool maps);
  VkDevice device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

/// What images require of the buffer whose memory they are placed in (Image::place()).
struct ImageWorkspace {
  uint32_t types = ~uint32_t{0};  ///< bits of memory types
  size_t alignment = 0;           ///< 0: there are none
};

/// One VkBuffer in a chunk of the device's memory.
class Buffer {
 public:
  enum class Use : uint8_t {
    kDevice,   ///< fast for shaders; mapped when the device's memory is unified
    kStaging,  ///< mapped, coherent, cached where possible: the host's side of copies
  };
  static Result<std::unique_ptr<Buffer>> make(std::shared_ptr<Device> device, size_t bytes, Use use,
                                              const ImageWorkspace& images = {});
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  VkBuffer handle() const { return buffer_; }
  size_t bytes() const { return bytes_; }
  char* mapped() const { return mapped_; }  ///< null if the host cannot map it
  Binding slice(size_t offset, size_t bytes) const {
    Binding b;
    b.buffer = buffer_;
    b.offset = offset;
    b.bytes = bytes;
    return b;
  }
  const Heap::Chunk& chunk() const { return chunk_; }

 private:
  explicit Buffer(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::shared_ptr<Device> device_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  Heap::Chunk chunk_;
  size_t bytes_ = 0;
  char* mapped_ = nullptr;
};

/// An image in a buffer's memory. Other values may use that memory before and after it.
class Image {
 public:
  /// An image without memory.
  static Result<std::unique_ptr<Image>> make(std::shared_ptr<Device> device, const ImageLayout& layout);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  /// Binds the image to memory at `offset`. Preconditions: `offset` is a multiple of alignment(), the buffer has
  /// bytes() from there on and was made for such images (ImageWorkspace).
  Status place(const Buffer& memory, size_t offset);
  const ImageLayout& layout() const { return layout_; }
  size_t bytes() const { return need_.size; }
  size_t alignment() const;
  /// Adds the requirements of this image to `workspace`.
  void join(ImageWorkspace& workspace) const;
  Binding binding() const { return binding_; }

 private:
  Image(std::shared_ptr<Device> device, const ImageLayout& layout) : device_(std::move(device)), layout_(layout) {}
  std::shared_ptr<Device> device_;
  ImageLayout layout_;
  VkMemoryRequirements need_{};
  Binding binding_;
};

}  // namespace smelt::vulkan
