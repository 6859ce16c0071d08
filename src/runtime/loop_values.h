#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "smelt/tensor.h"

namespace smelt {

/// What a loop carries from one round to the next, in storage that later rounds and runs use again.
class LoopValues {
 public:
  /// Starts with these values, which stay where they are.
  void begin(std::span<const int32_t> slots, const std::vector<Datum>& values);
  std::span<const Datum> values() const { return values_; }
  /// Takes over what a round gave, as many values as there are: what lies in memory of the round is copied. `kept`:
  /// variables, whose storage the next round may rewrite.
  Status take(std::span<const Datum> results, std::span<const Datum> kept);
  /// Value i for what comes behind the loop; it stays valid until the next begin().
  Result<Datum> give(size_t i);

  std::vector<Datum> results, condition;  ///< of the graphs that a round runs

 private:
  Status copy(size_t i, const Tensor& from);

  static constexpr uint8_t kElsewhere = 2;
  std::vector<Datum> values_;
  struct Room {
    Tensor bytes[2];  ///< one holds the value, the other takes the next one
    uint8_t current = kElsewhere;
  };
  std::vector<Room> rooms_;
};

}  // namespace smelt
