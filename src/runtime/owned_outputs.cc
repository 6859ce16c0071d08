#include "runtime/owned_outputs.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace smelt {

std::shared_ptr<const void> GivenMemory::take(size_t bytes) {
  const auto at = std::ranges::find_if(blocks_, [bytes](const auto& b) {
    const size_t has = b->memory.bytes();
    return has >= bytes && has / 4 <= bytes && !b->given.load(std::memory_order_acquire);
  });
  std::shared_ptr<Block> block;
  if (at != blocks_.end()) {
    block = *at;
    block->given.store(true, std::memory_order_relaxed);
  } else {
    const size_t capacity = bytes + bytes / 8;  // caches grow from run to run
    auto made = Tensor::allocate(DType::kU8, Shape{static_cast<int64_t>(capacity)}, false);
    if (!made.ok()) return nullptr;
    block = blocks_.emplace_back(std::make_shared<Block>(std::move(*made)));
  }
  const void* memory = block->memory.raw();
  return {memory, [b = std::move(block)](const void*) { b->given.store(false, std::memory_order_release); }};
}

void GivenMemory::drop_unused() {
  std::erase_if(blocks_, [](const auto& b) { return !b->given.load(std::memory_order_acquire); });
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
