#pragma once

#include <optional>

#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/enums.h"
#include "ops/common/requantizer.h"

namespace smelt::vulkan {

/// A product whose sums, of 64 bits in scratch memory, become int16 outputs by TFLite's fixed point
/// (rescale_accumulators.comp).
class WideSums {
 public:
  /// Nullopt: not this kind of node, or a device without 64-bit integers. Output element i belongs to channel
  /// i / inner % channels.
  static std::optional<WideSums> make(const KernelSpec& spec, int64_t channels, int64_t inner, const Activation& act,
                                      Rounding rounding, double alpha = 1);
  size_t scratch_bytes() const { return n_ * sizeof(int64_t); }
  Binding sums(const KernelRecorder& r, bool written) const { return r.scratch(0, scratch_bytes(), written); }
  /// Behind the dispatches that write the sums.
  Status record(KernelRecorder& r) const;
  int32_t x_zero() const { return x_zero_; }
  int32_t w_zero() const { return w_zero_; }

 private:
  explicit WideSums(Requantizer q) : q_(std::move(q)) {}

  Requantizer q_;
  bool once_ = false;  ///< rounded once
  size_t n_ = 0;
  uint32_t inner_ = 1, channels_ = 1;
  int32_t x_zero_ = 0, w_zero_ = 0;
};

}  // namespace smelt::vulkan
