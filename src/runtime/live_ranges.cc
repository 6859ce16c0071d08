#include "runtime/live_ranges.h"

#include <algorithm>

namespace smelt {

std::vector<int> last_uses(const Graph& graph, std::span<const Step> steps,
                           const std::function<bool(const Node&)>& is_view) {
  const int count = static_cast<int>(steps.size());
  std::vector<int> last(graph.values.size(), -1);
  for (int k = 0; k < count; ++k)
    for (ValueId id : steps[static_cast<size_t>(k)].node->inputs)
      if (id != kNoValue) last[static_cast<size_t>(id)] = k;
  for (ValueId id : graph.outputs)
    if (id != kNoValue) last[static_cast<size_t>(id)] = count;
  // What aliases keep alive: an alias extends its source.
  for (int k = count - 1; k >= 0; --k) {
    const Node& n = *steps[static_cast<size_t>(k)].node;
    if (!is_view(n)) continue;
    int& source = last[static_cast<size_t>(n.inputs[0])];
    source = std::max(source, last[static_cast<size_t>(n.outputs[0])]);
  }
  return last;
}

std::optional<size_t> only_input_of_previous(std::span<const Step> steps, size_t k, std::span<const int> last_use) {
  if (k == 0) return std::nullopt;
  const std::vector<ValueId>& made = steps[k - 1].node->outputs;
  const std::vector<ValueId>& inputs = steps[k].node->inputs;
  if (made.size() != 1 || made[0] == kNoValue || last_use[static_cast<size_t>(made[0])] != static_cast<int>(k))
    return std::nullopt;
  const auto at = std::ranges::find(inputs, made[0]);
  if (at == inputs.end() || std::find(at + 1, inputs.end(), made[0]) != inputs.end()) return std::nullopt;
  return static_cast<size_t>(at - inputs.begin());
}

}  // namespace smelt
