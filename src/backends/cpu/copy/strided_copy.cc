// Operators that only move elements, along strides that are known when the kernel is made.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "ops/core/strided_copy.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// More copies than this are left to the reference kernel, which prepares none of them.
constexpr size_t kMostCopies = 1024;

class StridedCopyKernel final : public Kernel {
 public:
  /// Every copy moves elements of `unit` bytes; all.fill is undefined or one such element, for `filled` elements.
  StridedCopyKernel(StridedCopies all, int64_t unit, int64_t filled, Isa isa) : fill_(std::move(all.fill)) {
    if (fill_.defined()) {
      StridedCopy repeat;
      repeat.dim(filled, 0, 1);
      const auto* bytes = fill_.data<std::byte>();
      if (!std::all_of(bytes, bytes + unit, [](std::byte b) { return b == std::byte{0}; }))
        repeat_.emplace(std::move(repeat), unit, isa);
    }
    for (StridedCopy& c : all.copies) {
      const auto input = static_cast<int>(c.input), output = static_cast<int>(c.output);
      steps_.push_back({input, output, PreparedCopy(std::move(c), unit, isa)});
    }
  }
  Status run(KernelContext& ctx) const override {
    if (fill_.defined()) {
      Tensor& y = ctx.output(0);
      if (repeat_)
        repeat_->run(ctx.threads(), fill_.data<std::byte>(), y.data<std::byte>());
      else
        std::memset(y.raw(), 0, y.bytes());
    }
    for (const Step& s : steps_)
      s.copy.run(ctx.threads(), ctx.input(s.input).data<std::byte>(), ctx.output(s.output).data<std::byte>());
    return Ok();
  }

 private:
  struct Step {
    int input, output;
    PreparedCopy copy;
  };
  std::vector<Step> steps_;
  Tensor fill_;
  std::optional<PreparedCopy> repeat_;  ///< of a fill that is not all zeros
};

}  // namespace

std::unique_ptr<Kernel> make_strided_copy(const KernelSpec& spec) {
  auto all = strided_copies(spec);
  if (!all.ok() || all->copies.size() > kMostCopies) return nullptr;
  const bool rescales = (op_info(spec.node.op).flags & kQuantized) != 0;
  int64_t unit = all->fill.defined() ? whole_bytes(all->fill.dtype()) : -1;
  for (const StridedCopy& c : all->copies) {
    const ValueType &x = spec.inputs[c.input], &y = spec.outputs[c.output];
    if (rescales && !same_quant_params(x.quant, y.quant)) return nullptr;
    if (unit < 0) unit = whole_bytes(x.dtype);
  }
  if (unit <= 0) return nullptr;
  const int64_t filled = all->fill.defined() ? spec.outputs[0].shape.elements() : 0;
  return std::make_unique<StridedCopyKernel>(std::move(*all), unit, filled, spec.isa);
}

}  // namespace smelt
