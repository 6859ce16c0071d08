#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/rules.h"
#include "ops/signal/signal.h"
#include "tensor/numeric.h"

namespace smelt {

Status infer_Window(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto size = int_of(ctx, 0);
  if (size && *size < 0) return InvalidModel("a window of ", *size);
  ctx.set(0, ValueType::tensor(ctx.attrs<WindowAttrs>().to, Shape{size.value_or(-1)}));
  return Ok();
}

Status reference_Window(KernelContext& ctx) {
  const auto& a = ctx.attrs<WindowAttrs>();
  Tensor& y = ctx.output(0);
  const auto period = static_cast<double>(a.periodic ? y.dim(0) : y.dim(0) - 1);
  for (int64_t i = 0; i < y.dim(0); ++i) {
    const double angle = period > 0 ? 2 * M_PI * static_cast<double>(i) / period : M_PI;
    double w = 0;
    switch (a.kind) {
      case WindowAttrs::Kind::kHann:
        w = 0.5 - 0.5 * std::cos(angle);
        break;
      case WindowAttrs::Kind::kHamming:
        w = 25.0 / 46 - 21.0 / 46 * std::cos(angle);
        break;
      case WindowAttrs::Kind::kBlackman:
        w = 0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle);
        break;
    }
    if (is_float(y.dtype()))
      set_double(y, i, w);
    else
      set_int(y, i, static_cast<int64_t>(w));
  }
  return Ok();
}

Status infer_MelWeights(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 5));
  const auto bins = int_of(ctx, 0), length = int_of(ctx, 1);
  if ((bins && *bins < 0) || (length && *length < 0)) return InvalidModel("a negative number of bins");
  ctx.set(0, ValueType::tensor(ctx.attrs<MelAttrs>().to, Shape{length ? *length / 2 + 1 : -1, bins.value_or(-1)}));
  return Ok();
}

Status reference_MelWeights(KernelContext& ctx) {
  for (int i = 0; i < 5; ++i)
    if (ctx.input(i).elements() < 1) return InvalidInput("input ", i, " is empty, a number expected");
  Tensor& y = ctx.output(0);
  const int64_t rows = y.dim(0), bins = y.dim(1), length = get_int(ctx.input(1), 0), rate = get_int(ctx.input(2), 0);
  if (rate < 1) return InvalidInput("a sample rate of ", rate);
  if (y.elements() == 0) return Ok();
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(get_double(ctx.input(3), 0)), high = mel(get_double(ctx.input(4), 0));
  if (!std::isfinite(low) || !std::isfinite(high)) return InvalidInput("the edges are no frequencies");
  // Spectrogram row of the edge of each triangle.
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double at = low + static_cast<double>(i) * (high - low) / static_cast<double>(bins + 2);
    const double hertz = 700 * (std::pow(10.0, at / 2595) - 1);
    const double row = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    edges.push_back(static_cast<int64_t>(std::clamp(row, -1e15, 1e15)));
  }
  for (int64_t i = 0; i < y.elements(); ++i) set_double(y, i, 0);
  const auto put = [&](int64_t row, int64_t bin, double w) {
    if (row >= 0 && row < rows) set_double(y, row * bins + bin, w);
  };
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t lower = edges[static_cast<size_t>(i)], center = edges[static_cast<size_t>(i + 1)],
                  upper = edges[static_cast<size_t>(i + 2)];
    if (center == lower)
      put(center, i, 1);
    else
      for (int64_t j = std::max<int64_t>(lower, 0); j <= std::min(center, rows - 1); ++j)
        put(j, i, static_cast<double>(j - lower) / static_cast<double>(center - lower));
    for (int64_t j = std::max<int64_t>(center, 0); j < std::min(upper, rows); ++j)
      put(j, i, static_cast<double>(upper - j) / static_cast<double>(upper - center));
  }
  return Ok();
}

}  // namespace smelt
