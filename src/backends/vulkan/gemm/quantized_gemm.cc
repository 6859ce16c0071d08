#include "backends/vulkan/gemm/quantized_gemm.h"

#include <algorithm>
#include <bit>
#include <span>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/float64_factor.h"

namespace smelt::vulkan {

std::optional<QuantizedGemm> QuantizedGemm::make(const KernelSpec& spec, int w_axis, int64_t channels,
                                                 const RescaleRule& rule) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (x.dtype != y.dtype || (spec.has(2) && !spec.constant(2))) return std::nullopt;
  auto pair = QuantizedPair::make(x, spec.inputs[1], w_axis, channels);
  if (!pair || (pair->w_signed != pair->x_signed && !pair->w_signed)) return std::nullopt;
  auto requantize = RequantizeParams::make(spec, channels, rule);
  if (!requantize) return std::nullopt;
  const auto left = [](int32_t shift) { return shift < 0; };
  if (requantize->rounding == Rounding::kFixedDouble && std::ranges::any_of(requantize->shifts, left))
    return std::nullopt;
  return QuantizedGemm{std::move(*pair), std::move(*requantize)};
}

Result<Binding> QuantizedGemm::table(KernelRecorder& r) const {
  std::vector<int32_t> rows;
  rows.reserve(requantize.bias.size() * 4);
  for (size_t c = 0; c < requantize.bias.size(); ++c) {
    int32_t factor = 0, shift = 0;
    if (requantize.rounding == Rounding::kFloatHalfEven) {
      factor = std::bit_cast<int32_t>(requantize.factors[c]);
    } else if (requantize.rounding == Rounding::kDoubleHalfAway) {
      const Float64Factor f = Float64Factor::of(requantize.double_factors[c]);
      factor = static_cast<int32_t>(f.high);
      shift = static_cast<int32_t>(f.low_and_shift);
    } else {
      factor = requantize.multipliers[c];
      shift = requantize.shifts[c];
    }
    rows.insert(rows.end(), {requantize.bias[c], factor, shift, signed_weight(pair.w_zeros[c])});
  }
  return r.table("requantize", std::span<const int32_t>(rows));
}

bool QuantizedGemm::zeros_fit() const {
  const auto fits = [](int32_t zero, bool is_signed) {
    return is_signed ? zero >= -128 && zero <= 127 : zero >= 0 && zero <= 255;
  };
  return fits(pair.x_zero, pair.x_signed) &&
         std::ranges::all_of(pair.w_zeros, [&](int32_t z) { return fits(z, pair.w_signed); });
}

std::optional<int32_t> QuantizedGemm::w_zero() const {
  for (int32_t z : pair.w_zeros)
    if (z != pair.w_zeros[0]) return std::nullopt;
  return pair.w_zeros.empty() ? 0 : pair.w_zeros[0];
}

bool is_int8(const KernelSpec& spec, const ValueType& t) {
  return (t.dtype == DType::kI8 || t.dtype == DType::kU8) && spec.device.stores(t.dtype);
}

ZeroPoints zero_points(const KernelSpec& spec, size_t i, DType operand, int64_t channels) {
  if (!spec.has(i)) return ZeroPoints::kNone;
  const ValueType& t = spec.inputs[i];
  if (t.dtype != operand || t.shape.rank() > 1) return ZeroPoints::kUnsupported;
  if (t.shape.elements() == 1) return ZeroPoints::kPerTensor;
  return t.shape.elements() == channels ? ZeroPoints::kPerChannel : ZeroPoints::kUnsupported;
}

}  // namespace smelt::vulkan
