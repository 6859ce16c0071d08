#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "base/arena.h"
#include "base/error.h"
#include "ops/core/node_spec.h"
#include "runtime/node_facts.h"
#include "runtime/plan.h"

namespace smelt {

/// The values that a plan lays out in its arena, and those that lie within these.
class ArenaItems {
 public:
  /// False where no model of the build has values within others but aliases of all of them, which runs make.
  static constexpr bool kHasParts = std::ranges::any_of(kPartOps, [](const auto& op) { return op.second; });
  void begin(size_t values) {
    if (!kHasParts) return;
    within_.resize(values, kNoValue);
    offsets_.resize(values);
  }
  /// An item for the value item.id.
  void add(const ArenaItem& item);
  /// Scratch memory of so many bytes and more lies in the arena, among values that are not there at its step. Less is
  /// the same memory for all steps.
  static constexpr size_t kLargeScratch = size_t{1} << 18;
  /// Items for the large scratch memory of steps.
  void add_scratch(std::span<const Step> steps);
  /// Precondition: the value was added.
  void remove(ValueId id);
  /// `out` has the storage of `in`, wherever that lies.
  void alias(ValueId out, ValueId in) {
    if (kHasParts) place(out, within(in), offset(in));
  }
  /// True if the node's outputs are parts of what stays in the arena, which then lives as long as they do. `last_use`:
  /// of each value, the number of steps for outputs of the graph, which runs may move.
  bool add_parts(const NodeSpec& node, std::span<const int> last_use, int steps);
  /// Gives the output of step k, if there is but one, the storage of an input that has as many bytes, is read by no
  /// step behind it and may be overwritten, where there is such an input and shapes are fixed. Precondition: the output
  /// was added.
  void overwrite_input(const NodeRequest& node, const PreparedNode& prepared, int k, std::span<const int> last_use,
                       int steps);
  /// Makes the plan's values views of its arena, those within others included, and lends what they leave to segments.
  /// `type`: of a value. Precondition: the items have offsets.
  void lay_out(PlanParts& plan, const TypeOf& type, std::span<const int> last_use) const;

  std::vector<ArenaItem>& items() { return items_; }
  /// A fault of the whole arena, told where its largest value is made.
  Error at_largest(const Error& e, std::span<const Step> steps) const;

 private:
  ValueId within(ValueId id) const { return within_[static_cast<size_t>(id)]; }
  int64_t offset(ValueId id) const { return offsets_[static_cast<size_t>(id)]; }
  /// Precondition: the value has an item.
  std::vector<ArenaItem>::iterator item_of(ValueId id);
  void place(ValueId id, ValueId of, int64_t offset) {
    within_[static_cast<size_t>(id)] = of;
    offsets_[static_cast<size_t>(id)] = offset;
  }
  /// True of a value in the arena that is no output of the graph, nor storage of one.
  bool stays(ValueId id, std::span<const int> last_use, int steps) const;
  /// The largest part of the arena that no value has while step k runs.
  std::span<std::byte> unused(int k, const PlanParts& plan) const;
  void lay_out_alias(const Step& step, AliasStep& alias, PlanParts& plan, const TypeOf& type,
                     std::span<const int> last_use) const;

  std::vector<ArenaItem> items_;
  // By value: the one with an item that it lies within, itself for instance, or kNoValue; how far from its beginning.
  std::vector<ValueId> within_;
  std::vector<int64_t> offsets_;
  std::vector<ValueId> in_place_;  ///< outputs that overwrite inputs
};

}  // namespace smelt
