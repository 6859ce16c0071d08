#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/core/kernel.h"
#include "base/recycled_memory.h"
#include "smelt/result.h"

namespace smelt {

/// The kernel of a segment: a node's, then with what is appended to the node.
struct SegmentKernel {
  std::unique_ptr<Kernel> kernel;
  int inputs = 0;  ///< of the node, and of what was appended
  Shape made;      ///< of the output

  /// Makes the kernel of the segment's first node. nullptr: there is none.
  const KernelInfo* begin(const KernelSpec& node);
  /// Makes the kernel compute a further node, too, of which it makes input `operand`. `threads`: of the pool that run()
  /// will see. Returns the name of what computes it; nullptr: not supported, and nothing has changed.
  const char* append(const KernelSpec& node, size_t operand, int threads);

 private:
  const char* append_conv(const KernelSpec& node, size_t operand, int threads);
  const char* append_epilogue(const KernelSpec& node, size_t operand);
};

/// How the kernel of a segment was made, to make it again. Nodes and constants live as long as the plan.
class SegmentRecipe {
 public:
  bool empty() const { return parts_.empty(); }
  /// `lifetime`: of the node's constants.
  void begin(const KernelSpec& node, ConstantLifetime lifetime) { parts_.emplace_back(node, lifetime, 0, 0); }
  void append(const KernelSpec& node, ConstantLifetime lifetime, size_t operand, int threads) {
    parts_.emplace_back(node, lifetime, operand, threads);
  }
  /// Gives `kernel`, which was made so without weights, those that `packs` packs, or replaces it by one that has them.
  /// Those of constants that live as long as the plan the kernel alone holds. False: they can't be packed.
  bool complete(Isa isa, PackCache& packs, std::unique_ptr<Kernel>& kernel) const;
  /// Runs the segment, whose kernel without weights is `kernel`; it has none afterwards. Those that `packs` does not
  /// hold are packed into `memory`, over those of the segment before; of a product of one row a range of columns at a
  /// time.
  Status run_once(Isa isa, PackCache& packs, RecycledMemory& memory, KernelContext& ctx, Kernel& kernel) const;

 private:
  /// nullptr where the weights can't be packed.
  std::unique_ptr<Kernel> make(Isa isa, PackCache& packs) const;
  /// True if `kernel` took weights that `packs` packs.
  bool take_weights(Isa isa, PackCache& packs, Kernel& kernel) const;
  /// A KernelSpec, with types of its own.
  struct Part {
    Part(const KernelSpec& node, ConstantLifetime of_constants, size_t appended_to, int threads_of_both);
    KernelSpec spec(Isa isa, PackCache& packs) const;

    const Node& node;
    std::vector<ValueType> inputs, outputs;
    std::vector<const Tensor*> constants;
    ConstantLifetime lifetime;
    int threads;
    bool fixed_shapes;
    size_t operand;  ///< of append()
    int both;
  };
  std::vector<Part> parts_;
};

}  // namespace smelt
