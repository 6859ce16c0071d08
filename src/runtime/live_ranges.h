#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/step.h"

namespace smelt {

/// The last step that uses each value of the graph, by ValueId; -1: none does. A graph's output is used after the last
/// step, and a value as long as views of it. is_view: true for a node whose output is its first input's storage.
std::vector<int> last_uses(const Graph& graph, std::span<const Step> steps,
                           const std::function<bool(const Node&)>& is_view);
/// Indices of the steps that have effects, make outputs of the graph, or make what such steps read; of other values
/// only the types were asked for.
std::vector<int> needed_steps(const Graph& graph, std::span<const Step> steps);
/// True if one operand of one step alone is the value.
bool is_read_once(std::span<const Step> steps, ValueId id);
/// The input of the graph, maybe under another shape, that step k writes over and nothing else reads; kNoValue: it is
/// no kUpdate, or there is none. `last_use`: of last_uses().
ValueId input_used_up(const Graph& graph, std::span<const Step> steps, std::span<const int> last_use, int k);

}  // namespace smelt
