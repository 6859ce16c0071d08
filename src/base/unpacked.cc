#include "base/unpacked.h"

#include <zlib.h>

#include <new>

namespace smelt {

std::string unpacked(std::span<const uint8_t> packed, size_t size) {
  std::string out(size, '\0');
  uLongf bytes = size;
  if (uncompress(reinterpret_cast<Bytef*>(out.data()), &bytes, packed.data(), packed.size()) != Z_OK)
    throw std::bad_alloc();
  return out;
}

}  // namespace smelt
