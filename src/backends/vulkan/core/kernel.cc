#include "backends/vulkan/core/kernel.h"

#include "backends/vulkan/decompose/legalize_types.h"
#include "backends/vulkan/device/device.h"

namespace smelt::vulkan {
namespace {

#define SMELT_KERNEL_INFO(name, op, doc) {"vulkan:" #name, Op::k##op, doc, make_##name},
#define SMELT_NOTHING(name, op, doc)

const KernelInfo kKernels[] = {
#define SMELT_GPU_KERNEL SMELT_KERNEL_INFO
#define SMELT_TEXTURE_KERNEL SMELT_NOTHING
#include "backends/vulkan/core/kernels.inc"
#undef SMELT_GPU_KERNEL
#undef SMELT_TEXTURE_KERNEL
};

const KernelInfo kTextureKernels[] = {
#define SMELT_GPU_KERNEL SMELT_NOTHING
#define SMELT_TEXTURE_KERNEL SMELT_KERNEL_INFO
#include "backends/vulkan/core/kernels.inc"
#undef SMELT_GPU_KERNEL
#undef SMELT_TEXTURE_KERNEL
};

bool fits(const Device& device, const ValueType& t) {
  if (!device.stores(t.dtype)) return false;
  const auto n = t.shape.checked_elements();
  return n.ok() && *n > 0 && *n < (int64_t{1} << 31) && Tensor::byte_size(t.dtype, *n) <= device.max_binding();
}

/// True if the device can bind every non-constant input that the kernel reads, and every constant that it does not bind
/// in slices.
bool binds_inputs(const KernelSpec& spec, const Kernel& kernel) {
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!spec.has(i)) continue;
    if (const Tensor* t = spec.constant(i)) {
      if (t->bytes() > spec.device.max_binding() && !kernel.binds_slices(i)) return false;
    } else if (kernel.reads(i) && !fits(spec.device, spec.inputs[i])) {
      return false;
    }
  }
  return true;
}

/// True if the device can store every output, and no input's element count overflows.
bool fits(const KernelSpec& spec) {
  for (size_t i = 0; i < spec.outputs.size(); ++i)
    if (spec.node.outputs[i] != kNoValue && !fits(spec.device, spec.outputs[i])) return false;
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (spec.has(i) && !spec.inputs[i].shape.checked_elements().ok()) return false;
  return true;
}

std::unique_ptr<Kernel> choose(std::span<const KernelInfo> list, const KernelSpec& spec, const KernelInfo** chosen) {
  for (const KernelInfo& info : list) {
    if (info.op != spec.node.op) continue;
    auto kernel = info.make(spec);
    if (!kernel || !binds_inputs(spec, *kernel)) continue;
    if (chosen) *chosen = &info;
    return kernel;
  }
  return nullptr;
}

const KernelInfo kLegalized = {"vulkan:legalized_types", Op::kCount,
                               "a kernel of the list in wider element types, between conversions", nullptr};

}  // namespace

std::span<const KernelInfo> all_kernels() { return kKernels; }
std::span<const KernelInfo> all_texture_kernels() { return kTextureKernels; }

std::unique_ptr<Kernel> listed_kernel(const KernelSpec& spec, const KernelInfo** chosen) {
  return choose(kKernels, spec, chosen);
}

std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, const KernelInfo** chosen) {
  if (!fits(spec)) return nullptr;
  if (auto kernel = listed_kernel(spec, chosen)) return kernel;
  auto kernel = make_legalized(spec);
  if (!kernel || !binds_inputs(spec, *kernel)) return nullptr;
  if (chosen) *chosen = &kLegalized;
  return kernel;
}

std::unique_ptr<Kernel> make_texture_kernel(const KernelSpec& spec, const KernelInfo** chosen) {
  return fits(spec) ? choose(kTextureKernels, spec, chosen) : nullptr;
}

}  // namespace smelt::vulkan
