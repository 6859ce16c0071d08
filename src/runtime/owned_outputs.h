#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/plan.h"

namespace smelt {

/// Outputs of fewer bytes are copied from the arena: storage that steps write to in its place would cost more.
constexpr size_t kCopiedBytes = size_t{8} << 10;

/// Outputs of a run in storage of their own, which steps write to in place of the arena, for as long as this lives.
class OwnedOutputs {
 public:
  explicit OwnedOutputs(PlanParts& parts) : parts_(parts) {}
  OwnedOutputs(const OwnedOutputs&) = delete;
  OwnedOutputs& operator=(const OwnedOutputs&) = delete;
  ~OwnedOutputs() {
    if (!moved_.empty()) move_back();
  }
  /// Gives storage to those outputs that have memory in the arena, but for small ones.
  Status allocate() {
    for (const ValueId id : parts_.graph->outputs) {
      if (id == kNoValue || tensor(id).bytes() < kCopiedBytes || !parts_.slot_of(id) || tensor(id).owner()) continue;
      if (!parts_.findings.types[static_cast<size_t>(id)].is_static()) continue;  // it gets its shape later
      void* const in_arena = tensor(id).raw();
      SMELT_ASSIGN(const Tensor own, Tensor::allocate(tensor(id).dtype(), tensor(id).shape(), false));
      moved_.emplace_back(id, in_arena);
      move(id, own);
    }
    return Ok();
  }

 private:
  Tensor& tensor(ValueId id) const { return parts_.values[static_cast<size_t>(id)].tensor; }
  [[gnu::cold]] void move_back() const {
    for (const auto& [id, in_arena] : moved_) move(id, Tensor::view(DType::kU8, Shape{}, in_arena, nullptr));
  }
  /// The value lies where `storage` does from now on.
  [[gnu::cold]] void move(ValueId id, const Tensor& storage) const {
    Tensor& t = tensor(id);
    Tensor moved = Tensor::view(t.dtype(), t.shape(), storage.raw(), storage.owner());
    moved.set_quant(t.quant());
    t = std::move(moved);
  }
  PlanParts& parts_;
  std::vector<std::pair<ValueId, void*>> moved_;  ///< with where they lie in the arena
};

}  // namespace smelt
