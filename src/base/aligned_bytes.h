#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace smelt {

/// Address alignment of flatbuffers, which are read in place.
inline constexpr size_t kFlatbufferAlignment = 16;

/// Makes `bytes` start at a multiple of kFlatbufferAlignment: copies them if they don't. `owner` then keeps the copy
/// alive as well.
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

/// True if a flatbuffer's vector is absent, empty, or aligned to the size of its elements. The flatbuffers verifier
/// does not check this.
template <class Vector>
bool elements_aligned(const Vector* v) {
  return !v || v->size() == 0 || reinterpret_cast<uintptr_t>(v->Data()) % sizeof(*v->begin()) == 0;
}

}  // namespace smelt
