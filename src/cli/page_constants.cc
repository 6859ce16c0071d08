#include "cli/page_constants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cli/print_values.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

/// Adds figures of the elements 0, `step`, 2 `step` ... of real numbers.
void add_figures(Json& out, const Tensor& t, int64_t step) {
  std::vector<double> finite;
  int64_t zeros = 0, nan = 0;
  for (int64_t i = 0; i < t.elements(); i += step) {
    const double v = get_double(t, i);
    zeros += v == 0;
    nan += std::isnan(v);
    if (std::isfinite(v)) finite.push_back(v);
  }
  if (finite.empty()) return;
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  const double min = *low, max = *high, n = static_cast<double>(finite.size());
  double mean = 0, variance = 0;
  for (double v : finite) mean += v / n;
  for (double v : finite) variance += (v - mean) * (v - mean) / n;
  // Of halves: the difference of the largest numbers is infinite.
  const double range = max / 2 - min / 2;
  std::array<int64_t, ConstantTable::kBins> bins{};
  for (double v : finite) {
    const double place = range > 0 ? (v / 2 - min / 2) / range * static_cast<double>(bins.size()) : 0;
    ++bins[std::min(static_cast<size_t>(place), bins.size() - 1)];
  }
  out.update({{"min", min}, {"max", max}, {"zeros", zeros}, {"nan", nan}, {"histogram", bins}});
  if (std::isfinite(mean)) out["mean"] = mean;
  if (std::isfinite(variance)) out["deviation"] = std::sqrt(variance);
}

Json contents(const Tensor& t) {
  Json out = {{"elements", t.elements()}, {"values", Json::array()}};
  for (int64_t i = 0; i < std::min(t.elements(), ConstantTable::kMostValues); ++i)
    out["values"].push_back(element_json(t, i));
  if (t.dtype() == DType::kString || is_complex(t.dtype())) return out;
  const int64_t step = (t.elements() + ConstantTable::kMostRead - 1) / ConstantTable::kMostRead;
  if (step > 1) out["sampled"] = (t.elements() + step - 1) / step;
  add_figures(out, t, std::max<int64_t>(step, 1));
  return out;
}

}  // namespace

size_t ConstantTable::add(const Tensor& t) {
  const auto [at, is_new] = index_.try_emplace({t.identity(), t.dtype(), t.elements()}, list_.size());
  if (is_new) list_.push_back(contents(t));
  return at->second;
}

}  // namespace smelt::cli
