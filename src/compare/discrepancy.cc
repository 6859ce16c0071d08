#include "compare/discrepancy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {

std::vector<float> reals(const Tensor& t) {
  if (!(is_float(t.dtype()) || is_integer(t.dtype()) || t.dtype() == DType::kBool) ||
      (!t.identity() && t.elements() > 0))
    return {};
  std::vector<float> out(static_cast<size_t>(t.elements()));
  if (t.quant() && is_integer(t.dtype()) && t.quant()->kind != Quantization::Kind::kPerToken)
    dequantize(t, out.data());
  else
    to_floats(t, out.data());
  return out;
}

double Discrepancy::relative() const {
  if (rms == 0) return 0;
  return signal > 0 ? rms / signal : std::numeric_limits<double>::infinity();
}

double Discrepancy::sqnr() const {
  return rms == 0 ? std::numeric_limits<double>::infinity() : 20 * std::log10(signal / rms);
}

void DiscrepancySum::add(std::span<const float> first, std::span<const float> second) {
  Discrepancy& d = sums_;
  if (first.size() != second.size()) {
    d.comparable = false;
    d.problem = "different numbers of elements";
    return;
  }
  for (size_t i = 0; i < first.size(); ++i) {
    const double a = first[i], b = second[i];
    if (!std::isfinite(a) || !std::isfinite(b)) {
      d.mismatched += !(a == b || (std::isnan(a) && std::isnan(b)));
      continue;
    }
    const double e = b - a;
    ++d.count;
    d.mean += e;
    d.mean_abs += std::abs(e);
    d.max_abs = std::max(d.max_abs, std::abs(e));
    d.signal_max = std::max(d.signal_max, std::abs(a));
    squares_ += e * e;
    signal_ += a * a;
  }
}

Discrepancy DiscrepancySum::result() const {
  Discrepancy d = sums_;
  if (d.count == 0) return d;
  const auto n = static_cast<double>(d.count);
  d.mean /= n;
  d.mean_abs /= n;
  d.rms = std::sqrt(squares_ / n);
  d.signal = std::sqrt(signal_ / n);
  return d;
}

Discrepancy discrepancy(std::span<const float> first, std::span<const float> second) {
  DiscrepancySum sum;
  sum.add(first, second);
  return sum.result();
}

namespace {

/// Relative root mean square that rounding to the type explains, over one operator.
double rounding_noise(const Tensor& t) {
  if (t.quant() && is_integer(t.dtype())) return 5e-2;
  switch (t.dtype()) {
    case DType::kF16:
      return 2e-3;
    case DType::kBF16:
      return 2e-2;
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF4E2M1:
      return 2e-1;
    default:
      return 1e-4;
  }
}

}  // namespace

double excess(const Discrepancy& d, const Tensor& first, const Tensor& second, const Tolerance& tolerance) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (!d.comparable || d.mismatched > 0) return kInfinite;
  if (d.rms <= tolerance.absolute) return 0;
  if (tolerance.relative) return *tolerance.relative > 0 ? d.relative() / *tolerance.relative : kInfinite;
  if (same_per_tensor(first.quant(), second.quant())) {
    // Rounding moves single elements by one step: a shift of many is no rounding.
    const double step = first.quant()->scale();
    return std::max(d.mean_abs / (0.1 * step), d.max_abs / (2.01 * step));
  }
  // Sums that cancel leave rounding errors of their terms: what is far below the largest value counts less.
  const double scale = std::max(d.signal, 1e-3 * d.signal_max);
  return scale > 0 ? d.rms / scale / std::max(rounding_noise(first), rounding_noise(second)) : kInfinite;
}

void Histogram::count(std::span<const float> values) {
  const double width = high - low;
  const auto bins = static_cast<double>(counts.size());
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    const double at = width > 0 ? (v - low) / width * bins : 0;
    ++counts[std::min(static_cast<size_t>(at), counts.size() - 1)];
  }
}

void Extent::add(std::span<const float> values) {
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    low_ = any_ ? std::min(low_, static_cast<double>(v)) : v;
    high_ = any_ ? std::max(high_, static_cast<double>(v)) : v;
    any_ = true;
  }
}

Histogram Extent::bins(size_t number) const { return {low_, high_, std::vector<int64_t>(number, 0)}; }

}  // namespace smelt
