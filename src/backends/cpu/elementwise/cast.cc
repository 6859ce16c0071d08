// Conversions of element types that are one machine conversion each, and integers to real numbers on a known params.
#include <type_traits>
#include <vector>

#include "backends/cpu/core/float16.h"
#include "backends/cpu/core/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Calls f with a value of the type that stores the numbers; false for others (narrow floats, packed integers).
template <class F>
bool by_number(DType t, F&& f) {
  switch (t) {
    case DType::kF32:
      f(float{});
      return true;
    case DType::kF64:
      f(double{});
      return true;
    case DType::kI8:
      f(int8_t{});
      return true;
    case DType::kU8:
    case DType::kBool:
      f(uint8_t{});
      return true;
    case DType::kI16:
      f(int16_t{});
      return true;
    case DType::kU16:
      f(uint16_t{});
      return true;
    case DType::kI32:
      f(int32_t{});
      return true;
    case DType::kI64:
      f(int64_t{});
      return true;
    default:
      return false;
  }
}

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

/// y = (x - zero) * scale, one pair of parameters for all or one an entry of a dimension.
template <class T>
class DequantizeInts final : public Kernel {
 public:
  DequantizeInts(std::vector<float> scales, std::vector<int32_t> zeros, int64_t outer, int64_t inner)
      : scales_(std::move(scales)), zeros_(std::move(zeros)), outer_(outer), inner_(inner) {}
  Status run(KernelContext& ctx) const override {
    const T* x = ctx.input(0).data<T>();
    float* y = ctx.output(0).data<float>();
    for (int64_t o = 0; o < outer_; ++o)
      for (size_t c = 0; c < scales_.size(); ++c, x += inner_, y += inner_) {
        const float scale = scales_[c];
        const int32_t zero = zeros_[c];
        for (int64_t i = 0; i < inner_; ++i)
          y[i] = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(x[i]) - static_cast<uint32_t>(zero))) *
                 scale;
      }
    return Ok();
  }

 private:
  std::vector<float> scales_;
  std::vector<int32_t> zeros_;
  int64_t outer_, inner_;
};

/// x as rows of `scales.size()` runs of equal parameters.
std::unique_ptr<Kernel> dequantizer(const KernelSpec& spec, int axis, std::vector<float> scales,
                                    std::vector<int32_t> zeros) {
  const Shape& x = spec.inputs[0].shape;
  const auto n = static_cast<int64_t>(scales.size());
  if (x.elements() == 0 || (n != 1 && (axis < 0 || axis >= x.rank() || x[axis] != n))) return nullptr;
  int64_t outer = 1;
  for (int i = 0; n != 1 && i < axis; ++i) outer *= x[i];
  const int64_t inner = x.elements() / (outer * n);
  std::unique_ptr<Kernel> made;
  by_number(spec.inputs[0].dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T> && sizeof(T) <= 4)
      made = std::make_unique<DequantizeInts<T>>(std::move(scales), std::move(zeros), outer, inner);
  });
  return made;
}

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

std::unique_ptr<Kernel> make_dequantize_linear(const KernelSpec& spec) {
  const auto& a = spec.attrs<QuantizeLinearAttrs>();
  const ValueType &x = spec.inputs[0], &s = spec.inputs[1];
  if (x.quant || !is_integer(x.dtype) || s.dtype != DType::kF32 || spec.outputs[0].dtype != DType::kF32 || a.block != 0)
    return nullptr;
  const Tensor* scale = spec.constant(1);
  const Tensor* zero = spec.has(2) ? spec.constant(2) : nullptr;
  if (!scale || (spec.has(2) && (!zero || zero->elements() != scale->elements()))) return nullptr;
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  for (int64_t i = 0; i < scale->elements(); ++i) {
    scales.push_back(scale->data<float>()[i]);
    zeros.push_back(zero ? static_cast<int32_t>(get_int(*zero, i)) : 0);
  }
  return dequantizer(spec, static_cast<int>(a.axis < 0 ? a.axis + x.shape.rank() : a.axis), std::move(scales),
                     std::move(zeros));
}

std::unique_ptr<Kernel> make_dequantize_integer(const KernelSpec& spec) {
  const ValueType& x = spec.inputs[0];
  if (!x.quant || !is_integer(x.dtype) || spec.outputs[0].dtype != DType::kF32 || spec.outputs[0].quant) return nullptr;
  const Quantization& q = *x.quant;
  if (q.kind != Quantization::Kind::kPerTensor && q.kind != Quantization::Kind::kPerAxis) return nullptr;
  std::vector<float> scales = q.scales;
  std::vector<int32_t> zeros;
  for (size_t i = 0; i < scales.size(); ++i) zeros.push_back(q.zero_point(static_cast<int64_t>(i)));
  return dequantizer(spec, q.axis, std::move(scales), std::move(zeros));
}

}  // namespace smelt
