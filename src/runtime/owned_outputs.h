#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/plan.h"

namespace smelt {

/// Outputs of fewer bytes are copied from the arena: storage that steps write to in its place would cost more.
constexpr size_t kCopiedBytes = size_t{8} << 10;

/// True if two tensors share bytes.
inline bool overlap(const Tensor& a, const Tensor& b) {
  const auto *x = a.data<std::byte>(), *y = b.data<std::byte>();
  return std::less<>()(x, y + b.bytes()) && std::less<>()(y, x + a.bytes());
}

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
      if (!may_move(id)) continue;
      SMELT_ASSIGN(const Tensor own, Tensor::allocate(tensor(id).dtype(), tensor(id).shape(), false));
      move_out(id, own);
    }
    return Ok();
  }
  /// Makes outputs lie in those of `targets`, by output, that are aligned, have their type and shape and no byte in
  /// common with others or with inputs; but a target may be the memory of an input that the output is an update of.
  [[gnu::cold]] void place(std::span<const Tensor> targets, std::span<const Datum> inputs) {
    const Graph& graph = *parts_.graph;
    for (size_t i = 0; i < std::min(targets.size(), graph.outputs.size()); ++i) {
      const ValueId id = graph.outputs[i];
      const Tensor& to = targets[i];
      if (!to.raw() || reinterpret_cast<uintptr_t>(to.raw()) % alignof(std::max_align_t) != 0) continue;
      if (!may_move(id) || to.dtype() != tensor(id).dtype() || to.shape() != tensor(id).shape()) continue;
      bool apart = true;
      for (size_t k = 0; k < targets.size(); ++k) apart = apart && (k == i || !overlap(to, targets[k]));
      for (size_t k = 0; k < inputs.size(); ++k)
        apart = apart && !inputs[k].items &&
                (!inputs[k].is_tensor() || !overlap(to, inputs[k].tensor) ||
                 (inputs[k].tensor.raw() == to.raw() && parts_.may_update(graph.inputs[k], id)));
      if (apart) move_out(id, to);
    }
  }

 private:
  /// True of an output with a type of its own in the arena that is not small.
  [[gnu::cold]] bool may_move(ValueId id) const {
    return id != kNoValue && tensor(id).bytes() >= kCopiedBytes && parts_.slot_of(id) && !tensor(id).owner() &&
           parts_.findings.types[static_cast<size_t>(id)].is_static() &&  // else it gets its shape later
           std::ranges::find(moved_, id, &std::pair<ValueId, void*>::first) == moved_.end();
  }
  [[gnu::cold]] void move_out(ValueId id, const Tensor& storage) {
    moved_.emplace_back(id, tensor(id).raw());
    move(id, storage);
  }
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
