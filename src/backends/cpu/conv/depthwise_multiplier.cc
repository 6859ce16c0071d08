// Depthwise convolutions with several filters a channel: every channel is repeated, and a kernel of one filter a
// channel runs on the result.
#include <array>
#include <string_view>

#include "backends/cpu/core/inner_context.h"
#include "backends/cpu/core/kernel.h"
#include "ops/conv/conv_shape.h"

namespace smelt {
namespace {

/// y[i * times + j] = x[i] for i < n, j < times.
template <class T>
void repeat(const void* x, int64_t n, int64_t times, void* y) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i, to += times)
    for (int64_t j = 0; j < times; ++j) to[j] = from[i];
}

class DepthwiseMultiplier final : public Kernel {
 public:
  DepthwiseMultiplier(const ValueType& wide, int64_t times, std::unique_ptr<Kernel> inner)
      : wide_(wide),
        times_(times),
        bytes_(static_cast<int64_t>(Tensor::byte_size(wide.dtype, 1))),
        inner_(std::move(inner)) {}
  size_t scratch_bytes() const override { return image_bytes() + inner_->scratch_bytes(); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory to repeat channels");
    const auto* x = static_cast<const char*>(ctx.input(0).raw());
    ctx.threads().parallel_for(wide_.shape.elements() / times_, 16384, [&](int64_t begin, int64_t end) {
      const auto copy = bytes_ == 1 ? repeat<uint8_t> : bytes_ == 2 ? repeat<uint16_t> : repeat<uint32_t>;
      copy(x + begin * bytes_, end - begin, times_, scratch + begin * times_ * bytes_);
    });
    Tensor image = Tensor::view(wide_.dtype, wide_.shape, scratch, nullptr);
    image.set_quant(wide_.quant);
    std::array<Datum, 3> inputs;
    inputs[0] = std::move(image);
    InnerContext inner(ctx, inputs, ctx.output(0), scratch + image_bytes());
    return inner_->run(inner);
  }

 private:
  size_t image_bytes() const { return static_cast<size_t>(padded_bytes(wide_.shape.elements() * bytes_)); }

  ValueType wide_;
  int64_t times_, bytes_;
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
  return std::make_unique<DepthwiseMultiplier>(inputs[0], g->c_out, std::move(inner));
}

}  // namespace smelt
