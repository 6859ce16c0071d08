#include "cli/page_text.h"

#include <zlib.h>

#include <new>

std::string smelt::cli::unpacked_text(std::span<const uint8_t> packed, size_t size) {
  std::string out(size, '\0');
  uLongf bytes = size;
  if (uncompress(reinterpret_cast<Bytef*>(out.data()), &bytes, packed.data(), packed.size()) != Z_OK)
    throw std::bad_alloc();
  return out;
}
