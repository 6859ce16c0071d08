// Conversions of element types of whole bytes.
#include <algorithm>
#include <cmath>
#include <limits>
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

/// Real numbers to integers by the rules of CastAttrs. Without kClamp a number saturates to 64 bits, and those wrap.
template <class From, class To, bool kRound, bool kClamp>
void convert_to_integers(const void* x, int64_t n, void* y) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<To*>(y);
  constexpr bool kNarrow = kClamp && sizeof(To) < sizeof(int64_t);
  constexpr double kLow = kNarrow ? static_cast<double>(std::numeric_limits<To>::min()) : -0x1p63;
  constexpr double kHigh = kNarrow ? static_cast<double>(std::numeric_limits<To>::max()) : 0x1p63;
  for (int64_t i = 0; i < n; ++i) {
    double v = static_cast<double>(from[i]);
    if constexpr (kRound) v = std::round(v);
    if (v > kLow && v < kHigh)
      to[i] = static_cast<To>(static_cast<int64_t>(v));
    else if (v >= kHigh)
      to[i] = static_cast<To>(kNarrow ? static_cast<int64_t>(kHigh) : INT64_MAX);
    else
      to[i] = std::isnan(v) ? To{0} : static_cast<To>(static_cast<int64_t>(kLow));
  }
}
template <class From, class To>
Convert to_integers(const CastAttrs& a) {
  if (a.round) return a.clamp ? convert_to_integers<From, To, true, true> : convert_to_integers<From, To, true, false>;
  return a.clamp ? convert_to_integers<From, To, false, true> : convert_to_integers<From, To, false, false>;
}

constexpr int64_t kBlock = 256;
/// The whole parts of kBlock numbers. False if one is not from `low` on or not below `end`, bounds of int32.
bool whole_parts(const float* x, float low, float end, int32_t* y) {
  int32_t inside = 0;
  for (int64_t i = 0; i < kBlock; ++i) inside += static_cast<int32_t>(x[i] >= low) & static_cast<int32_t>(x[i] < end);
  if (inside < kBlock) return false;
  for (int64_t i = 0; i < kBlock; ++i) y[i] = static_cast<int32_t>(x[i]);
  return true;
}

/// Real parts of complex64.
void real_parts(const void* x, int64_t n, void* y) {
  const auto* from = static_cast<const float*>(x);
  auto* to = static_cast<float*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
}

/// Null where no conversion of numbers of whole bytes applies.
Convert conversion(DType from, DType to, const CastAttrs& attrs) {
  if (from == DType::kC64 && to == DType::kF32) return real_parts;
  Convert found = nullptr;
  by_number(from, [&](auto a) {
    using A = decltype(a);
    if (to == DType::kBool) {
      found = convert_to_bool<A>;
      return;
    }
    by_number(to, [&](auto b) {
      using B = decltype(b);
      if constexpr (!std::is_floating_point_v<A> || std::is_floating_point_v<B>)
        found = convert<A, B>;
      else
        found = to_integers<A, B>(attrs);
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

/// From float32 to integers without rounding: most numbers fit int32.
class CastToIntegers final : public Kernel {
 public:
  /// convert: of any numbers; narrow: of integers.
  CastToIntegers(Convert convert, Convert narrow, DType to, bool clamp, int64_t n)
      : convert_(convert), narrow_(narrow), bytes_(static_cast<int64_t>(Tensor::byte_size(to, 1))), n_(n) {
    by_number(to, [&](auto number) {
      using T = decltype(number);
      if constexpr (std::is_integral_v<T> && sizeof(T) < sizeof(int32_t)) {
        if (!clamp) return;
        low_ = static_cast<float>(std::numeric_limits<T>::min());
        end_ = static_cast<float>(std::numeric_limits<T>::max()) + 1;
      }
    });
  }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<float>();
    auto* y = ctx.output(0).data<std::byte>();
    ctx.threads().parallel_for(n_, 64 * kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t n = std::min(kBlock, end - i);
        int32_t whole[kBlock];
        if (n == kBlock && whole_parts(x + i, low_, end_, whole))
          narrow_(whole, n, y + i * bytes_);
        else
          convert_(x + i, n, y + i * bytes_);
      }
    });
    return Ok();
  }

 private:
  Convert convert_, narrow_;
  int64_t bytes_, n_;
  float low_ = -0x1p31f, end_ = 0x1p31f;
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

[[gnu::cold]] std::unique_ptr<Kernel> make_cast(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (x.quant || y.quant) return nullptr;
  const auto half = [](DType t) { return t == DType::kF16 || t == DType::kBF16; };
  if ((half(x.dtype) && y.dtype == DType::kF32) || (x.dtype == DType::kF32 && half(y.dtype)))
    return std::make_unique<CastFloat16>(x.dtype, y.dtype, x.shape.elements(), converter(spec.isa));
  const auto& attrs = spec.attrs<CastAttrs>();
  const Convert convert = conversion(x.dtype, y.dtype, attrs);
  const Convert narrow = conversion(DType::kI32, y.dtype, attrs);
  if (x.dtype == DType::kF32 && convert && narrow && is_integer(y.dtype) && !attrs.round)
    return std::make_unique<CastToIntegers>(convert, narrow, y.dtype, attrs.clamp, x.shape.elements());
  return convert ? std::make_unique<Cast>(convert, x.shape.elements()) : nullptr;
}

}  // namespace smelt
