#include "runtime/owned_outputs.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/error.h"

namespace smelt {

std::shared_ptr<const void> GivenMemory::take(size_t bytes) {
  Tensor* block = nullptr;
  for (Datum& b : blocks_) {
    const size_t has = b.tensor.bytes();
    const bool fits = b.tensor.owner().use_count() == 1 && has >= bytes && has / 4 <= bytes;
    if (fits || (!b.tensor.owner() && !block)) block = &b.tensor;
    if (fits) break;
  }
  if (!block) block = &blocks_.emplace_back().tensor;
  if (!block->owner()) {
    const size_t capacity = bytes + bytes / 8;  // caches grow from run to run
    auto made = Tensor::allocate(DType::kU8, Shape{static_cast<int64_t>(capacity)}, false);
    if (!made.ok()) return nullptr;
    *block = std::move(*made);
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // other threads may have read it
  // Owned by callers alone.
  return {block->raw(), [memory = block->owner()](const void*) {}};
}

void GivenMemory::drop_unused() {
  for (Datum& b : blocks_)
    if (b.tensor.owner().use_count() == 1) b = {};
}

OwnedOutputs::~OwnedOutputs() {
  for (const auto& [id, in_arena] : moved_) move(id, in_arena, nullptr);
}

Status OwnedOutputs::allocate(GivenMemory& memory) {
  for (const ValueId id : parts_.graph->outputs) {
    if (!may_move(id)) continue;
    auto own = memory.take(tensor(id).bytes());
    if (!own) return LimitReached("no memory for an output of ", tensor(id).bytes(), " bytes");
    move_out(id, own.get(), own);
  }
  if (!moved_.empty()) memory.drop_unused();
  return Ok();
}

void OwnedOutputs::place(std::span<const Tensor> targets, std::span<const Datum> inputs) {
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
    if (apart) move_out(id, to.raw(), to.owner());
  }
}

/// True of an output with a type of its own in the arena that is not small.
bool OwnedOutputs::may_move(ValueId id) const {
  return id != kNoValue && tensor(id).bytes() >= kCopiedBytes && parts_.slot_of(id) && !tensor(id).owner() &&
         parts_.findings.types[static_cast<size_t>(id)].is_static() &&  // else it gets its shape later
         std::ranges::find(moved_, id, &std::pair<ValueId, void*>::first) == moved_.end();
}

void OwnedOutputs::move_out(ValueId id, const void* storage, std::shared_ptr<const void> owner) {
  moved_.emplace_back(id, tensor(id).raw());
  move(id, storage, std::move(owner));
}

/// The value lies in `storage` from now on.
void OwnedOutputs::move(ValueId id, const void* storage, std::shared_ptr<const void> owner) const {
  Tensor& t = tensor(id);
  Tensor moved = Tensor::view(t.dtype(), t.shape(), storage, std::move(owner));
  moved.set_quant(t.quant());
  t = std::move(moved);
}

}  // namespace smelt
