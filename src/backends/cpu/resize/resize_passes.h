#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/core/kernel.h"

namespace smelt {

/// One dimension of a value, [outer, in, inner], becomes [outer, out, inner]: entry i of `out` is the sum of
/// weight[k] * entry index[k] for k in [begin[i], begin[i + 1]).
template <class T>
struct ResizePass {
  int64_t outer, in, out, inner;
  std::vector<int64_t> begin, index;
  std::vector<T> weight;
};

/// The passes of a Resize node in the order of the reference kernel, the last dimension first; none for dimensions that
/// stay. nullopt: sizes are not known, an entry has no weights, or coordinates may lie outside the image.
template <class T>
std::optional<std::vector<ResizePass<T>>> resize_passes(const KernelSpec& spec);

}  // namespace smelt
