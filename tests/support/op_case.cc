#include "tests/support/op_case.h"

#include <algorithm>
#include <bit>
#include <random>

#include "tensor/numeric.h"

namespace smelt::test {

bool OpCase::is_constant(size_t i) const { return std::ranges::count(constants, i) > 0; }

Tensor tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor t(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i)
    if (is_float(dtype) || is_complex(dtype))
      set_double(t, static_cast<int64_t>(i), values[i]);
    else
      set_int(t, static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
  return t;
}

Tensor floats(const Shape& shape, const std::vector<double>& values) { return tensor(DType::kF32, shape, values); }

Tensor i64(const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
}

Tensor widened(const Tensor& float16) {
  return Tensor::deferred(DType::kF32, float16.shape(), float16,
                          [](const Tensor& from, int64_t first, int64_t count, void* to) {
                            for (int64_t i = 0; i < count; ++i)
                              static_cast<float*>(to)[i] = static_cast<float>(get_double(from, first + i));
                          });
}

Tensor hadamard(int64_t n, float scale) {
  Tensor t(DType::kF32, {n, n});
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      t.data<float>()[i * n + j] = std::popcount(static_cast<uint64_t>(i & j)) % 2 == 0 ? scale : -scale;
  return t;
}

Tensor random_tensor(DType dtype, const Shape& shape, double lo, double hi, uint32_t seed) {
  Tensor t(dtype, shape);
  std::mt19937 gen(seed);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const double u = static_cast<double>(gen()) / 4294967296.0;
    if (is_float(dtype))
      set_double(t, i, lo + u * (hi - lo));
    else
      set_int(t, i, static_cast<int64_t>(lo + u * (hi - lo + 1)));
  }
  return t;
}

Tensor rounded_to_bf16(const Tensor& t) {
  Tensor narrow(DType::kBF16, t.shape()), rounded(DType::kF32, t.shape());
  for (int64_t i = 0; i < t.elements(); ++i) {
    set_double(narrow, i, get_double(t, i));
    set_double(rounded, i, get_double(narrow, i));
  }
  return rounded;
}

Tensor f32(const Shape& shape, uint32_t seed) { return random_tensor(DType::kF32, shape, -2, 2, seed); }

QuantPtr per_tensor(float scale, int32_t zero_point, Rounding rounding) {
  return std::make_shared<const Quantization>(
      Quantization{.scales = {scale}, .zero_points = {zero_point}, .rounding = rounding});
}

QuantPtr per_axis(std::vector<float> scales, int axis, std::vector<int32_t> zero_points) {
  return std::make_shared<const Quantization>(Quantization{.kind = Quantization::Kind::kPerAxis,
                                                           .scales = std::move(scales),
                                                           .zero_points = std::move(zero_points),
                                                           .axis = axis});
}

Tensor quantized(DType dtype, const Shape& shape, const std::vector<double>& integers, float scale, int32_t zero_point,
                 Rounding rounding) {
  Tensor t = tensor(dtype, shape, integers);
  t.set_quant(per_tensor(scale, zero_point, rounding));
  return t;
}

Tensor random_quantized(DType dtype, const Shape& shape, float scale, int32_t zero_point, uint32_t seed) {
  Tensor t =
      random_tensor(dtype, shape, static_cast<double>(int_min(dtype)), static_cast<double>(int_max(dtype)), seed);
  t.set_quant(per_tensor(scale, zero_point, Rounding::kFixedDouble));
  return t;
}

std::vector<double> values(const Tensor& t) {
  std::vector<double> v(static_cast<size_t>(t.elements()));
  if (t.defined()) to_doubles(t, v.data());
  return v;
}

}  // namespace smelt::test
