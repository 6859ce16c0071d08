// Operators that only move elements, along strides that are known when the kernel is made.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
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
  /// apart: no copy writes what another one writes.
  StridedCopyKernel(StridedCopies all, int64_t unit, int64_t filled, bool apart, Isa isa)
      : apart_(apart), fill_(std::move(all.fill)) {
    if (fill_.defined()) {
      StridedCopy repeat;
      repeat.dim(filled, 0, 1);
      const auto* bytes = fill_.data<std::byte>();
      if (!std::ranges::all_of(bytes, bytes + unit, [](std::byte b) { return b == std::byte{0}; }))
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
        ctx.threads().parallel_for(static_cast<int64_t>(y.bytes()), kZeroedAtOnce,
                                   [to = y.data<std::byte>()](int64_t begin, int64_t end) {
                                     std::memset(to + begin, 0, static_cast<size_t>(end - begin));
                                   });
    }
    const auto copy = [&](const Step& s, int64_t part, int64_t parts) {
      s.copy.run_part(ctx.input(s.input).data<std::byte>(), ctx.output(s.output).data<std::byte>(), part, parts);
    };
    // Where no copy writes what another one does, each thread does its part of all.
    const size_t together = apart_ ? steps_.size() : 1;
    for (size_t first = 0; first < steps_.size(); first += together) {
      const std::span<const Step> steps(steps_.data() + first, together);
      int64_t bytes = 0;
      for (const Step& s : steps) bytes += s.copy.bytes();
      const int64_t parts = PreparedCopy::parts(bytes, ctx.threads().threads());
      ctx.threads().parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          for (const Step& s : steps) copy(s, i, parts);
      });
    }
    return Ok();
  }

 private:
  struct Step {
    int input, output;
    PreparedCopy copy;
  };
  static constexpr int64_t kZeroedAtOnce = 64 * 1024;  ///< bytes that a thread takes
  std::vector<Step> steps_;
  bool apart_;  ///< no step writes what another one writes
  Tensor fill_;
  std::optional<PreparedCopy> repeat_;  ///< of a fill that is not all zeros
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_strided_copy(const KernelSpec& spec) {
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
  const bool apart = spec.node.op == Op::kConcat || spec.node.op == Op::kSplit;
  return std::make_unique<StridedCopyKernel>(std::move(*all), unit, filled, apart, spec.isa);
}

}  // namespace smelt
