#include "runtime/live_ranges.h"

#include <algorithm>

#include "ops/core/op.h"

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

[[gnu::cold]] std::vector<int> needed_steps(const Graph& graph, std::span<const Step> steps) {
  std::vector<bool> read(graph.values.size());
  const auto is_read = [&](ValueId id) { return id != kNoValue && read[static_cast<size_t>(id)]; };
  const auto note = [&](ValueId id) {
    if (id != kNoValue) read[static_cast<size_t>(id)] = true;
  };
  std::ranges::for_each(graph.outputs, note);
  std::vector<int> needed;
  for (size_t k = steps.size(); k-- > 0;) {
    const Node& node = *steps[k].node;
    if ((op_info(node.op).flags & (kEffect | kControl)) == 0 && std::ranges::none_of(node.outputs, is_read)) continue;
    std::ranges::for_each(node.inputs, note);
    needed.push_back(static_cast<int>(k));
  }
  std::ranges::reverse(needed);
  return needed;
}

[[gnu::cold]] bool is_read_once(std::span<const Step> steps, ValueId id) {
  ptrdiff_t reads = 0;
  for (const Step& step : steps) reads += std::ranges::count(step.node->inputs, id);
  return reads == 1;
}

[[gnu::cold]] ValueId input_used_up(const Graph& graph, std::span<const Step> steps, std::span<const int> last_use,
                                    int k) {
  const Node& node = *steps[static_cast<size_t>(k)].node;
  if ((op_info(node.op).flags & kUpdate) == 0) return kNoValue;
  ValueId x = node.inputs[0];
  bool used_up = is_read_once(steps, x);
  for (auto before = static_cast<size_t>(k); before-- > 0;) {
    if (!steps[before].is<AliasStep>() || steps[before].out[0] != x) continue;
    x = steps[before].in[0];
    used_up = used_up && is_read_once(steps, x);
  }
  used_up = used_up && last_use[static_cast<size_t>(x)] == k;
  return used_up && std::ranges::count(graph.inputs, x) > 0 ? x : kNoValue;
}

}  // namespace smelt
