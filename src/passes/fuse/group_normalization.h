#pragma once

#include <optional>

#include "passes/fuse/pattern.h"

namespace smelt {

/// The Reshape `n` as a group normalization: [n, channels, ...] as [n, groups, rest], normalized row by row, and back.
std::optional<Node> group_normalization(const Pattern& in, const Node& n);
/// A group normalization with the constant, one number a channel, that `n` multiplies its result with or adds to it.
std::optional<Node> scaled_group_norm(Pattern& in, const Node& n);

}  // namespace smelt
