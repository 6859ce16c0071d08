#pragma once

#include "backends/vulkan/core/kernel.h"

namespace smelt::vulkan {

/// A product with constant weights, input 1, that is divided along its output channels.
struct SlicedProduct {
  int weights_axis, output_axis;
  int64_t channels;
};

/// The kernel that runs the product slice by slice of its output channels, each within the device's largest binding;
/// nullptr if the weights do not exceed it, or cannot be sliced.
std::unique_ptr<Kernel> weight_slices(const KernelSpec& spec, const SlicedProduct& p);

}  // namespace smelt::vulkan
