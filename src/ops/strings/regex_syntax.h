#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "ops/strings/regex.h"

namespace smelt {

/// A parsed pattern.
struct RegexNode {
  enum class Kind : uint8_t { kEmpty, kSet, kAssert, kSequence, kChoice, kRepeat } kind = Kind::kEmpty;
  Regex::Set set;
  Regex::Assert assertion{};
  std::vector<RegexNode> parts;
  int min = 0, max = -1;  ///< kRepeat; -1: without end
};

Result<RegexNode> parse_regex(std::string_view pattern);

}  // namespace smelt
