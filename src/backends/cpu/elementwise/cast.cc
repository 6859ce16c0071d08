// Conversions of element types that are one machine conversion each.
#include <type_traits>
#include <vector>

#include "backends/cpu/core/float16.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/number_type.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

using Convert = void (*)(const void* x, int64_t n, void* y);

template <class From, class To>
void convert(const void* x, int64_t n, void* y) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<To*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}
template <class From>
void convert_to_bool(const void* x, int64_t n, void* y) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<uint8_t*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] != From{} ? 1 : 0;
}

/// Null where the conversion has rules of its own: real numbers to integers.
Convert conversion(DType from, DType to) {
  Convert found = nullptr;
  by_number(from, [&](auto a) {
    using A = decltype(a);
    if (to == DType::kBool) {
      found = convert_to_bool<A>;
      return;
    }
    by_number(to, [&](auto b) {
      using B = decltype(b);
      if constexpr (!std::is_floating_point_v<A> || std::is_floating_point_v<B>) found = convert<A, B>;
    });
  });
  return found;
}

/// Between float32 and a 16-bit float.
class CastFloat16 final : public Kernel {
 public:
  CastFloat16(DType from, DType to, int64_t n, const Converter& convert)
      : widens_(to == DType::kF32), brain_((widens_ ? from : to) == DType::kBF16), n_(n), convert_(convert) {}
  Status run(KernelContext& ctx) const override {
    const Tensor& x = ctx.input(0);
    Tensor& y = ctx.output(0);
    ctx.threads().parallel_for(n_, 16384, [&](int64_t begin, int64_t end) {
      if (widens_)
        (brain_ ? convert_.from_bf16 : convert_.from_f16)(x.data<uint16_t>() + begin, end - begin,
                                                          y.data<float>() + begin);
      else
        (brain_ ? convert_.to_bf16 : convert_.to_f16)(x.data<float>() + begin, end - begin, y.data<uint16_t>() + begin);
    });
    return Ok();
  }

 private:
  bool widens_, brain_;
  int64_t n_;
  const Converter& convert_;
};

class Cast final : public Kernel {
 public:
  Cast(Convert convert, int64_t n) : convert_(convert), n_(n) {}
  Status run(KernelContext& ctx) const override {
    convert_(ctx.input(0).raw(), n_, ctx.output(0).raw());
    return Ok();
  }

 private:
  Convert convert_;
  int64_t n_;
};

}  // namespace

std::unique_ptr<Kernel> make_cast(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (x.quant || y.quant) return nullptr;
  const auto half = [](DType t) { return t == DType::kF16 || t == DType::kBF16; };
  if ((half(x.dtype) && y.dtype == DType::kF32) || (x.dtype == DType::kF32 && half(y.dtype)))
    return std::make_unique<CastFloat16>(x.dtype, y.dtype, x.shape.elements(), converter(spec.isa));
  const Convert convert = conversion(x.dtype, y.dtype);
  return convert ? std::make_unique<Cast>(convert, x.shape.elements()) : nullptr;
}

}  // namespace smelt
