#include "runtime/append_step.h"

#include <algorithm>

namespace smelt {

std::optional<OnlyUse> only_use_before(std::span<const Step> steps, size_t k, std::span<const int> last_use,
                                       const std::function<bool(const Node&)>& is_view) {
  const std::vector<ValueId>&inputs = steps[k].node->inputs, &results = steps[k].node->outputs;
  if (results.size() != 1 || results[0] == kNoValue) return std::nullopt;
  size_t head = k;
  while (head > 0 && (head == k || is_view(*steps[head].node))) --head;
  for (size_t j = head; j < k; ++j) {
    const std::vector<ValueId>& made = steps[j].node->outputs;
    if (made.size() != 1 || made[0] == kNoValue || last_use[static_cast<size_t>(made[0])] != static_cast<int>(k))
      return std::nullopt;
    if (j > head && steps[j].node->inputs[0] != steps[j - 1].node->outputs[0]) return std::nullopt;
    if (std::ranges::count(inputs, made[0]) != (j + 1 == k ? 1 : 0)) return std::nullopt;
  }
  if (head == k) return std::nullopt;
  const auto at = std::ranges::find(inputs, steps[k - 1].node->outputs[0]);
  const int32_t joined = steps[head].joined;
  return OnlyUse{joined < 0 ? head : static_cast<size_t>(joined), head, static_cast<size_t>(at - inputs.begin())};
}

void append_step(PlanParts& plan, const OnlyUse& use, size_t at, const SegmentStep& work) {
  Step &head = plan.steps[use.head], &step = plan.steps[at];
  for (size_t k = use.maker; k < at; ++k) {
    plan.values[static_cast<size_t>(plan.steps[k].node->outputs[0])] = Datum{};
    if (k > use.maker) plan.steps[k].work = DeviceStep{DeviceStep::Kind::kView};
  }
  std::vector<ValueId>& in = plan.joined_inputs.emplace_back(head.in.begin(), head.in.end());
  for (size_t i = 0; i < step.in.size(); ++i)
    if (i != use.operand) in.push_back(step.in[i]);
  head.in = in;
  head.out = step.out;
  step.work = work;
  step.joined = static_cast<int32_t>(use.head);
}

}  // namespace smelt
