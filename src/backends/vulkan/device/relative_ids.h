#pragma once

#include <algorithm>
#include <cstdint>

namespace smelt::vulkan {

constexpr uint32_t kSpirvHeaderWords = 5;
constexpr uint32_t kSpirvIdBound = 3;  ///< the header's word with the bound of ids

/// Words of one SPIR-V instruction, with its first.
constexpr uint32_t instruction_words(uint32_t head) { return head >> 16; }

/// Makes the ids in a module's functions relative to the newest id, and back: so the same code has the same words
/// wherever its ids begin. Ids of constants, types and variables in front of the functions stay. A literal that looks
/// like an id is treated as one; a word and what it becomes are both ids of functions or both not.
class RelativeIds {
 public:
  explicit RelativeIds(uint32_t bound) : bound_(bound) {}

  /// The operands that follow are those of the instruction with this first word.
  void begin(uint32_t head) {
    constexpr uint32_t kOpFunction = 54;
    until_first_ = first_ == bound_ && (head & 0xffff) == kOpFunction ? 2 : 0;
  }
  uint32_t relative(uint32_t word) {
    const uint32_t out = mirrored(word);
    note(word);
    return out;
  }
  uint32_t absolute(uint32_t word) {
    const uint32_t out = mirrored(word);
    note(out);
    return out;
  }

 private:
  bool of_function(uint32_t word) const { return word >= first_ && word < bound_; }
  /// Its own inverse.
  uint32_t mirrored(uint32_t word) const {
    if (!of_function(word)) return word;
    const uint64_t ids = bound_ - first_;
    return first_ + static_cast<uint32_t>((ids + next_ - word) % ids);
  }
  void note(uint32_t word) {
    if (until_first_ > 0 && --until_first_ == 0 && word < bound_) first_ = next_ = word;
    if (of_function(word)) next_ = std::max(next_, word + 1);
  }

  uint32_t bound_;
  uint32_t first_ = bound_, next_ = bound_;  // id of the first function; one above the greatest id so far
  uint32_t until_first_ = 0;                 // operands up to the first function's id
};

}  // namespace smelt::vulkan
