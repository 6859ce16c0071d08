#include "formats/common/tree_tables.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace smelt::formats {

std::optional<size_t> tree_depth(const TreeEnsembleAttrs& a) {
  constexpr size_t kMaxDepth = 64;
  std::vector<int32_t> level(a.roots), next;
  for (size_t depth = 0; depth <= kMaxDepth; ++depth) {
    next.clear();
    for (const int32_t at : level)
      if (at >= 0) {
        next.push_back(a.yes[static_cast<size_t>(at)]);
        next.push_back(a.no[static_cast<size_t>(at)]);
      }
    if (next.empty()) return depth;
    std::ranges::sort(next);
    next.erase(std::unique(next.begin(), next.end()), next.end());
    level.swap(next);
  }
  return std::nullopt;
}

float float_split(const TreeEnsembleAttrs& a, size_t node) {
  using Mode = TreeEnsembleAttrs::Mode;
  const double v = a.split[node];
  const auto f = static_cast<float>(v);
  switch (a.mode[node]) {
    case Mode::kLessEqual:
    case Mode::kGreater:
      return static_cast<double>(f) > v ? std::nextafter(f, -INFINITY) : f;
    case Mode::kLess:
    case Mode::kGreaterEqual:
      return static_cast<double>(f) < v ? std::nextafter(f, INFINITY) : f;
    default:
      return static_cast<double>(f) == v ? f : NAN;
  }
}

}  // namespace smelt::formats
