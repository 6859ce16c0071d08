#include "ops/reduce/reduce_quantized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/common/fixed_point.h"
#include "ops/common/real.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

Status through_float(const ReduceAttrs& attrs, const ReducePlan& plan, const Tensor& x, Tensor& y) {
  const std::vector<float> v = to_real_vector(x);
  const std::vector<double> wide(v.begin(), v.end());
  const std::vector<double> r = reduce_doubles(attrs, plan, wide.data());
  const std::vector<float> narrow(r.begin(), r.end());
  store_real(narrow.data(), y);
  return Ok();
}

void store_clamped(const std::vector<int64_t>& values, Tensor& y) {
  const int64_t lo = int_min(y.dtype()), hi = int_max(y.dtype());
  for (size_t i = 0; i < values.size(); ++i) set_int(y, static_cast<int64_t>(i), std::clamp(values[i], lo, hi));
}

/// Sum or mean in 32-bit fixed point; the division by the count is part of the multiplier.
void finish_fixed(bool mean, const Quantization& p, int64_t n, std::vector<int64_t>& accumulators, Tensor& y) {
  const Quantization& q = *y.quant();
  FixedFactor factor = fixed_factor(static_cast<double>(p.scale()) / static_cast<double>(q.scale()));
  if (mean && n > 0) {
    int shift = std::min(63 - std::countl_zero(static_cast<uint64_t>(n)), 32);
    shift = std::max(std::min(shift, 31 + factor.shift), 0);
    factor.multiplier = static_cast<int32_t>((int64_t{factor.multiplier} << shift) / n);
    factor.shift -= shift;
  }
  for (int64_t& s : accumulators) {
    const auto centred = static_cast<int32_t>(s - p.zero_point() * n);
    s = n == 0 ? 0 : int64_t{rescale_double(centred, factor)} + q.zero_point();
  }
  store_clamped(accumulators, y);
}

/// Sums of signed types: rescaled in float32, ties away from zero.
void finish_in_float(const Quantization& p, int64_t n, std::vector<int64_t>& accumulators, Tensor& y) {
  const Quantization& q = *y.quant();
  const float scale = p.scale() / q.scale();
  const float bias = static_cast<float>(-p.zero_point()) * scale * static_cast<float>(n);
  for (int64_t& s : accumulators) {
    const float v = std::round(static_cast<float>(s) * scale + bias);
    s = static_cast<int64_t>(std::clamp(v, -1e9f, 1e9f)) + q.zero_point();
  }
  store_clamped(accumulators, y);
}

/// Sum or mean as XNNPACK rescales it, in float32.
void finish_xnnpack(bool mean, const Quantization& p, int64_t n, std::vector<int64_t>& accumulators, Tensor& y) {
  const XnnpackReduceRescale rescale(p, *y.quant(), n, mean);
  for (int64_t& s : accumulators) s = static_cast<int64_t>(std::nearbyint(std::clamp(rescale(s), -1e9f, 1e9f)));
  store_clamped(accumulators, y);
}

/// Sum or mean: exact integers, scaled as real numbers.
void finish_real(bool mean, const Quantization& p, int64_t n, const std::vector<int64_t>& accumulators, Tensor& y) {
  std::vector<float> real(accumulators.size());
  for (size_t i = 0; i < accumulators.size(); ++i) {
    const double sum = static_cast<double>(p.scale()) * static_cast<double>(accumulators[i] - p.zero_point() * n);
    real[i] = static_cast<float>(mean ? sum / static_cast<double>(n) : sum);
  }
  store_real(real.data(), y);
}

/// Product, rescaled after every factor by the n-th part of the output scale, in 32 bits that wrap as TFLite's do.
void product_fixed(const ReducePlan& plan, const Tensor& x, Tensor& y) {
  const Quantization &p = *x.quant(), &q = *y.quant();
  const int64_t n = plan.count();
  if (n == 0) return;
  const double scale =
      static_cast<double>(p.scale()) / std::pow(static_cast<double>(q.scale()), 1.0 / static_cast<double>(n));
  const FixedFactor factor = fixed_factor(scale);
  const auto rescaled = [&](int64_t v) { return static_cast<int32_t>(wide_product(v, factor)); };
  std::vector<int64_t> products(static_cast<size_t>(plan.outputs()), 0);
  std::vector<char> begun(products.size(), 0);
  plan.each([&](int64_t in, int64_t out) {
    const auto k = static_cast<size_t>(out);
    const int64_t v = get_int(x, in) - p.zero_point();
    products[k] = begun[k] ? rescaled(products[k] * v) : v;
    begun[k] = 1;
  });
  for (int64_t& v : products) v = int64_t{rescaled(v)} + q.zero_point();
  store_clamped(products, y);
}

/// The largest or smallest integer; false if x and y differ in type or quantization parameters.
bool extreme_of_integers(Reduction fn, const ReducePlan& plan, const Tensor& x, Tensor& y) {
  const Quantization &p = *x.quant(), &q = *y.quant();
  if (p.scale() != q.scale() || p.zero_point() != q.zero_point() || x.dtype() != y.dtype()) return false;
  const bool largest = fn == Reduction::kMax;
  std::vector<int64_t> best(static_cast<size_t>(plan.outputs()), largest ? int_min(x.dtype()) : int_max(x.dtype()));
  plan.each([&](int64_t in, int64_t out) {
    int64_t& b = best[static_cast<size_t>(out)];
    b = largest ? std::max(b, get_int(x, in)) : std::min(b, get_int(x, in));
  });
  store_clamped(best, y);
  return true;
}

}  // namespace

bool reduces_in_integers(const ReduceAttrs& attrs, DType x, DType y) {
  if (attrs.fn != Reduction::kSum && attrs.fn != Reduction::kMean) return false;
  return attrs.rounding == Rounding::kFloatHalfEven ? bit_width(x) <= 16 : x == y;
}

void finish_accumulators(const ReduceAttrs& attrs, DType x, const Quantization& p, int64_t count,
                         std::vector<int64_t> accumulators, Tensor& y) {
  const bool mean = attrs.fn == Reduction::kMean;
  if (attrs.rounding == Rounding::kFloatHalfEven)
    finish_real(mean, p, count, accumulators, y);
  else if (attrs.rounding == Rounding::kXnnpack)
    finish_xnnpack(mean, p, count, accumulators, y);
  else if (!mean && is_signed_integer(x))
    finish_in_float(p, count, accumulators, y);
  else
    finish_fixed(mean, p, count, accumulators, y);
}

Status reduce_quantized(const ReduceAttrs& attrs, const ReducePlan& plan, const Tensor& x, Tensor& y) {
  const auto per_tensor = [](const Tensor& t) { return is_quantized(t) && t.quant()->scales.size() == 1; };
  if (!per_tensor(x) || !per_tensor(y)) return through_float(attrs, plan, x, y);
  if ((attrs.fn == Reduction::kMax || attrs.fn == Reduction::kMin) && extreme_of_integers(attrs.fn, plan, x, y))
    return Ok();
  if (reduces_in_integers(attrs, x.dtype(), y.dtype())) {
    std::vector<int64_t> accumulators(static_cast<size_t>(plan.outputs()), 0);
    plan.each([&](int64_t in, int64_t out) { accumulators[static_cast<size_t>(out)] += get_int(x, in); });
    finish_accumulators(attrs, x.dtype(), *x.quant(), plan.count(), std::move(accumulators), y);
    return Ok();
  }
  if (attrs.rounding != Rounding::kFloatHalfEven && x.dtype() == y.dtype() && attrs.fn == Reduction::kProd) {
    product_fixed(plan, x, y);
    return Ok();
  }
  return through_float(attrs, plan, x, y);
}

}  // namespace smelt
