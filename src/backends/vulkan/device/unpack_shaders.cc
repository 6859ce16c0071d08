#include "backends/vulkan/device/unpack_shaders.h"

#include <new>
#include <numeric>

#include "backends/vulkan/device/spirv_streams.h"

namespace smelt::vulkan {
namespace {

/// Words of which byte i is in plane i.
class Planes {
 public:
  Planes(const uint8_t* begin, size_t words) : begin_(begin), words_(words) {}
  uint32_t operator[](size_t i) const {
    uint32_t word = 0;
    for (size_t plane = 0; plane < sizeof word; ++plane) word |= uint32_t{begin_[plane * words_ + i]} << 8 * plane;
    return word;
  }

 private:
  const uint8_t* begin_;
  size_t words_;
};

}  // namespace

std::vector<uint32_t> unpack_shaders(const uint32_t* file, const uint32_t* end) {
  const std::span<const uint32_t> sizes = module_sizes(file);
  const uint32_t* const totals = sizes.data() + sizes.size();
  const size_t words = std::accumulate(sizes.begin(), sizes.end(), size_t{0}), instructions = totals[0];
  std::vector<uint8_t> planes(words * sizeof(uint32_t));
  const auto* packed = reinterpret_cast<const uint8_t*>(totals + 1);
  const auto size = static_cast<size_t>(reinterpret_cast<const uint8_t*>(end) - packed);
  PackingSettings settings;
  size_t read = 0, written = 0;
  if (lzma_raw_buffer_decode(settings.filters, nullptr, packed, &read, size, planes.data(), &written, planes.size()) !=
      LZMA_OK)
    throw std::bad_alloc();
  const Planes head(planes.data(), instructions);
  const Planes other(planes.data() + instructions * sizeof(uint32_t), words - instructions);
  std::vector<uint32_t> heads(instructions);
  for (size_t i = 0; i < instructions; ++i) heads[i] = head[i];
  SpirvStreams streams(heads, sizes.size());
  std::vector<uint32_t> out;
  out.reserve(words);
  size_t instruction = 0;
  for (const uint32_t size : sizes) {
    const size_t begin = out.size();
    for (uint32_t i = 0; i < kSpirvHeaderWords; ++i) out.push_back(other[streams.next(SpirvStreams::kHeaders)]);
    SpirvIds ids(out[begin + kSpirvIdBound], streams.count());
    for (; out.size() < begin + size; ++instruction) {
      const uint32_t first = out.emplace_back(heads[instruction]);
      ids.begin(first);
      for (uint32_t i = 1; i < instruction_words(first); ++i) {
        const size_t stream = streams.stream(instruction, i - 1);
        out.push_back(ids.decoded(other[streams.next(stream)], stream));
      }
    }
  }
  return out;
}

}  // namespace smelt::vulkan
