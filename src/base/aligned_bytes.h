#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace smelt {

/// Flatbuffers are read where they lie: they start at a multiple of this.
inline constexpr size_t kFlatbufferAlignment = 16;

/// Leaves `bytes` that start at a multiple of kFlatbufferAlignment; others are copied to such an address, and `owner`
/// then keeps the copy besides what it kept.
inline void align_flatbuffer(std::span<const std::byte>& bytes, std::shared_ptr<const void>& owner) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kFlatbufferAlignment == 0) return;
  struct alignas(kFlatbufferAlignment) Unit {
    std::byte bytes[kFlatbufferAlignment];
  };
  std::shared_ptr<Unit[]> copy(new Unit[bytes.size() / sizeof(Unit) + 1]);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  bytes = {copy[0].bytes, bytes.size()};
  owner = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(std::move(copy),
                                                                                                std::move(owner));
}

/// Whether a flatbuffer's vector is absent, empty, or has its elements at multiples of their size, which verifying it
/// does not look at.
template <class Vector>
bool elements_aligned(const Vector* v) {
  return !v || v->size() == 0 || reinterpret_cast<uintptr_t>(v->Data()) % sizeof(*v->begin()) == 0;
}

}  // namespace smelt
