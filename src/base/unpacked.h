#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace smelt {

/// `size` bytes that zlib packed. They are this program's own, put there by its build, and taken as valid.
std::string unpacked(std::span<const uint8_t> packed, size_t size);

}  // namespace smelt
