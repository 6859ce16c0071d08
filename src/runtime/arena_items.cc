#include "runtime/arena_items.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "graph/node_label.h"

namespace smelt {
namespace {

constexpr size_t kAlign = 64;  ///< of the memory that is lent

/// Makes t a view of these bytes.
void view_at(Tensor& t, std::byte* bytes) {
  QuantPtr quant = t.quant();
  t = Tensor::view(t.dtype(), t.shape(), bytes, nullptr);
  t.set_quant(std::move(quant));
}

}  // namespace

[[gnu::cold]] void ArenaItems::add(const ArenaItem& item) {
  if (kHasParts) place(item.id, item.id, 0);
  items_.push_back(item);
}

[[gnu::cold]] void ArenaItems::remove(ValueId id) {
  if (std::erase(in_place_, id) == 0) items_.erase(item_of(id));
  if (kHasParts) place(id, kNoValue, 0);
}

[[gnu::cold]] void ArenaItems::add_scratch(std::span<const Step> steps) {
  for (size_t k = 0; k < steps.size(); ++k)
    if (const size_t bytes = steps[k].scratch_bytes(); bytes >= kLargeScratch)
      items_.push_back({.bytes = bytes + kArenaSlack, .first = static_cast<int>(k), .last = static_cast<int>(k)});
}

[[gnu::cold]] Error ArenaItems::at_largest(const Error& e, std::span<const Step> steps) const {
  if (items_.empty()) return e;
  const ArenaItem& most = *std::ranges::max_element(items_, {}, &ArenaItem::bytes);
  for (const Step& s : steps)
    if (most.id == kNoValue ? &s == &steps[static_cast<size_t>(most.first)]
                            : std::ranges::count(s.node->outputs, most.id) > 0)
      return e.within(node_label(*s.node));
  return e;
}

std::vector<ArenaItem>::iterator ArenaItems::item_of(ValueId id) {
  // Mostly one of the last.
  return std::ranges::find(items_.rbegin(), items_.rend(), id, &ArenaItem::id).base() - 1;
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
  ArenaItem& item = *item_of(of);
  item.last = std::max(item.last, last);
  return true;
}

[[gnu::cold]] void ArenaItems::overwrite_input(const NodeRequest& node, const PreparedNode& prepared, int k,
                                               std::span<const int> last_use, int steps) {
  const std::vector<ValueId>&in = node.node.inputs, &out = node.node.outputs;
  if (!kHasParts || !node.fixed_shapes || out.size() != 1 || !stays(out[0], last_use, steps)) return;
  const ValueType& y = node.outputs[0];
  for (size_t i = 0; i < in.size(); ++i) {
    const ValueType& x = node.inputs[i];
    if (!stays(in[i], last_use, steps) || !prepared.may_overwrite(i) || bit_width(x.dtype) != bit_width(y.dtype) ||
        x.shape.elements() != y.shape.elements())
      continue;
    const ValueId of = within(in[i]);
    const int64_t at = offset(in[i]);
    ArenaItem& item = *item_of(of);
    const auto is_beside = [&](ValueId id) { return id != kNoValue && id != in[i] && within(id) == of; };
    if (item.last != k || std::ranges::any_of(in, is_beside)) continue;
    item.last = std::max(k, last_use[static_cast<size_t>(out[0])]);
    items_.erase(item_of(out[0]));
    place(out[0], of, at);
    in_place_.push_back(out[0]);
    return;
  }
}

[[gnu::cold]] void ArenaItems::lay_out(PlanParts& plan, const TypeOf& type, std::span<const int> last_use) const {
  for (const ArenaItem& item : items_) {
    std::byte* const place = plan.arena->data() + item.offset;
    if (item.id == kNoValue) {
      plan.steps[static_cast<size_t>(item.first)].scratch = {place, item.bytes - kArenaSlack};
      continue;
    }
    view_at(plan.values[static_cast<size_t>(item.id)].tensor, place);
    plan.slots.push_back({item.id, item.bytes});
  }
  for (const ValueId id : in_place_) {
    auto* const bytes = plan.values[static_cast<size_t>(within(id))].tensor.data<std::byte>();
    view_at(plan.values[static_cast<size_t>(id)].tensor, bytes + offset(id));
  }
  for (Step& step : plan.steps)
    if (auto* alias = std::get_if<AliasStep>(&step.work); kHasParts && alias)
      lay_out_alias(step, *alias, plan, type, last_use);
  if (!plan.arena) return;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const auto* const work = std::get_if<SegmentStep>(&plan.steps[k].work);
    if (!work || !work->segment || !work->segment->borrows()) continue;
    const std::span<std::byte> memory = unused(static_cast<int>(k), plan);
    if (!memory.empty()) plan.lent.emplace_back(work->segment.get(), memory);
  }
}

[[gnu::cold]] std::span<std::byte> ArenaItems::unused(int k, const PlanParts& plan) const {
  const auto lives = [k](const ArenaItem& item) { return item.first <= k && k <= item.last; };
  size_t begin = 0, bytes = 0;
  // From the arena's begin, or the end of a value, to the next value.
  const auto look_at = [&](size_t from) {
    size_t to = std::max(from, plan.arena_bytes / kAlign * kAlign);
    for (const ArenaItem& item : items_) {
      if (!lives(item) || item.offset + item.bytes <= from) continue;
      to = std::max(from, std::min(to, item.offset));
    }
    if (to - from <= bytes) return;
    begin = from;
    bytes = to - from;
  };
  look_at(0);
  for (const ArenaItem& item : items_)
    if (lives(item)) look_at(round_up(item.offset + item.bytes, kAlign));
  return {plan.arena->data() + begin, bytes};
}

/// Settles where the outputs of an alias of what stays in the arena lie.
[[gnu::cold]] void ArenaItems::lay_out_alias(const Step& step, AliasStep& alias, PlanParts& plan, const TypeOf& type,
                                             std::span<const int> last_use) const {
  const QuantPtr quant = alias.laid_out ? nullptr : type(step.out[0]).quant;
  const bool per_token = quant && quant->kind == Quantization::Kind::kPerToken;  // runs say how
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
