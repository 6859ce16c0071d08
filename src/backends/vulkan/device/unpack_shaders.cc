#include "backends/vulkan/device/unpack_shaders.h"

#include <new>
#include <numeric>

#include "backends/vulkan/device/relative_ids.h"

namespace smelt::vulkan {
namespace {

/// Words of which byte i is in plane i.
class Planes {
 public:
  Planes(const uint8_t* begin, size_t words) : at_(begin), words_(words) {}
  uint32_t next() {
    uint32_t word = 0;
    for (size_t plane = 0; plane < sizeof word; ++plane) word |= uint32_t{at_[plane * words_]} << 8 * plane;
    ++at_;
    return word;
  }

 private:
  const uint8_t* at_;
  size_t words_;
};

}  // namespace

std::vector<uint32_t> unpack_shaders(const uint32_t* file, const uint32_t* end) {
  const std::span<const uint32_t> sizes = module_sizes(file);
  const uint32_t* const totals = sizes.data() + sizes.size();
  const size_t words = std::accumulate(sizes.begin(), sizes.end(), size_t{0}), heads = totals[0];
  std::vector<uint8_t> planes(words * sizeof(uint32_t));
  const auto* packed = reinterpret_cast<const uint8_t*>(totals + 1);
  const auto size = static_cast<size_t>(reinterpret_cast<const uint8_t*>(end) - packed);
  PackingSettings settings;
  size_t read = 0, written = 0;
  if (lzma_raw_buffer_decode(settings.filters, nullptr, packed, &read, size, planes.data(), &written, planes.size()) !=
      LZMA_OK)
    throw std::bad_alloc();
  Planes head(planes.data(), heads), other(planes.data() + heads * sizeof(uint32_t), words - heads);
  std::vector<uint32_t> out;
  out.reserve(words);
  for (const uint32_t size : sizes) {
    const size_t begin = out.size();
    for (uint32_t i = 0; i < kSpirvHeaderWords; ++i) out.push_back(other.next());
    RelativeIds ids(out[begin + kSpirvIdBound]);
    while (out.size() < begin + size) {
      const uint32_t first = out.emplace_back(head.next());
      ids.begin(first);
      for (uint32_t i = 1; i < instruction_words(first); ++i) out.push_back(ids.absolute(other.next()));
    }
  }
  return out;
}

}  // namespace smelt::vulkan
