#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
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

/// Memory of outputs that callers own. What they have let go of is given again: memory that is new to a process takes a
/// page fault for each page, which took a third of the time of a step with growing caches.
class GivenMemory {
 public:
  /// At least `bytes` bytes, which are given again once the result's last copy is gone, on whatever thread; null: there
  /// are none.
  std::shared_ptr<const void> take(size_t bytes);
  /// Frees what nobody has any more.
  void drop_unused();

 private:
  struct Block {
    explicit Block(Tensor m) : memory(std::move(m)) {}
    Tensor memory;                   ///< bytes
    std::atomic<bool> given = true;  ///< a caller has it; false is stored by whichever thread lets go of it
  };
  std::vector<std::shared_ptr<Block>> blocks_;
};

/// Outputs of a run in storage of their own, which steps write to in place of the arena, for as long as this lives.
class OwnedOutputs {
 public:
  explicit OwnedOutputs(PlanParts& parts) : parts_(parts) {}
  OwnedOutputs(const OwnedOutputs&) = delete;
  OwnedOutputs& operator=(const OwnedOutputs&) = delete;
  ~OwnedOutputs();
  /// Gives storage to those outputs that have memory in the arena, but for small ones.
  Status allocate(GivenMemory& memory);
  /// Makes outputs lie in those of `targets`, by output, that are aligned, have their type and shape and no byte in
  /// common with others or with inputs; but a target may be the memory of an input that the output is an update of.
  void place(std::span<const Tensor> targets, std::span<const Datum> inputs);

 private:
  bool may_move(ValueId id) const;
  void move_out(ValueId id, const void* storage, std::shared_ptr<const void> owner);
  void move(ValueId id, const void* storage, std::shared_ptr<const void> owner) const;
  Tensor& tensor(ValueId id) const { return parts_.values[static_cast<size_t>(id)].tensor; }
  PlanParts& parts_;
  std::vector<std::pair<ValueId, void*>> moved_;  ///< with where they lie in the arena
};

}  // namespace smelt
