// Concat of 8-bit values with several quantization parameters into those of the output, by tables of 256.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/elementwise/lookup_table.h"
#include "ops/common/index.h"
#include "ops/shape/copies.h"
#include "ops/shape/shape.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

class ConcatRequantize final : public Kernel {
 public:
  struct Input {
    int64_t run = 0;  ///< bytes that are neighbours in the output
    bool copied = false;
    RescaleTable table{};  ///< unless copied
  };
  ConcatRequantize(std::vector<Input> inputs, int64_t outer, LookUp8 lookup)
      : inputs_(std::move(inputs)), outer_(outer), lookup_(lookup) {
    for (const Input& in : inputs_) row_ += in.run;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(kBlockBytes); }
  Status run(KernelContext& ctx) const override {
    auto* const looked_up = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!looked_up) return Error(ErrorCode::kLimit, "no memory for the values of a concatenation");
    const int64_t block = std::max<int64_t>(1, kBlockBytes / row_);
    for (int64_t first = 0; first < outer_; first += block) {
      const int64_t count = std::min(outer_ - first, block);
      auto* y = ctx.output(0).data<uint8_t>() + first * row_;
      for (size_t i = 0; i < inputs_.size(); y += inputs_[i++].run) {
        const Input& in = inputs_[i];
        if (in.run == 0) continue;
        const auto* x = ctx.input(static_cast<int>(i)).data<uint8_t>() + first * in.run;
        if (in.copied) {
          copy_runs(x, in.run, count, y);
        } else if (count == 1) {
          lookup_(in.table.data(), x, in.run, y);
        } else {
          lookup_(in.table.data(), x, in.run * count, looked_up);
          copy_runs(looked_up, in.run, count, y);
        }
      }
    }
    return Ok();
  }

 private:
  /// Of the output, which all inputs fill while it is in the cache.
  static constexpr int64_t kBlockBytes = 32 * 1024;

  /// `count` runs side by side into rows of the output.
  void copy_runs(const uint8_t* from, int64_t run, int64_t count, uint8_t* to) const {
    constexpr int64_t kVector = 16, kLong = 256;
    if (run < kVector || run > kLong) {
      for (int64_t o = 0; o < count; ++o) std::memcpy(to + o * row_, from + o * run, static_cast<size_t>(run));
      return;
    }
    for (int64_t o = 0; o < count; ++o, from += run, to += row_) {
      for (int64_t i = 0; i < run - kVector; i += kVector) std::memcpy(to + i, from + i, kVector);
      std::memcpy(to + run - kVector, from + run - kVector, kVector);
    }
  }

  std::vector<Input> inputs_;
  int64_t outer_, row_ = 0;
  LookUp8 lookup_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_concat_requantize(const KernelSpec& spec) {
  const ValueType& y = spec.outputs[0];
  const auto axis = normalize_axis(spec.attrs<AxisAttrs>().axis, y.shape.rank());
  if (!axis.ok() || y.shape.elements() == 0) return nullptr;
  const AxisView view = axis_view(y.shape, *axis);
  std::vector<ConcatRequantize::Input> inputs;
  bool all_copied = true;
  for (const ValueType& x : spec.inputs) {
    ConcatRequantize::Input in;
    in.run = x.shape.elements() > 0 ? x.shape[*axis] * view.inner : 0;
    in.copied = same_quant_params(x.quant, y.quant);
    if (!in.copied) {
      const auto table = rescale_table(x, y);
      if (!table) return nullptr;
      in.table = *table;
    }
    all_copied = all_copied && in.copied;
    inputs.push_back(in);
  }
  if (all_copied) return nullptr;  // a strided copy
  return std::make_unique<ConcatRequantize>(std::move(inputs), view.outer, lookup_8(spec.isa));
}

}  // namespace smelt
