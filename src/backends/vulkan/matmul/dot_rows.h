#pragma once

#include <optional>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/quantized_weights.h"
#include "ops/common/enums.h"

namespace smelt::vulkan {

/// Whether products of 8-bit values are worth taking four at a time: where the device says that it is fast, or
/// SMELT_VULKAN_DOT says so.
bool multiplies_fours(const Device& device);

/// The product of rows of int8 values, each with a scale and zero point, and constant weights of 4 or 8 bits, four
/// products an instruction (dot_rows.comp). Sums are exact within a column, or a block of it.
class DotRows {
 public:
  struct Operands {
    Binding x, scales, zeros;
    bool one_grid = false;  ///< for all rows
  };
  /// A MatMul whose input 0 is read as such rows. Nullopt: of another kind.
  static std::optional<DotRows> make(const KernelSpec& product);
  int64_t rows() const { return shape_.out_pixels(); }
  int64_t row() const { return shape_.c_in; }
  Status record(KernelRecorder& r, const Operands& operands) const;

 private:
  DotRows() = default;
  int64_t chunks() const { return shape_.c_in * stored_.bits / 32; }
  void pack(int32_t* words) const;
  void parameters(int32_t* rows) const;
  Result<Binding> bias(KernelRecorder& r) const;

  ConvShape shape_;
  StoredWeights stored_;
  Tensor weights_, bias_;
  GpuActivation act_;
  Tiling tiling_;
  uint32_t slices_ = 1;
};

}  // namespace smelt::vulkan
