#pragma once

#include <optional>

#include "backends/vulkan/record/shader_kernel.h"
#include "ops/common/requantizer.h"

namespace smelt::vulkan {

/// Int64 accumulators of a product in scratch memory, and their requantization to int16 by TFLite's rules
/// (rescale_accumulators.comp).
class Int64Accumulators {
 public:
  /// Nullopt if a node of quantized int16 results has other parameters than such a product. Output element i belongs to
  /// channel i / inner % channels.
  static std::optional<Int64Accumulators> make(const KernelSpec& spec, int64_t channels, int64_t inner,
                                               const RescaleRule& rule);
  /// The accumulators as a binding that is written.
  Arg arg() const { return scratch(bytes()); }
  /// The kernel that runs `product`, which writes arg(), and requantizes.
  std::unique_ptr<Kernel> behind(std::unique_ptr<Kernel> product) const;
  int32_t x_zero() const { return x_zero_; }
  int32_t w_zero() const { return w_zero_; }

 private:
  explicit Int64Accumulators(Requantizer q) : q_(std::move(q)) {}
  size_t bytes() const { return n_ * sizeof(int64_t); }

  Requantizer q_;
  bool once_ = false;  ///< Rounding::kDoubleHalfAway
  size_t n_ = 0;
  uint32_t inner_ = 1, channels_ = 1;
  int32_t x_zero_ = 0, w_zero_ = 0;
};

}  // namespace smelt::vulkan
