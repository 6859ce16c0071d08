#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "ops/common/fixed_point.h"
#include "ops/common/index.h"
#include "ops/softmax/softmax.h"
#include "smelt/tensor.h"

namespace smelt {

/// TFLite's softmax of 8-bit values: the exponential of every possible difference to the largest value is known
/// beforehand.
class Softmax8 {
 public:
  Softmax8(double beta, float scale);
  /// n values, `step` apart. In is int8_t or uint8_t, Out the same or int16_t.
  template <class In, class Out>
  void group(const In* x, int64_t n, int64_t step, Out* y) const;
  /// By how much a value is below the largest: its exponential in Q0 or -1 for none, and its part of the sum in Q12.
  const std::array<int32_t, 256>& exps() const { return exps_; }
  const std::array<uint32_t, 256>& parts() const { return parts_; }

 private:
  static constexpr int32_t kZero = -1;  ///< the exponential counts as zero
  std::array<int32_t, 256> exps_{};     ///< Q0, by how much a value is below the largest
  std::array<uint32_t, 256> parts_{};   ///< what they add to the sum, Q12
};

/// TFLite's logarithmic softmax of 8-bit values, by how much a value is below the largest.
struct LogSoftmax8 {
  explicit LogSoftmax8(float scale);
  /// The logarithm of a sum of parts, in Q5.
  static int32_t log_of(uint32_t sum);
  /// Differences to the largest value are below what the result holds up to this one.
  int32_t beyond(int32_t log_sum) const;
  std::array<uint32_t, 256> parts;  ///< what values add to the sum, Q12
  std::array<int32_t, 256> diffs;   ///< to the largest value, Q5, as far as they can be said
  int32_t smallest;                 ///< difference of which nothing is left
  FixedFactor back;                 ///< from Q5 to differences
};

/// TFLite's softmax of int16 values: exponentials on [-10, 0] and 1 / (1 + x) on [0, 1] by piecewise linear tables.
struct Softmax16 {
  Softmax16(double beta, float scale);
  static const std::vector<int16_t>& exps();
  static const std::vector<int16_t>& inverses();
  FixedFactor factor;  ///< of differences to the largest value, to the first table's steps
};

/// True if a node is a softmax (not log-softmax) of 8-bit per-tensor values that TFLite computes in integers.
bool is_softmax8(const SoftmaxAttrs& attrs, const ValueType& x, const ValueType& y);

/// True if a node is a log-softmax of 8-bit per-tensor values that TFLite computes in integers.
bool is_log_softmax8(const SoftmaxAttrs& attrs, const ValueType& x, const ValueType& y);

/// TFLite's integer softmax and log-softmax. False for combinations that it does not define.
bool softmax_fixed(const SoftmaxAttrs& attrs, const AxisView& view, const Tensor& x, Tensor& y);

}  // namespace smelt
