#pragma once

#include <vector>

#include "formats/onnx/lower.h"
#include "ops/conv/conv.h"
#include "ops/recurrent/recurrent.h"
#include "ops/shape/shape.h"

namespace smelt::onnx {

AutoPad auto_pad(NodeContext& n);
/// A per-dimension attribute of `count` entries; `fill` everywhere when absent.
std::vector<int64_t> spatial_list(NodeContext& n, const char* name, size_t count, int64_t fill);
/// Spatial dimensions of x [N, C, ...] or of the filter, whichever rank is known.
size_t spatial_rank(NodeContext& n, ValueId x, ValueId filter);
/// strides, dilations, pads, auto_pad and group of a convolution.
void read_conv(NodeContext& n, ValueId x, ValueId filter, ConvAttrs& a);

/// The lists of alphas and betas hold values only for the activations that take one; each activation gets its own.
void read_activations(NodeContext& n, RecurrentAttrs& a);

}  // namespace smelt::onnx
