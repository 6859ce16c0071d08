#include "backends/vulkan/device/unpack_shaders.h"

#include <zlib.h>

#include <new>
#include <numeric>

#include "backends/vulkan/device/relative_ids.h"

namespace smelt::vulkan {
namespace {

size_t read_number(const uint8_t*& at) {
  size_t value = 0;
  for (int shift = 0;; shift += 7) {
    value |= size_t{*at & 127u} << shift;
    if (*at++ < 128) return value;
  }
}

/// The inverse of without_repeats().
std::vector<uint8_t> with_repeats(const std::vector<uint8_t>& stream, size_t bytes) {
  const uint8_t* at = stream.data();
  size_t sizes[3];
  for (size_t& size : sizes) size = read_number(at);
  const uint8_t *run = at, *length = run + sizes[0], *distance = length + sizes[1], *literal = distance + sizes[2];
  const uint8_t* const runs_end = length;
  std::vector<uint8_t> out;
  out.reserve(bytes);
  while (run != runs_end) {
    const size_t n = read_number(run);
    out.insert(out.end(), literal, literal + n);
    literal += n;
    const size_t begin = out.size() - read_number(distance), count = read_number(length) + kShortestRepeat;
    for (size_t i = 0; i < count; ++i) out.push_back(out[begin + i]);  // which may be bytes of this repeat
  }
  out.insert(out.end(), literal, stream.data() + stream.size());
  return out;
}

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
  std::vector<uint8_t> stream(totals[1]);
  const auto* compressed = reinterpret_cast<const Bytef*>(totals + 2);
  uLongf bytes = stream.size();
  if (uncompress(stream.data(), &bytes, compressed,
                 static_cast<uLong>(reinterpret_cast<const Bytef*>(end) - compressed)) != Z_OK)
    throw std::bad_alloc();
  const std::vector<uint8_t> planes = with_repeats(stream, words * sizeof(uint32_t));
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
