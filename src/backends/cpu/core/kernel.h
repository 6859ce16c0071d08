#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/cpu/core/isa.h"
#include "backends/cpu/core/pack_cache.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"

namespace smelt {

/// What a kernel is chosen and prepared for. The spans and references are only valid during make_kernel().
struct KernelSpec : NodeSpec {
  Isa isa = Isa::kBaseline;
  int threads = 1;  ///< of the pool that run() will see
  PackCache& packs;
};

/// A prepared kernel: knows all shapes, holds packed weights. Immutable, so one object may run in several threads at
/// once, each with a context of its own.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Bytes that run() asks ctx.scratch() for, in one call.
  virtual size_t scratch_bytes() const { return 0; }
  /// Inputs have the types of the spec, outputs are allocated with theirs. Allocates nothing.
  virtual Status run(KernelContext& ctx) const = 0;
};

/// True if a value is float32 without quantization.
inline bool is_unquantized_f32(const ValueType& t) { return t.dtype == DType::kF32 && !t.quant; }

/// One entry of the kernel list, backends/cpu/core/kernels.inc.
struct KernelInfo {
  const char* name;
  Op op;
  Isa isa;  ///< lowest level that it needs
  const char* doc;
  std::unique_ptr<Kernel> (*make)(const KernelSpec&);  ///< null: the kernel does not apply
};

std::span<const KernelInfo> all_kernels();

/// The first kernel of the list that applies to the node, or null: then the reference kernel runs it.
std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, const KernelInfo** chosen = nullptr);

#define SMELT_CPU_KERNEL(name, op, isa, doc) std::unique_ptr<Kernel> make_##name(const KernelSpec& spec);
#include "backends/cpu/core/kernels.inc"
#undef SMELT_CPU_KERNEL

}  // namespace smelt
