#include "ops/common/dynamic_quant.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace smelt {
namespace {

/// A rounded value as int8; NaN gives 0.
int8_t to_int8(float v, float low) {
  return std::isnan(v) ? int8_t{0} : static_cast<int8_t>(std::clamp(v, low, 127.0f));
}

QuantParams symmetric_row(const float* values, int64_t n, float low, float high, int8_t* out) {
  const float range = std::max(std::fabs(low), std::fabs(high));
  if (!(range > 0) || !std::isfinite(range)) {
    std::fill_n(out, n, int8_t{0});
    return {};
  }
  const float inverse = 127.0f / range;
  for (int64_t i = 0; i < n; ++i) out[i] = to_int8(std::round(values[i] * inverse), -127.0f);
  return {range / 127.0f, 0};
}

QuantParams asymmetric_row(const float* values, int64_t n, float low, float high, int8_t* out) {
  QuantParams params;
  if (!choose_asymmetric_quant_params(low, high, params)) {
    std::fill_n(out, n, int8_t{0});
    return {};
  }
  const float inverse = 1.0f / params.scale;
  for (int64_t i = 0; i < n; ++i)
    out[i] = to_int8(static_cast<float>(params.zero_point) + std::round(values[i] * inverse), -128.0f);
  return params;
}

}  // namespace

bool choose_asymmetric_quant_params(float low, float high, QuantParams& params) {
  const double rmin = std::min(0.0f, low), rmax = std::max(0.0f, high);
  if (!(rmin < rmax) || !std::isfinite(rmax - rmin)) return false;
  const double scale = (rmax - rmin) / 255.0;
  const double at_min = rmin / scale, at_max = rmax / scale;
  const double zeros[] = {127.0 - at_max, -128.0 - at_min};
  // Which end is nearer changes from row to row: a table, not a branch.
  const double zero = zeros[128.0 + std::fabs(at_min) < 127.0 + std::fabs(at_max) ? 1 : 0];
  params.scale = static_cast<float>(scale);
  const double bounded = std::clamp(zero, -128.0, 127.0);
  params.zero_point = static_cast<int32_t>(bounded + std::copysign(0x1.fffffffffffffp-2, bounded));  // std::round
  return true;
}

QuantParams quantize_row(const float* values, int64_t n, bool asymmetric, int8_t* out) {
  if (n == 0) return {};
  const auto [low, high] = std::minmax_element(values, values + n);
  return asymmetric ? asymmetric_row(values, n, *low, *high, out) : symmetric_row(values, n, *low, *high, out);
}

ByteQuantParams choose_byte_quant_params(float low, float high) {
  const float scale = high == low ? 1 : (high - low) / 255;
  return {scale, std::clamp(std::nearbyint(-low / scale), 0.0f, 255.0f)};
}

BlockQuantParams choose_block_quant_params(float magnitude) {
  if (!std::isfinite(magnitude)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  const float inverse = 127.0f / magnitude;
  if (!std::isfinite(inverse)) return {};
  return {magnitude / 127.0f, inverse};
}

float quantize_block(const float* values, int64_t n, int8_t* out) {
  float magnitude = 0;
  for (int64_t i = 0; i < n; ++i)
    if (!(std::fabs(values[i]) <= magnitude)) magnitude = std::fabs(values[i]);
  for (int64_t i = 0; i < n; ++i)
    if (std::isnan(values[i])) magnitude = values[i];
  const BlockQuantParams params = choose_block_quant_params(magnitude);
  for (int64_t i = 0; i < n; ++i) {
    const float v = values[i] * params.inverse;
    out[i] = std::isnan(v) ? int8_t{0} : static_cast<int8_t>(std::clamp(std::nearbyint(v), -127.0f, 127.0f));
  }
  return params.scale;
}

}  // namespace smelt
