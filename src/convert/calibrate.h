#pragma once

#include <map>
#include <vector>

#include "smelt/model.h"

namespace smelt::convert {

/// How the range of a value follows from what it held in calibration runs.
enum class RangeRule : uint8_t {
  kMinMax,      ///< the smallest and the largest element
  kPercentile,  ///< without the 0.005 % of elements at each end
  kEntropy,     ///< magnitudes clipped where the distribution of the quantized ones loses the least information
};

struct Range {
  float low = 0, high = 0;  ///< low <= 0 <= high
};

/// Ranges of all float32 values of the first method's graph that nodes compute, inputs included, by value; over runs on
/// the given inputs. Fails as a run does.
Result<std::map<int32_t, Range>> calibrate(const Module& module, const std::vector<std::vector<Datum>>& runs,
                                           RangeRule rule);

}  // namespace smelt::convert
