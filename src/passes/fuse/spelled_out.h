#pragma once

#include <optional>

#include "passes/fuse/pattern.h"

namespace smelt {

/// The Where `n` over x < 0 as x with slopes for what is negative.
std::optional<Node> parametric_relu(const Pattern& in, const Node& n);
/// The sum of squares over the last dimension, or its root, as one reduction.
std::optional<Node> vector_norm(const Pattern& in, const Node& n);
/// The Einsum `n` as a MatMul, where it is a stack of products of matrices that lie behind each other:
/// "bhid,bhjd->bhij".
std::optional<Node> einsum_product(const Pattern& in, const Node& n);
/// The Concat `n` of x[: i], an item and x[i + 1 :], along the outermost dimension, as x with item i replaced: how
/// TensorFlow Lite sets an item of a list. An i that is not in x is an error either way, but that -1 is the last one.
std::optional<Node> list_with_item(const Pattern& in, const Node& n);
/// The Concat `n` of x1 * cos - x2 * sin and x2 * cos + x1 * sin, of the halves of rows x, as a Rotary of x.
std::optional<Node> rotary_embedding(const Pattern& in, const Node& n);
/// The Transpose `n` of a Rotary of x [B, H, S, D], itself transposed, as the Rotary of x as [B, S, H, D].
std::optional<Node> rotary_of_rows(const Pattern& in, const Node& n);
/// The Add `n` of x + (bias + weights * (x * gate)) as x * (weights * gate + 1) + bias, where the gate has one number
/// for several of x. Nodes below `n` are rewritten.
std::optional<Node> scaled_residual(Pattern& in, const Node& n);

}  // namespace smelt
