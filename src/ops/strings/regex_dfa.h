#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace smelt {

class Regex;

/// A deterministic automaton for patterns without assertions that need few states. State 0 is the first.
class RegexDfa {
 public:
  /// nullopt if the pattern has assertions or needs too many states.
  static std::optional<RegexDfa> make(const Regex& regex);
  /// End of the longest match that begins at `start`; -1 when there is none.
  int64_t longest_match(std::span<const char32_t> text, int64_t start) const;

 private:
  friend class RegexDeterminizer;
  size_t class_of(char32_t c) const;

  std::vector<char32_t> class_begin_;       ///< first code point of each class, ascending from 0
  std::array<uint8_t, 128> ascii_class_{};  ///< class of each ASCII character
  std::vector<int16_t> next_;               ///< [states, classes]; -1: no match follows
  std::vector<char> accepts_;               ///< by state
};

}  // namespace smelt
