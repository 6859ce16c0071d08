#include "backends/cpu/core/kernel.h"

#include "base/selection.h"

namespace smelt {

#define SMELT_CPU_KERNEL(name, op, isa, doc, ...) std::unique_ptr<Kernel> make_##name(const KernelSpec& spec);
#include "backends/cpu/core/kernels.inc"
#undef SMELT_CPU_KERNEL

namespace {

using namespace operand_types;
constexpr OperandTypes C64 = OperandTypes::unquantized({DType::kC64});
constexpr Layout NHWC = Layout::kChannelsLast, NCHW = Layout::kChannelsFirst;

#define SMELT_CPU_KERNEL(name, op, isa, doc, ...) \
  {#name,                                         \
   Op::k##op,                                     \
   Isa::k##isa,                                   \
   kBuildsEverything ? doc : "",                  \
   KernelCondition{__VA_ARGS__},                  \
   builds_cpu_kernel(#op, #name) ? make_##name : nullptr},
constexpr KernelInfo kKernels[] = {
#include "backends/cpu/core/kernels.inc"
};
#undef SMELT_CPU_KERNEL

/// True if a line is for the operator.
bool is_for(const KernelInfo& info, Op op) {
  if (info.op != Op::kCount) return info.op == op;
  return op == Op::kQuantize || (op_info(op).flags & kWidensToFloat) != 0;
}

}  // namespace

std::span<const KernelInfo> all_kernels() { return kKernels; }

std::nullptr_t KernelSpec::refuse(const char* reason) const {
  if (why) *why = reason;
  return nullptr;
}

PackContents KernelSpec::contents(const char* form, std::vector<int64_t> numbers,
                                  std::initializer_list<int64_t> more) const {
  if (!kBuildsEverything) return {};  // nothing is kept
  numbers.insert(numbers.end(), more);
  numbers.push_back(static_cast<int64_t>(isa.index()));
  PackContents out{form, std::move(numbers), {constants.begin(), constants.end()}};
  for (size_t i = 0; i < constants.size(); ++i) out.quants.push_back(constants[i] ? inputs[i].quant : nullptr);
  return out;
}

std::unique_ptr<Kernel> KernelInfo::prepare(const KernelSpec& spec) const {
  if (!is_for(*this, spec.node.op)) return nullptr;
  if (!kBuildsEverything && !make) return spec.refuse("left out of this build (SMELT_FOR)");
  if (!spec.isa.contains(isa)) return spec.refuse("needs ", to_string(isa));
  return condition.met(spec, spec.why) ? make(spec) : nullptr;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, const KernelInfo** chosen) {
  if (chosen) *chosen = nullptr;
  if (!has_vectors()) return spec.refuse("the processor has no SSE4.1");
  std::string all;
  for (const KernelInfo& info : kKernels) {
    if (!is_for(info, spec.node.op)) continue;
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
