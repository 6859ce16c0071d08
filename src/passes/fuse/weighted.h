#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "passes/fuse/pattern.h"

namespace smelt {

/// y = scale * x + offset for each channel.
struct Affine {
  std::vector<float> scale, offset;
};

/// What a BatchNorm with constant statistics of so many channels does; nullopt for another node, and where a factor is
/// infinite or NaN: the products of an infinite weight would add up to NaN.
std::optional<Affine> constant_batch_norm(const Pattern& in, const Node& n, int64_t channels);

/// True if a float32 constant has one number for each of `channels` channels of x, repeated along all other dimensions.
bool is_of_channels(const Pattern& in, const Tensor& c, ValueId x, int64_t channels, Layout layout);

bool is_real(const Tensor& t);  ///< of float32 or float16

/// A new constant.
ValueId add_constant(Pattern& in, Tensor t);
/// A new constant of these values.
ValueId add_constant(Pattern& in, DType dtype, const Shape& shape, std::span<const float> values);

/// The sum, or difference, of two convolutions with constant filters of the same image as one convolution: their
/// windows, one of which may be smaller, move alike, and so do their groups. A BatchNorm with constant statistics is a
/// depthwise convolution of one pixel. nullopt for another node.
std::optional<Node> parallel_convolutions(Pattern& in, const Node& n);

/// A convolution without padding, or a product of rows, of x + c, c having one number a channel, as that of x with
/// another bias. nullopt for another node.
std::optional<Node> added_to_input(Pattern& in, const Node& n);

}  // namespace smelt
