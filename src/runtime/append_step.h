#pragma once

#include <functional>
#include <optional>
#include <span>

#include "runtime/plan.h"

namespace smelt {

/// A step that makes a value for one input of another alone, with nothing but views of it between the two.
struct OnlyUse {
  size_t head = 0;     ///< the step that makes it, or the one whose segment does
  size_t maker = 0;    ///< the step that makes it
  size_t operand = 0;  ///< the input
};
/// nullopt: no input of step `k` is such, or it does not make one value. `last_use`: of last_uses().
std::optional<OnlyUse> only_use_before(std::span<const Step> steps, size_t k, std::span<const int> last_use,
                                       const std::function<bool(const Node&)>& is_view);

/// Makes the segment of step `use.head` read what it and step `at` read, and make what step `at` makes, which becomes
/// `work`; the values between are made no more. Precondition: nothing else is appended to a step between them.
void append_step(PlanParts& plan, const OnlyUse& use, size_t at, const SegmentStep& work);

}  // namespace smelt
