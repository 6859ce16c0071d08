#pragma once

#include <optional>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/quantized_weights.h"
#include "ops/common/enums.h"

namespace smelt::vulkan {

/// True if 8-bit products go by integer dot product instructions: where the device has fast ones, or
/// SMELT_VULKAN_DOT=1.
bool uses_integer_dot_product(const Device& device);

/// The product of int8 rows, each with its scale and zero point, and constant weights of 4 or 8 bits, by integer dot
/// product instructions. Accumulators are exact int32 within a column or a block of it.
class PerTokenDotProduct {
 public:
  struct Operands {
    Binding x, scales, zeros;
    bool per_tensor = false;  ///< one scale and zero point for all rows
  };
  /// The product of a MatMul whose input 0 is given to record() as such rows; nullopt if the shader
  /// cannot run it. Precondition: the condition of matmul_per_token_dot_product.
  static std::optional<PerTokenDotProduct> make(const KernelSpec& product);
  int64_t rows() const { return shape_.out_pixels(); }
  int64_t row() const { return shape_.c_in; }
  Status record(KernelRecorder& r, const Operands& operands) const;

 private:
  PerTokenDotProduct() = default;
  int64_t chunks() const { return shape_.c_in * quantized_.bits / 32; }
  void pack(int32_t* words) const;
  void parameters(int32_t* rows) const;

  ConvShape shape_;
  QuantizedWeights quantized_;
  Tensor weights_, bias_;
  GpuActivation act_;
  Tiling tiling_;
  uint32_t slices_ = 1;
};

}  // namespace smelt::vulkan
