#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt {

/// FarmHash's 64-bit fingerprint of a byte string.
uint64_t fingerprint64(const void* data, size_t size);
/// MurmurHash3, the 32-bit variant.
uint32_t murmur3(const void* data, size_t size, uint32_t seed);

}  // namespace smelt
