#include "backends/cpu/core/kernel.h"
#include "ops/detection/postprocess.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// Quantized operands become real numbers first.
class DetectionPostprocess final : public Kernel {
 public:
  explicit DetectionPostprocess(const KernelSpec& spec)
      : attrs_(spec.node.attrs),
        boxes_(spec.inputs[0].shape[1]),
        width_(spec.inputs[0].shape[2]),
        columns_(spec.inputs[1].shape[2]) {
    for (size_t i = 0; i < 3; ++i)
      if (spec.inputs[i].quant) at_[i + 1] = padded_floats(spec.inputs[i].shape.elements());
    for (size_t i = 0; i < 3; ++i) at_[i + 1] += at_[i];
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(at_[3]) * sizeof(float) + detection_bytes(attrs(), boxes_);
  }
  Status run(KernelContext& ctx) const override {
    auto* const scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for boxes and scores");
    const auto reals = [&](int i) {
      const Tensor& t = ctx.input(i);
      if (!t.quant()) return t.data<float>();
      float* to = scratch + at_[static_cast<size_t>(i)];
      t.dtype() == DType::kI8 ? convert(ctx, t, t.data<int8_t>(), to) : convert(ctx, t, t.data<uint8_t>(), to);
      return static_cast<const float*>(to);
    };
    return detect(ctx, attrs(),
                  {.codes = reals(0),
                   .scores = reals(1),
                   .anchors = reals(2),
                   .boxes = boxes_,
                   .width = width_,
                   .columns = columns_},
                  reinterpret_cast<std::byte*>(scratch + at_[3]));
  }

 private:
  const DetectionAttrs& attrs() const { return static_cast<const DetectionAttrs&>(*attrs_); }
  template <class T>
  static void convert(KernelContext& ctx, const Tensor& t, const T* from, float* to) {
    const float scale = t.quant()->scales[0];
    const int32_t zero = t.quant()->zero_point();
    ctx.threads().parallel_for(t.elements(), 1 << 15, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = scale * static_cast<float>(from[i] - zero);
    });
  }

  AttrsPtr attrs_;
  int64_t boxes_, width_, columns_;
  int64_t at_[4] = {};  ///< where the real numbers of each quantized input begin, in floats
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_detection_postprocess(const KernelSpec& spec) {
  for (size_t i = 0; i < 3; ++i)
    if (spec.inputs[i].quant && !is_per_tensor(spec.inputs[i].quant))
      return spec.refuse("more than one scale for an operand");
  return std::make_unique<DetectionPostprocess>(spec);
}

}  // namespace smelt
