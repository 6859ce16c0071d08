#pragma once

#include <optional>
#include <vector>

#include "backends/vulkan/copy/strided_copy.h"

namespace smelt::vulkan {

/// Element `from` of a source goes to `to`.
struct Place {
  int32_t to, from;
};

/// What one output of a node that only moves elements has from one source, in the order of `to`.
struct PlaceList {
  size_t in = 0, out = 0;  ///< `in`: an input, or Move::kFill, one element
  std::vector<Place> places;
};

/// The lists of all outputs that are wanted, outputs in order; `fill`: the bit pattern of the fill value. Nullopt where
/// the node does more than moving, or not to places known beforehand.
std::optional<std::vector<PlaceList>> find_places(const KernelSpec& spec, uint64_t& fill);

/// The places as a walk, found as nested runs of one step, which grow along `to`; nullopt when they are none.
std::optional<Move> as_walk(std::vector<Place> list);

}  // namespace smelt::vulkan
