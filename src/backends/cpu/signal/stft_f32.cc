#include "backends/cpu/core/kernel.h"
#include "backends/cpu/signal/line_transform.h"
#include "ops/signal/signal.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

class StftF32 final : public Kernel {
 public:
  StftF32(const LineTransformShape& frames, bool window, const KernelSpec& spec)
      : frames_(frames, spec.isa, spec.threads), window_(window) {}
  size_t scratch_bytes() const override { return frames_.workspace_bytes(); }
  Status run(KernelContext& ctx) const override {
    void* const workspace = ctx.scratch(scratch_bytes());
    if (!workspace) return Error(ErrorCode::kLimit, "no memory for a Fourier transform");
    frames_.run(ctx.input(0).data<float>(), window_ ? ctx.input(2).data<float>() : nullptr, ctx.output(0).data<float>(),
                workspace, ctx.threads());
    return Ok();
  }

 private:
  LineTransform frames_;
  bool window_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_stft_f32(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (x.elements() == 0 || y.elements() == 0) return nullptr;
  const int64_t length = spec.has(3) ? get_int(*spec.constant(3), 0) : spec.inputs[2].shape.elements();
  const int64_t step = get_int(*spec.constant(1), 0), frames = y[1];
  constexpr int64_t kMaxLength = int64_t{1} << 24;
  if (length < 1 || length > kMaxLength || step < 1 || (frames - 1) * step + length > x[1] ||
      (spec.has(2) && spec.inputs[2].shape.elements() != length))
    return spec.refuse("frames of ", length, " every ", step);
  const LineTransformShape lines{.lines = x[0] * frames,
                                 .length = length,
                                 .used = length,
                                 .kept = y[2],
                                 .in = {frames, x[1], step, 1, x.rank() == 3 && x[2] == 2},
                                 .out = {frames, frames * y[2], y[2], 1, true}};
  return std::make_unique<StftF32>(lines, spec.has(2), spec);
}

}  // namespace smelt
