#include "backends/cpu/core/segment_kernel.h"

#include "backends/cpu/conv/row_chain.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/matmul/column_ranges.h"
#include "base/error.h"

namespace smelt {

const KernelInfo* SegmentKernel::begin(const KernelSpec& node) {
  const KernelInfo* chosen = nullptr;
  kernel = make_kernel(node, &chosen);
  if (!kernel) return nullptr;
  inputs = static_cast<int>(node.inputs.size());
  made = node.outputs[0].shape;
  return chosen;
}

const char* SegmentKernel::append(const KernelSpec& node, size_t operand, int threads) {
  const char* name = node.node.op == Op::kConv ? append_conv(node, operand, threads) : append_epilogue(node, operand);
  if (!name) return nullptr;
  inputs += static_cast<int>(node.inputs.size()) - 1;
  made = node.outputs[0].shape;
  return name;
}

const char* SegmentKernel::append_conv(const KernelSpec& node, size_t operand, int threads) {
  if (operand != 0 || !(node.inputs[0].shape == made) || !may_chain_rows(node)) return nullptr;
  const KernelInfo* chosen = nullptr;
  auto next = make_kernel(node, &chosen);
  return next && chain_rows(kernel, next, threads) ? chosen->name : nullptr;
}

const char* SegmentKernel::append_epilogue(const KernelSpec& node, size_t operand) {
  const Shape& y = node.outputs[0].shape;
  if (made.rank() == 0 || y.rank() == 0 || made[made.rank() - 1] != y[y.rank() - 1]) return nullptr;
  const EpilogueF32 epilogue = EpilogueF32::make(node, operand, inputs, node.isa);
  return epilogue && kernel->take_epilogue(epilogue) ? "epilogue" : nullptr;
}

SegmentRecipe::Part::Part(const KernelSpec& of, ConstantLifetime of_constants, size_t appended_to, int threads_of_both)
    : node(of.node),
      inputs(of.inputs.begin(), of.inputs.end()),
      outputs(of.outputs.begin(), of.outputs.end()),
      constants(of.constants.begin(), of.constants.end()),
      lifetime(of_constants),
      threads(of.threads),
      fixed_shapes(of.fixed_shapes),
      operand(appended_to),
      both(threads_of_both) {}

KernelSpec SegmentRecipe::Part::spec(Isa isa, PackCache& packs) const {
  return {{node, inputs, constants, outputs}, isa, threads, packs, nullptr, fixed_shapes};
}

std::unique_ptr<Kernel> SegmentRecipe::make(Isa isa, PackCache& packs) const {
  PackCache plan_packs(packs.mode());  // keys are addresses: those of a plan's constants mean nothing to the model
  SegmentKernel made;
  for (const Part& part : parts_) {
    const KernelSpec spec = part.spec(isa, part.lifetime == ConstantLifetime::kModel ? packs : plan_packs);
    if (&part == parts_.data() ? !made.begin(spec) : !made.append(spec, part.operand, part.both)) return nullptr;
  }
  return std::move(made.kernel);
}

bool SegmentRecipe::take_weights(Isa isa, PackCache& packs, Kernel& kernel) const {
  TakesWeights* const taker = kernel.takes_weights();
  if (!taker || parts_.size() > 1 || parts_[0].lifetime != ConstantLifetime::kModel) return false;
  taker->take_weights(parts_[0].spec(isa, packs));
  return true;
}

bool SegmentRecipe::complete(Isa isa, PackCache& packs, std::unique_ptr<Kernel>& kernel) const {
  if (take_weights(isa, packs, *kernel)) return true;
  auto made = make(isa, packs);
  if (!made) return false;
  kernel = std::move(made);
  return true;
}

Status SegmentRecipe::run_once(Isa isa, PackCache& packs, RecycledMemory& memory, KernelContext& ctx,
                               Kernel& kernel) const {
  if (const KernelSpec spec = parts_[0].spec(isa, packs); parts_.size() == 1 && has_column_ranges(spec))
    return run_column_ranges(spec, memory, ctx);
  const RecycledMemory::Use use(memory);
  PackCache own(packs);
  if (take_weights(isa, own, kernel)) {
    const Status done = kernel.run(ctx);
    PackCache none(PackCache::Mode::kDry);
    take_weights(isa, none, kernel);
    return done;
  }
  const auto made = make(isa, own);
  return made ? made->run(ctx) : Unsupported("the weights can't be packed");
}

}  // namespace smelt
