#include "runtime/arena_items.h"

#include <algorithm>
#include <utility>

namespace smelt {

[[gnu::cold]] void ArenaItems::add(const ArenaItem& item) {
  if (kHasParts) place(item.id, item.id, 0);
  items_.push_back(item);
}

[[gnu::cold]] void ArenaItems::remove(ValueId id) {
  items_.erase(std::ranges::find(items_, id, &ArenaItem::id));
  if (kHasParts) place(id, kNoValue, 0);
}

ValueId ArenaItems::largest() const {
  return items_.empty() ? kNoValue : std::ranges::max_element(items_, {}, &ArenaItem::bytes)->id;
}

bool ArenaItems::stays(ValueId id, std::span<const int> last_use, int steps) const {
  const ValueId of = id == kNoValue ? kNoValue : within(id);
  return of != kNoValue && last_use[static_cast<size_t>(of)] < steps;
}

[[gnu::cold]] bool ArenaItems::add_parts(const NodeSpec& spec, std::span<const int> last_use, int steps) {
  const std::vector<ValueId>& outputs = spec.node.outputs;
  if (spec.node.inputs.empty() || !stays(spec.node.inputs[0], last_use, steps)) return false;
  const std::vector<int64_t> offsets = offsets_of_parts(spec);
  if (offsets.empty()) return false;
  int last = -1;
  for (const ValueId id : outputs)
    if (id != kNoValue) last = std::max(last, last_use[static_cast<size_t>(id)]);
  if (last >= steps) return false;
  const ValueId of = within(spec.node.inputs[0]);
  const int64_t first = offset(spec.node.inputs[0]);
  for (size_t i = 0; i < offsets.size(); ++i)
    if (outputs[i] != kNoValue) place(outputs[i], of, first + offsets[i]);
  ArenaItem& item = *std::ranges::find(items_, of, &ArenaItem::id);
  item.last = std::max(item.last, last);
  return true;
}

[[gnu::cold]] void ArenaItems::lay_out(PlanParts& plan, const TypeOf& type, std::span<const int> last_use) const {
  for (const ArenaItem& item : items_) {
    Tensor& t = plan.values[static_cast<size_t>(item.id)].tensor;
    QuantPtr quant = t.quant();
    t = Tensor::view(t.dtype(), t.shape(), plan.arena->data() + item.offset, nullptr);
    t.set_quant(std::move(quant));
    plan.slots.push_back({item.id, item.bytes});
  }
  for (Step& step : plan.steps)
    if (auto* alias = std::get_if<AliasStep>(&step.work); kHasParts && alias)
      lay_out_alias(step, *alias, plan, type, last_use);
}

/// Settles where the outputs of an alias of what stays in the arena lie.
[[gnu::cold]] void ArenaItems::lay_out_alias(const Step& step, AliasStep& alias, PlanParts& plan, const TypeOf& type,
                                             std::span<const int> last_use) const {
  const bool per_token = alias.quant && alias.quant->kind == Quantization::Kind::kPerToken;  // runs say how
  if (per_token || !stays(step.in[0], last_use, static_cast<int>(plan.steps.size()))) return;
  for (const ValueId id : step.out) {
    if (id == kNoValue) continue;
    const ValueType& t = type(id);
    auto* const bytes = plan.values[static_cast<size_t>(within(id))].tensor.data<std::byte>();
    Tensor within_item = Tensor::view(t.dtype, t.shape, bytes + offset(id), nullptr);
    within_item.set_quant(t.quant);
    plan.values[static_cast<size_t>(id)] = Datum(std::move(within_item));
  }
  alias.laid_out = true;
}

}  // namespace smelt
