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

}  // namespace smelt
