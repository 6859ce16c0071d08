#include "backends/vulkan/core/kernel.h"

#include "backends/vulkan/decompose/legalize_types.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/matmul/per_token.h"

namespace smelt::vulkan {

std::nullptr_t KernelSpec::refuse(const char* reason) const {
  if (why) *why = reason;
  return nullptr;
}

#define SMELT_GPU_KERNEL(name, op, doc, ...) std::unique_ptr<Kernel> make_##name(const KernelSpec& spec);
#define SMELT_TEXTURE_KERNEL SMELT_GPU_KERNEL
#include "backends/vulkan/core/kernels.inc"
#undef SMELT_GPU_KERNEL
#undef SMELT_TEXTURE_KERNEL

namespace {

using namespace operand_types;
constexpr OperandTypes Any = {};
constexpr OperandTypes F16 = OperandTypes::unquantized({DType::kF16});
constexpr OperandTypes Int8 = OperandTypes::unquantized({DType::kI8}) | QS8;
constexpr OperandTypes Byte = I8 | Q8;
constexpr OperandTypes Int16 = OperandTypes::unquantized({DType::kI16}) | QS16;
constexpr OperandTypes Bits8_16 = kByte | I16 | Q16;
constexpr OperandTypes Int32 = I32 | OperandTypes::quantized({DType::kI32});
constexpr OperandTypes Index = I32_64 | OperandTypes::quantized({DType::kI32, DType::kI64});
constexpr OperandTypes Quantized = Q2_8 | Q16 | OperandTypes::quantized({DType::kI32});
constexpr Layout NHWC = Layout::kChannelsLast;

#define SMELT_KERNEL_INFO(name, op, doc, ...) \
  {"vulkan:" #name, Op::k##op, doc, KernelCondition{__VA_ARGS__}, make_##name},
#define SMELT_NOTHING(...)

constexpr KernelInfo kKernels[] = {
#define SMELT_GPU_KERNEL SMELT_KERNEL_INFO
#define SMELT_TEXTURE_KERNEL SMELT_NOTHING
#include "backends/vulkan/core/kernels.inc"
#undef SMELT_GPU_KERNEL
#undef SMELT_TEXTURE_KERNEL
};

constexpr KernelInfo kTextureKernels[] = {
#define SMELT_GPU_KERNEL SMELT_NOTHING
#define SMELT_TEXTURE_KERNEL SMELT_KERNEL_INFO
#include "backends/vulkan/core/kernels.inc"
#undef SMELT_GPU_KERNEL
#undef SMELT_TEXTURE_KERNEL
};

/// What the device lacks of `features`; nullptr: nothing.
const char* missing(uint32_t features, const Device& device) {
  const DeviceInfo& info = device.info();
  if ((features & kFloat64) && !info.float64) return "float64";
  if ((features & kInt64) && !info.int64) return "64-bit integers";
  if ((features & kDotProduct) && !uses_integer_dot_product(device)) return "fast integer dot products";
  if ((features & kFp16Matrix) && !info.half_matrices) return "cooperative matrices of float16";
  if ((features & kInt8Products) && !uses_integer_dot_product(device) && !info.int8_matrices)
    return "integer dot products or cooperative matrices of int8";
  if ((features & kEightLaneSubgroups) && (info.type != "CPU" || info.subgroup_size != 8))
    return "subgroups of eight lanes of a processor";
  return nullptr;
}

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
    if (info.op != spec.node.op || !info.applies(spec, nullptr)) continue;
    auto kernel = info.make(spec);
    if (!kernel || !binds_inputs(spec, *kernel)) continue;
    if (chosen) *chosen = &info;
    return kernel;
  }
  return nullptr;
}

const KernelInfo kLegalized = {"vulkan:legalized_types",
                               Op::kCount,
                               "a kernel of the list in wider element types, between conversions",
                               {},
                               nullptr};

}  // namespace

bool KernelInfo::applies(const KernelSpec& spec, std::string* why) const {
  const char* lacks = missing(condition.features, spec.device);
  if (!lacks) return condition.met(spec, why);
  if (why) *why = Cat("the device has no ", lacks);
  return false;
}

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
