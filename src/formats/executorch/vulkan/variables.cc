#include "formats/executorch/vulkan/variables.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace smelt::executorch {
namespace {

constexpr uint32_t kFar = 0xffffffffu;

/// Calls visit(value) for a value and, where it is a list, for its members.
template <class Visit>
void each_member(const VkGraphView& g, uint32_t value, Visit visit) {
  const auto* list = g.table->values()->Get(value)->value_as_ValueList();
  if (!list) return visit(value);
  if (list->items())
    for (int32_t item : *list->items()) visit(static_cast<uint32_t>(item));
}

/// Fewest operators from value `from` to every other; copies of constants do not count.
std::vector<uint32_t> distances(const VkGraphView& g, uint32_t from) {
  std::vector<uint32_t> distance(g.types.size(), kFar);
  distance[from] = 0;
  if (!g.table->chain()) return distance;
  for (const auto* call : *g.table->chain()) {
    const uint32_t count = call->args()->size() - 1;
    uint32_t nearest = kFar;
    for (uint32_t i = 0; i < count; ++i)
      each_member(g, static_cast<uint32_t>(call->args()->Get(i)),
                  [&](uint32_t v) { nearest = std::min(nearest, distance[v]); });
    if (nearest == kFar) continue;
    const bool copies = call->name()->string_view() == "et_vk.prepack.default";
    each_member(g, static_cast<uint32_t>(call->args()->Get(count)),
                [&](uint32_t v) { distance[v] = std::min(distance[v], nearest + (copies ? 0 : 1)); });
  }
  return distance;
}

}  // namespace

Result<std::vector<uint32_t>> match_variables(const VkGraphView& g, size_t count) {
  constexpr size_t kMost = 4096;
  if (count > kMost) return LimitReached(count, " mutable buffers, at most ", kMost, " are supported");
  const auto output = [&](size_t i) { return g.table->output_ids()->Get(static_cast<uint32_t>(i)); };
  std::vector<std::tuple<uint32_t, size_t, uint32_t>> pairs;  // distance, output, constant
  constexpr uint64_t kMostSteps = 200'000'000;
  uint64_t steps = 0;
  for (uint32_t v = 0; v < g.types.size(); ++v) {
    if (!g.constants[v].defined()) continue;
    std::vector<size_t> alike;
    for (size_t i = 0; i < count; ++i)
      if (g.types[output(i)].shape == g.types[v].shape &&
          is_float(g.types[output(i)].dtype) == is_float(g.types[v].dtype))
        alike.push_back(i);
    if (alike.empty()) continue;
    steps += g.types.size() + (g.table->chain() ? g.table->chain()->size() : 0);
    if (steps > kMostSteps) return LimitReached("too many constants could be the mutable buffers of the outputs");
    const std::vector<uint32_t> distance = distances(g, v);
    for (size_t i : alike)
      if (distance[output(i)] != kFar) pairs.emplace_back(distance[output(i)], i, v);
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<uint32_t> variable(count, kFar);
  for (const auto& [distance, i, v] : pairs)
    if (variable[i] == kFar && std::ranges::find(variable, v) == variable.end()) variable[i] = v;
  for (size_t i = 0; i < count; ++i)
    if (variable[i] == kFar)
      return InvalidModel("output ", i, " has no argument of the call, and no constant that it could replace");
  return variable;
}

}  // namespace smelt::executorch
