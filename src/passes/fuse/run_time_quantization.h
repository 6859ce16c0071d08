#pragma once

#include <optional>

#include "passes/fuse/pattern.h"

namespace smelt {

/// A MatMul or Conv whose float32 rows or images a formula rounds before, as a node that quantizes them itself (TFLite
/// hybrid), for int8 weights without zero points; nothing for another node.
std::optional<Node> run_time_quantized(Pattern& in, const Node& n);

}  // namespace smelt
