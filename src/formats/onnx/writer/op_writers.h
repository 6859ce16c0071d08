#pragma once

#include <span>

#include "formats/onnx/writer/node_writer.h"

namespace smelt::onnx {

// The tables of operators, one a theme.
std::span<const OpWriter> elementwise_writers();
std::span<const OpWriter> quantization_writers();
std::span<const OpWriter> nn_writers();
std::span<const OpWriter> matmul_writers();
std::span<const OpWriter> shape_writers();
std::span<const OpWriter> slice_writers();
std::span<const OpWriter> gather_writers();
std::span<const OpWriter> norm_writers();
std::span<const OpWriter> reduce_writers();
std::span<const OpWriter> resize_writers();
std::span<const OpWriter> recurrent_writers();
std::span<const OpWriter> attention_writers();
std::span<const OpWriter> control_writers();
std::span<const OpWriter> detection_writers();
std::span<const OpWriter> misc_writers();

// What tables share.

/// The order in which a node without an order of its own reads input 0: channels-first if that form is at hand.
inline Order order_at_hand(const NodeWriter& n) {
  return n.channels_first_at_hand(0) ? Order::kChannelsFirst : Order::kAsIs;
}
/// `axis` of values of `rank` dimensions in the given order.
int64_t axis_in(int64_t axis, int rank, Order order);
/// max(lo, min(hi, x)) with absent bounds.
Name clamp(NodeWriter& n, Name x, Name lo, Name hi);
/// The nearest integer, parts away from 0.
Name round_half_away(NodeWriter& n, Name x, DType dtype);
/// Real values of input i with its dimensions permuted; a constant is permuted when it is written.
Name in_permuted(NodeWriter& n, int i, const std::vector<int64_t>& perm);
/// The bias of a product: real values of input i. Integers have the scale of x times that of the weights.
Name bias_in(NodeWriter& n, int i);
/// x rounded to int8 steps as TFLite's hybrid kernels do, with one scale for each slice of the dimensions `axes`.
Name dynamically_rounded(NodeWriter& n, Name x, const std::vector<int64_t>& axes, bool asymmetric);

}  // namespace smelt::onnx
