#pragma once

#include <optional>

#include "passes/fuse/pattern.h"

namespace smelt {

/// Two clamps one behind the other (min, max, ReLU, Clip), with constant numbers: one clamp.
std::optional<Node> scalar_clamp(const Pattern& in, const Node& n);
/// a * x + b within [0, 1]: a hard sigmoid.
std::optional<Node> hard_sigmoid(const Pattern& in, const Node& n);
/// x times the hard sigmoid of x / 6 + 1/2, or x * relu6(x + 3) / 6.
std::optional<Node> hard_swish(const Pattern& in, const Node& n);

}  // namespace smelt
