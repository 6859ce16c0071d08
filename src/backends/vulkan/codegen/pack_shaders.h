#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/vulkan/device/relative_ids.h"
#include "backends/vulkan/device/unpack_shaders.h"

/// Packs SPIR-V modules as device/unpack_shaders.h reads them.
namespace smelt::vulkan {

using SpirvModules = std::vector<std::vector<uint32_t>>;

inline void append_number(std::string& out, size_t value) {
  for (; value >= 128; value >>= 7) out.push_back(static_cast<char>(value | 128));
  out.push_back(static_cast<char>(value));
}

/// Bytes 0 of all words, bytes 1, 2 and 3.
inline void append_planes(std::string& out, const std::vector<uint32_t>& words) {
  for (int shift = 0; shift < 32; shift += 8)
    for (const uint32_t word : words) out.push_back(static_cast<char>(word >> shift & 0xff));
}

/// Finds bytes that occurred before, at any distance: zlib sees 32 kB only.
class EarlierBytes {
 public:
  struct Match {
    size_t length = 0, distance = 0;
  };

  explicit EarlierBytes(std::string_view bytes) : bytes_(bytes), before_(bytes.size(), kNone) {}

  /// The longest match of what begins at `at`, of those tried; not below kShortestRepeat bytes, else length 0.
  Match find(size_t at) const {
    Match best;
    if (at + kShortestRepeat > bytes_.size()) return best;
    const auto found = newest_.find(bytes_.substr(at, kShortestRepeat));
    size_t from = found == newest_.end() ? kNone : found->second;
    for (int tried = 0; from != kNone && tried < 256; ++tried, from = before_[from]) {
      size_t n = kShortestRepeat;
      while (at + n < bytes_.size() && bytes_[from + n] == bytes_[at + n]) ++n;
      if (n > best.length) best = {n, at - from};
    }
    return best;
  }
  void add(size_t at) {
    if (at + kShortestRepeat > bytes_.size()) return;
    const auto [entry, fresh] = newest_.try_emplace(bytes_.substr(at, kShortestRepeat), at);
    if (fresh) return;
    before_[at] = entry->second;
    entry->second = at;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  std::string_view bytes_;
  std::unordered_map<std::string_view, size_t> newest_;
  std::vector<size_t> before_;  // the one before with the same first bytes
};

/// Three columns of numbers (bytes that are taken as they are, length of the match behind them less kShortestRepeat,
/// its distance; the last match may be empty) and the bytes that are taken as they are. The columns' sizes are in
/// front.
inline std::string without_repeats(std::string_view bytes) {
  EarlierBytes earlier(bytes);
  std::string literals, columns[3];
  size_t run = 0;
  for (size_t at = 0; at < bytes.size();) {
    const EarlierBytes::Match match = earlier.find(at);
    earlier.add(at);
    if (match.length == 0 || earlier.find(at + 1).length > match.length + 1) {
      literals.push_back(bytes[at++]);
      ++run;
      continue;
    }
    append_number(columns[0], run);
    append_number(columns[1], match.length - kShortestRepeat);
    append_number(columns[2], match.distance);
    for (size_t i = 1; i < match.length; ++i) earlier.add(at + i);
    at += match.length;
    run = 0;
  }
  std::string out;
  for (const std::string& column : columns) append_number(out, column.size());
  for (const std::string& column : columns) out += column;
  return out + literals;
}

/// A file of modules: their number, the words of each, first words of instructions in all of them, bytes of the stream
/// (all uint32), and the stream, compressed by zlib. The stream is without_repeats() of the planes of the instructions'
/// first words and of the planes of all other words, whose ids are relative.
inline std::string pack_shaders(const SpirvModules& modules) {
  std::vector<uint32_t> sizes = {static_cast<uint32_t>(modules.size())}, heads, others;
  for (const std::vector<uint32_t>& m : modules) {
    sizes.push_back(static_cast<uint32_t>(m.size()));
    others.insert(others.end(), m.begin(), m.begin() + kSpirvHeaderWords);
    RelativeIds ids(m[kSpirvIdBound]);
    for (size_t at = kSpirvHeaderWords; at < m.size(); at += instruction_words(m[at])) {
      heads.push_back(m[at]);
      ids.begin(m[at]);
      for (size_t i = 1; i < instruction_words(m[at]); ++i) others.push_back(ids.relative(m.at(at + i)));
    }
  }
  std::string planes;
  append_planes(planes, heads);
  append_planes(planes, others);
  const std::string stream = without_repeats(planes);
  sizes.insert(sizes.end(), {static_cast<uint32_t>(heads.size()), static_cast<uint32_t>(stream.size())});
  uLongf bytes = compressBound(stream.size());
  std::string compressed(bytes, '\0');
  if (compress2(reinterpret_cast<Bytef*>(compressed.data()), &bytes, reinterpret_cast<const Bytef*>(stream.data()),
                stream.size(), Z_BEST_COMPRESSION) != Z_OK)
    throw std::runtime_error("can't be compressed");
  return std::string(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(uint32_t)) +
         compressed.substr(0, bytes);
}

}  // namespace smelt::vulkan
