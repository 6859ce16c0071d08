#include "backends/cpu/core/kernel.h"

namespace smelt {

#define SMELT_CPU_KERNEL(name, op, isa, doc, ...) std::unique_ptr<Kernel> make_##name(const KernelSpec& spec);
#include "backends/cpu/core/kernels.inc"
#undef SMELT_CPU_KERNEL

namespace {

// The types that the lines of the list name. Integers are quantized (Q) or not (I); the number is their bits.
constexpr OperandTypes F32 = OperandTypes::unquantized({DType::kF32});
constexpr OperandTypes I8 = OperandTypes::unquantized({DType::kI8, DType::kU8});
constexpr OperandTypes I16 = OperandTypes::unquantized({DType::kI16, DType::kU16});
constexpr OperandTypes I32_64 = OperandTypes::unquantized({DType::kI32, DType::kI64});
constexpr OperandTypes Bool = OperandTypes::unquantized({DType::kBool}) | OperandTypes::quantized({DType::kBool});
constexpr OperandTypes Q4 = OperandTypes::quantized({DType::kI4, DType::kU4});
constexpr OperandTypes QS8 = OperandTypes::quantized({DType::kI8});
constexpr OperandTypes Q8 = OperandTypes::quantized({DType::kI8, DType::kU8});
constexpr OperandTypes Q2_8 = OperandTypes::quantized({DType::kI2, DType::kU2}) | Q4 | Q8;
constexpr OperandTypes QS16 = OperandTypes::quantized({DType::kI16});
constexpr OperandTypes Q16 = OperandTypes::quantized({DType::kI16, DType::kU16});
constexpr OperandTypes Q8_32 = Q8 | OperandTypes::quantized({DType::kI16, DType::kI32});
constexpr OperandTypes kByte = I8 | Q8 | Bool;
constexpr Layout NHWC = Layout::kChannelsLast, NCHW = Layout::kChannelsFirst;

#define SMELT_CPU_KERNEL(name, op, isa, doc, ...) \
  {#name, Op::k##op, Isa::k##isa, doc, KernelCondition{__VA_ARGS__}, make_##name},
constexpr KernelInfo kKernels[] = {
#include "backends/cpu/core/kernels.inc"
};
#undef SMELT_CPU_KERNEL

}  // namespace

std::span<const KernelInfo> all_kernels() { return kKernels; }

std::unique_ptr<Kernel> KernelInfo::prepare(const KernelSpec& spec) const {
  if (op != spec.node.op) return nullptr;
  if (!spec.isa.contains(isa)) return spec.refuse("needs ", to_string(isa));
  return condition.met(spec, spec.why) ? make(spec) : nullptr;
}

std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, const KernelInfo** chosen) {
  if (chosen) *chosen = nullptr;
  if (!has_vectors()) return spec.refuse("the processor has no SSE4.1");
  std::string all;
  for (const KernelInfo& info : kKernels) {
    if (info.op != spec.node.op) continue;
    if (spec.why) spec.why->clear();
    if (auto kernel = info.prepare(spec)) {
      if (chosen) *chosen = &info;
      return kernel;
    }
    if (spec.why)
      all += Cat(all.empty() ? "" : "; ", info.name, ": ", spec.why->empty() ? "does not apply" : *spec.why);
  }
  if (spec.why) *spec.why = std::move(all);
  return nullptr;
}

}  // namespace smelt
