#pragma once

#include "backends/vulkan/gemm/quantized_gemm.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

// Kernels of convolutions of 8-bit images, and of matrix products as convolutions, with a constant filter: by
// cooperative matrices or by integer dot products, whichever the device has. Each is nullptr if the shape does not suit
// either.

/// 8-bit results, requantized.
std::unique_ptr<Kernel> dot_product_kernel(const KernelSpec& spec, const std::optional<ConvShape>& s,
                                           std::optional<QuantizedGemm> product);
/// int32 results, with zero points in inputs 2 and 3; those of the filter, input 3, are constants.
std::unique_ptr<Kernel> dot_product_accumulators(const KernelSpec& spec, const std::optional<ConvShape>& s);
/// Dynamic quantization: float32 images, each quantized to int8 with its own parameters, and float32 results. `spec`:
/// the node of a Conv with ConvAttrs::dynamic_quant cleared.
std::unique_ptr<Kernel> dot_product_dynamic_quant(const KernelSpec& spec, bool asymmetric);

}  // namespace smelt::vulkan
