#pragma once

#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/gemm/quantized_gemm.h"
#include "backends/vulkan/gemm/quantized_weights.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// The kernel of a float32 convolution, or of a matrix product as one, with a constant filter that the host packs for
/// subgroups of eight lanes (conv_packed.comp). Input 1 is the filter, whose output and input channels lie along o_axis
/// and i_axis (-1: no blocks along any), input 2 the bias if there is one. Nullptr if the shape does not suit the
/// shader.
std::unique_ptr<Kernel> packed_kernel_f32(const KernelSpec& spec, const ConvShape& s, const Activation& act, int o_axis,
                                          int i_axis);

/// packed_kernel_f32() for 8-bit operands.
std::unique_ptr<Kernel> packed_kernel_i8(const KernelSpec& spec, const ConvShape& s,
                                         const std::optional<QuantizedGemm>& product);

/// `product`, whose shader clamps output 0 to bounds, with any other activation in place behind it. `n`: elements.
std::unique_ptr<Kernel> with_activation(std::unique_ptr<Kernel> product, const Activation& act, int64_t n);

}  // namespace smelt::vulkan
