#include "backends/cpu/core/kernel.h"

namespace smelt {
namespace {
#define SMELT_CPU_KERNEL(name, op, isa, doc) {#name, Op::k##op, Isa::k##isa, doc, make_##name},
constexpr KernelInfo kKernels[] = {
#include "backends/cpu/core/kernels.inc"
};
#undef SMELT_CPU_KERNEL
}  // namespace

std::span<const KernelInfo> all_kernels() { return kKernels; }

std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, const KernelInfo** chosen) {
  if (chosen) *chosen = nullptr;
  if (!has_vectors()) return nullptr;
  for (const KernelInfo& info : kKernels) {
    if (info.op != spec.node.op || info.isa > spec.isa) continue;
    if (auto kernel = info.make(spec)) {
      if (chosen) *chosen = &info;
      return kernel;
    }
  }
  return nullptr;
}

}  // namespace smelt
