#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt {

/// Takes arrays from memory, one behind the other, aligned to 16 bytes where the memory is. Without memory it gives
/// null, and counts the bytes.
class Arrays {
 public:
  explicit Arrays(std::byte* memory = nullptr) : memory_(memory) {}
  template <class T>
  T* take(int64_t n) {
    std::byte* const here = memory_ ? memory_ + bytes_ : nullptr;
    bytes_ += (static_cast<size_t>(n) * sizeof(T) + 15) / 16 * 16;
    return reinterpret_cast<T*>(here);
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  size_t bytes_ = 0;
};

}  // namespace smelt
