// Quantized integers to another params, another width, or both, by TFLite's fixed-point factor.
#include <algorithm>

#include "backends/cpu/core/kernel.h"
#include "ops/common/fixed_point.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

template <class From, class To>
class RequantizeInts final : public Kernel {
 public:
  RequantizeInts(const Quantization& from, const Quantization& to, int64_t n)
      : factor_(fixed_factor(static_cast<double>(from.scale()) / static_cast<double>(to.scale()))),
        from_zero_(from.zero_point()),
        to_zero_(to.zero_point()),
        n_(n) {}
  Status run(KernelContext& ctx) const override {
    const From* x = ctx.input(0).data<From>();
    To* y = ctx.output(0).data<To>();
    constexpr int64_t kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
    ctx.threads().parallel_for(n_, 8192, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto v = static_cast<int32_t>(int64_t{x[i]} - from_zero_);
        y[i] = static_cast<To>(std::clamp<int64_t>(int64_t{rescale_double(v, factor_)} + to_zero_, kLow, kHigh));
      }
    });
    return Ok();
  }

 private:
  FixedFactor factor_;
  int32_t from_zero_, to_zero_;
  int64_t n_;
};

template <class From>
std::unique_ptr<Kernel> to_type(const KernelSpec& spec) {
  const Quantization &from = *spec.inputs[0].quant, &to = *spec.outputs[0].quant;
  const int64_t n = spec.inputs[0].shape.elements();
  switch (spec.outputs[0].dtype) {
    case DType::kI8:
      return std::make_unique<RequantizeInts<From, int8_t>>(from, to, n);
    case DType::kU8:
      return std::make_unique<RequantizeInts<From, uint8_t>>(from, to, n);
    case DType::kI16:
      return std::make_unique<RequantizeInts<From, int16_t>>(from, to, n);
    case DType::kI32:
      return std::make_unique<RequantizeInts<From, int32_t>>(from, to, n);
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<Kernel> make_requantize(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!is_per_tensor(x.quant) || !is_per_tensor(y.quant) || x.shape != y.shape) return nullptr;
  if (x.quant->rounding == Rounding::kFloatHalfEven && y.quant->rounding == Rounding::kFloatHalfEven) return nullptr;
  switch (x.dtype) {
    case DType::kI8:
      return to_type<int8_t>(spec);
    case DType::kU8:
      return to_type<uint8_t>(spec);
    case DType::kI16:
      return to_type<int16_t>(spec);
    case DType::kI32:
      return to_type<int32_t>(spec);
    default:
      return nullptr;
  }
}

}  // namespace smelt
