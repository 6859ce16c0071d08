#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace smelt {

/// The little-endian number at `offset`, at any alignment; the caller has checked that it lies within `bytes`.
template <class T>
T read_le(std::span<const std::byte> bytes, size_t offset) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace smelt
