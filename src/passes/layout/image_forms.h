#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace smelt {

/// By value: true if a node reads it that wants an image channels-last, a convolution for example or a Transpose to
/// that form, or a node of any layout whose output is such a value.
std::vector<char> wanted_channels_last(const Graph& graph);

/// True if a convolution of a channels-first image is worth turning it around. A Conv by few filters, which do not fill
/// a SIMD vector, is not, unless its windows are deep and side by side: channels-last kernels fill vectors with their
/// taps. ConvTranspose and ConvInteger have channels-last kernels alone.
bool gains_channels_last(const Graph& graph, const Node& conv);

/// The target of a Reshape [n, spatial, c] that does in channels-last form what `n` does, which changes the spatial
/// dimensions alone: pixels of an image become a row of tokens, or the other way. Empty for another node.
std::vector<int64_t> channels_last_target(const Graph& graph, const Node& n);

}  // namespace smelt
