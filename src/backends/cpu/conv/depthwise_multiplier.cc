// Depthwise convolutions with several filters a channel: every channel is repeated, and a kernel of one filter a
// channel runs on the result.
#include <array>
#include <string_view>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/inner_context.h"
#include "backends/cpu/core/kernel.h"
#include "ops/conv/conv_shape.h"

namespace smelt {
namespace {

/// y[i * times + j] = x[i] for i < n, j < times.
StridedCopy repetition(int64_t n, int64_t times) {
  StridedCopy copy;
  copy.dim(n, 1, times);
  copy.dim(times, 0, 1);
  return copy;
}

class DepthwiseMultiplier final : public Kernel {
 public:
  DepthwiseMultiplier(const ValueType& wide, int64_t times, std::unique_ptr<Kernel> inner, Isa isa)
      : wide_(wide),
        repeat_(repetition(wide.shape.elements() / times, times), whole_bytes(wide.dtype), isa),
        inner_(std::move(inner)) {}
  size_t scratch_bytes() const override { return image_bytes() + inner_->scratch_bytes(); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory to repeat channels");
    repeat_.run(ctx.threads(), ctx.input(0).data<std::byte>(), reinterpret_cast<std::byte*>(scratch));
    Tensor image = Tensor::view(wide_.dtype, wide_.shape, scratch, nullptr);
    image.set_quant(wide_.quant);
    std::array<Datum, 3> inputs;
    inputs[0] = std::move(image);
    InnerContext inner(ctx, inputs, ctx.output(0), scratch + image_bytes());
    return inner_->run(inner);
  }

 private:
  size_t image_bytes() const { return static_cast<size_t>(padded_bytes(repeat_.bytes())); }

  ValueType wide_;
  PreparedCopy repeat_;  ///< of the channels
  std::unique_ptr<Kernel> inner_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_multiplier(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || !g->depthwise() || g->c_out < 2 || spec.inputs.size() > 3) return nullptr;
  // Matrix products with more float32 columns are faster.
  constexpr int64_t kMostFloatFilters = 4;
  if (spec.inputs[1].dtype == DType::kF32 && g->c_out > kMostFloatFilters)
    return spec.refuse(g->c_out, " filters a channel");
  std::vector<ValueType> inputs(spec.inputs.begin(), spec.inputs.end());
  inputs[0].shape[inputs[0].shape.rank() - 1] = g->all_out();
  ConvAttrs attrs = spec.attrs<ConvAttrs>();
  attrs.groups = g->all_out();
  Node node = spec.node;
  node.attrs = make_attrs<ConvAttrs>(attrs);
  const KernelInfo* chosen = nullptr;
  auto inner = make_kernel({{node, inputs, spec.constants, spec.outputs}, spec.isa, spec.threads, spec.packs, spec.why},
                           &chosen);
  if (!inner || !std::string_view(chosen->name).starts_with("depthwise")) return nullptr;
  return std::make_unique<DepthwiseMultiplier>(inputs[0], g->c_out, std::move(inner), spec.isa);
}

}  // namespace smelt
