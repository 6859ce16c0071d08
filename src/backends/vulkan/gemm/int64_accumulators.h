#pragma once

#include <optional>

#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/requantizer.h"

namespace smelt::vulkan {

/// Int64 accumulators of a product in scratch memory, and their requantization to int16 by TFLite's fixed-point rule
/// (rescale_accumulators.comp).
class Int64Accumulators {
 public:
  /// Nullopt if the output is not int16 with such parameters, or the device has no int64. Output element i belongs to
  /// channel i / inner % channels.
  static std::optional<Int64Accumulators> make(const KernelSpec& spec, int64_t channels, int64_t inner,
                                               const RescaleRule& rule);
  size_t scratch_bytes() const { return n_ * sizeof(int64_t); }
  Binding accumulators(const KernelRecorder& r, bool written) const { return r.scratch(0, scratch_bytes(), written); }
  /// Records the requantization; call it after the dispatches that write the accumulators.
  Status record(KernelRecorder& r) const;
  int32_t x_zero() const { return x_zero_; }
  int32_t w_zero() const { return w_zero_; }

 private:
  explicit Int64Accumulators(Requantizer q) : q_(std::move(q)) {}

  Requantizer q_;
  bool once_ = false;  ///< Rounding::kFixedSingle
  size_t n_ = 0;
  uint32_t inner_ = 1, channels_ = 1;
  int32_t x_zero_ = 0, w_zero_ = 0;
};

}  // namespace smelt::vulkan
