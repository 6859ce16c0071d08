#pragma once

#include <memory>
#include <optional>

#include "backends/cpu/core/kernel.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/requantize_params.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt {

/// The product of two matrices of bytes, the second of which is packed at run time. `requantize_params`: of a product
/// of quantized operands with the parameters `q`. Without, the zero points are inputs 2 and 3, one each, and the
/// accumulators come out.
std::unique_ptr<Kernel> make_dynamic_product(const MatMulShape& s, QuantizedPair q,
                                             std::optional<RequantizeParams> requantize_params, const KernelSpec& spec);

}  // namespace smelt
