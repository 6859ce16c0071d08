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

TreeWalkTables::TreeWalkTables(const TreeEnsembleAttrs& a) {
  const size_t nodes = a.yes.size(), all = nodes + a.leaf_begin.size() - 1;
  const auto entry = [&](int32_t at) { return at >= 0 ? at : static_cast<int32_t>(nodes) + ~at; };
  for (const int32_t r : a.roots) roots.push_back(entry(r));
  for (size_t i = 0; i < all; ++i) {
    const bool leaf = i >= nodes;
    yes.push_back(leaf ? static_cast<int32_t>(i) : entry(a.yes[i]));
    no.push_back(leaf ? static_cast<int32_t>(i) : entry(a.no[i]));
    feature.push_back(leaf ? 0 : a.feature[i]);
    split.push_back(leaf ? 0 : float_split(a, i));
    missing.push_back(!leaf && a.missing_is_yes[i] != 0);
    if (!leaf && std::ranges::count(modes, a.mode[i]) == 0) modes.push_back(a.mode[i]);
  }
  if (std::ranges::count(missing, true) == 0) missing.clear();
  if (modes.size() == 1) return;
  for (const TreeEnsembleAttrs::Mode m : modes) {
    std::vector<bool>& of = nodes_of_a_mode.emplace_back(all, false);
    for (size_t i = 0; i < nodes; ++i) of[i] = a.mode[i] == m;
  }
}

TreeVotes::TreeVotes(const TreeEnsembleAttrs& a) {
  const size_t targets = static_cast<size_t>(a.targets), leaves = a.leaf_begin.size() - 1;
  weights.assign(leaves * targets, 0);
  voted.assign(leaves * targets, 0);
  for (size_t leaf = 0; leaf < leaves; ++leaf)
    for (int32_t k = a.leaf_begin[leaf]; k < a.leaf_begin[leaf + 1]; ++k) {
      const size_t at = leaf * targets + static_cast<size_t>(a.vote_target[static_cast<size_t>(k)]);
      weights[at] += static_cast<float>(a.vote_weight[static_cast<size_t>(k)]);
      voted[at] = 1;
    }
  always.assign(targets, true);
  ever.assign(targets, false);
  for (size_t at = 0; at < voted.size(); ++at) {
    always[at % targets] = always[at % targets] && voted[at] > 0;
    ever[at % targets] = ever[at % targets] || voted[at] > 0;
  }
  all = std::ranges::count(always, false) == 0;
}

}  // namespace smelt::formats
