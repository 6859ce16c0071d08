#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "smelt/tensor.h"

namespace smelt {

/// The loop-carried values of a While, in storage that later iterations and runs reuse.
class LoopValues {
 public:
  /// Starts with the values of these slots (-1: absent), which are not copied.
  void begin(std::span<const int32_t> slots, const std::vector<Datum>& values);
  std::span<const Datum> values() const { return values_; }
  /// Takes over the first results of an iteration, one for each carried value. What lies in the memory of the body's
  /// plan is copied, and so is what shares storage with `kept`, the variables, which the next iteration may rewrite.
  Status take(std::span<const Datum> results, std::span<const Datum> kept);
  /// Value i after the loop; valid until the next begin().
  Result<Datum> give(size_t i);

  std::vector<Datum> results, condition;  ///< of the condition's and the body's graph

 private:
  Status copy(size_t i, const Tensor& from);

  static constexpr uint8_t kElsewhere = 2;
  std::vector<Datum> values_;
  struct DoubleBuffer {
    Tensor bytes[2];  ///< one holds the value, the other the next one
    uint8_t current = kElsewhere;
  };
  std::vector<DoubleBuffer> buffers_;
};

}  // namespace smelt
