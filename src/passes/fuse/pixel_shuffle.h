#pragma once

#include <optional>

#include "passes/fuse/pattern.h"

namespace smelt {

/// A DepthSpace that makes space of channels which a Gather brings in order before: one whose blocks run along the
/// inner dimension of the channels, CRD of ONNX.
std::optional<Node> reordered_depth(const Pattern& in, const Node& n);

}  // namespace smelt
