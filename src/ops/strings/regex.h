#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/strings/regex_dfa.h"
#include "smelt/result.h"

namespace smelt {

/// Regular expressions in RE2's syntax, without captures: time is linear in the text times the size of the pattern.
/// Unicode classes (\p{...}) are not supported.
class Regex {
 public:
  /// Inclusive ranges of code points.
  struct Range {
    char32_t lo, hi;
  };
  using Set = std::vector<Range>;
  enum class Assert : uint8_t { kTextBegin, kTextEnd, kLineBegin, kLineEnd, kWordEdge, kNoWordEdge };
  struct Step {
    enum class Kind : uint8_t { kSet, kSplit, kAssert, kMatch } kind;
    int32_t next = -1, other = -1;  ///< kSplit has two ways on
    int32_t set = -1;               ///< kSet: index into sets
    Assert assertion{};
  };

  static Result<Regex> compile(std::string_view pattern);
  /// The whole text matches.
  bool full_match(std::span<const char32_t> text) const;
  /// End of the longest match that begins at `start`; -1 when there is none.
  int64_t longest_match(std::span<const char32_t> text, int64_t start) const;

 private:
  friend class RegexCompiler;
  friend class RegexDeterminizer;
  static bool contains(const Set& set, char32_t c);
  int64_t simulate(std::span<const char32_t> text, int64_t start) const;

  std::vector<Step> steps_;
  std::vector<Set> sets_;
  int32_t first_ = 0;
  std::optional<RegexDfa> dfa_;
};

}  // namespace smelt
