#include "runtime/variable_steps.h"

#include <algorithm>

#include "ops/core/op.h"
#include "runtime/live_ranges.h"
#include "runtime/partition.h"

namespace smelt {

VariableSteps::VariableSteps(std::span<const Step> steps) : steps_(static_cast<int>(steps.size())) {
  for (int k = 0; k < steps_; ++k) {
    const Node& n = *steps[static_cast<size_t>(k)].node;
    if (op_info(n.op).flags & kControl) bodies_.push_back(k);
    if (state_of(n) >= 0) uses_.push_back({&n, k});
  }
}

bool VariableSteps::may_append(std::span<const Step> steps, int k, std::span<const int> last_use) const {
  const Node& node = *steps[static_cast<size_t>(k)].node;
  if (!(op_info(node.op).flags & kUpdate) || !bodies_.empty()) return false;
  const auto last = [&](ValueId id) { return last_use[static_cast<size_t>(id)]; };
  if (node.outputs[0] == kNoValue || last(node.inputs[0]) != k || last(node.outputs[0]) >= steps_) return false;
  const auto read = std::ranges::find_if(
      uses_, [&](const Use& u) { return u.node->op == Op::kStateRead && u.node->outputs[0] == node.inputs[0]; });
  if (read == uses_.end() || !is_read_once(steps, node.inputs[0])) return false;
  const int state = state_of(*read->node);
  const auto is_write = [&](const Use& u) {
    return u.node->op == Op::kStateWrite && u.node->inputs[0] == node.outputs[0] && u.step > k;
  };
  const auto of_state = [&](const Use& u) { return state_of(*u.node) == state; };
  return std::ranges::count_if(uses_, of_state) == 2 &&
         std::ranges::any_of(uses_, [&](const Use& u) { return of_state(u) && is_write(u); });
}

bool VariableSteps::may_write(int state, int first, int last) const {
  const auto between = [&](int k) { return k > first && k < last; };
  return last >= steps_ || std::ranges::any_of(bodies_, between) || std::ranges::any_of(uses_, [&](const Use& u) {
           return u.node->op == Op::kStateWrite && state_of(*u.node) == state && between(u.step);
         });
}

}  // namespace smelt
