#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

/// What the words of SPIR-V become before LZMA2 packs them, for codegen/pack_shaders.h and device/unpack_shaders.cc.
namespace smelt::vulkan {

constexpr uint32_t kSpirvHeaderWords = 5;
constexpr uint32_t kSpirvIdBound = 3;  ///< the header's word with the bound of ids

/// Words of one SPIR-V instruction, with its first.
constexpr uint32_t instruction_words(uint32_t head) { return head >> 16; }
constexpr uint32_t opcode(uint32_t head) { return head & 0xffff; }

/// The words of modules but for the first ones of instructions, sorted into streams: the headers, and for each pair of
/// opcodes that follow each other and each position the operands there of the second instruction. The first words of
/// the instructions of all modules say how many words each stream has.
class SpirvStreams {
 public:
  SpirvStreams(std::span<const uint32_t> heads, size_t modules) {
    std::vector<size_t> sizes = {modules * kSpirvHeaderWords};
    std::unordered_map<uint32_t, uint32_t> kinds;
    uint32_t previous = 0;
    for (const uint32_t head : heads) {
      const auto next = static_cast<uint32_t>(sizes.size());
      const auto [kind, is_new] = kinds.try_emplace(previous << 16 | opcode(head), next);
      if (is_new) sizes.resize(next + kPositions);
      first_.push_back(kind->second);
      for (uint32_t i = 1; i < instruction_words(head); ++i) ++sizes[stream(first_.size() - 1, i - 1)];
      previous = opcode(head);
    }
    size_t at = 0;
    for (const size_t size : sizes) {
      at_.push_back(at);
      at += size;
    }
  }

  size_t count() const { return at_.size(); }
  static constexpr size_t kHeaders = 0;  ///< the stream of the modules' headers
  /// The stream of an operand of an instruction of all modules. Operands far behind share one.
  size_t stream(size_t instruction, uint32_t operand) const {
    return first_[instruction] + std::min(operand, kPositions - 1);
  }
  /// The index of the stream's next word among the words of all streams.
  size_t next(size_t stream) { return at_[stream]++; }

 private:
  static constexpr uint32_t kPositions = 8;
  std::vector<uint32_t> first_;  // stream of each instruction's first operand
  std::vector<size_t> at_;       // of each stream
};

/// Turns the ids in a module's functions into what repeats where code does, and back: 0 for an id that is new, else the
/// distance from the id before it in its stream. Ids of constants, types and variables in front of the functions stay.
/// A literal that looks like an id is treated as one; a word and what it becomes are both ids of functions or both not.
class SpirvIds {
 public:
  SpirvIds(uint32_t bound, size_t streams) : last_(streams), bound_(bound), first_(bound), new_(bound) {}

  /// The operands that follow are those of the instruction with this first word.
  void begin(uint32_t head) {
    constexpr uint32_t kOpFunction = 54;
    until_first_ = first_ == bound_ && opcode(head) == kOpFunction ? 2 : 0;
  }
  uint32_t encoded(uint32_t word, size_t stream) {
    uint32_t code = word;
    if (of_function(word)) {
      const uint32_t distance = distance_of(word, stream), of_new = distance_of(new_id(), stream);
      code = first_ + (distance == of_new ? 0 : distance + (distance < of_new));
    }
    note(word, stream);
    return code;
  }
  uint32_t decoded(uint32_t code, size_t stream) {
    uint32_t word = code;
    if (of_function(code)) {
      const uint32_t above = code - first_, of_new = distance_of(new_id(), stream);
      word = above == 0 ? new_id() : id_at(above - (above <= of_new), stream);
    }
    note(word, stream);
    return word;
  }

 private:
  bool of_function(uint32_t word) const { return word >= first_ && word < bound_; }
  uint32_t new_id() const { return new_ < bound_ ? new_ : first_; }
  uint32_t last(size_t stream) const { return std::max(last_[stream], first_); }
  /// So far from an id there are ids on both sides of it.
  uint32_t both_sides(uint32_t id) const { return std::min(id - first_, bound_ - 1 - id); }

  /// 0: the last id of the stream, 1 and 2: those behind and before it, and so on by turns as long as there are both.
  uint32_t distance_of(uint32_t id, size_t stream) const {
    const uint32_t from = last(stream), both = both_sides(from), far = id > from ? id - from : from - id;
    return far > both ? far + both : id > from ? 2 * far - 1 : 2 * far;
  }
  uint32_t id_at(uint32_t distance, size_t stream) const {
    const uint32_t from = last(stream), both = both_sides(from);
    if (distance > 2 * both) return from - first_ > both ? from - (distance - both) : from + (distance - both);
    return distance % 2 == 1 ? from + (distance + 1) / 2 : from - distance / 2;
  }
  void note(uint32_t word, size_t stream) {
    if (until_first_ > 0 && --until_first_ == 0 && word < bound_) first_ = new_ = word;
    if (!of_function(word)) return;
    last_[stream] = word;
    new_ = std::max(new_, word + 1);
  }

  std::vector<uint32_t> last_;  // the last id of each stream; 0: none
  uint32_t bound_;
  uint32_t first_, new_;      // id of the first function; one above the greatest id so far
  uint32_t until_first_ = 0;  // operands up to the first function's id
};

}  // namespace smelt::vulkan
