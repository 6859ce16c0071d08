#include "ops/common/quantized_pair.h"

#include "tensor/quant_params.h"

namespace smelt {

std::optional<QuantizedPair> QuantizedPair::make(const ValueType& x, const ValueType& w, int w_axis, int64_t channels) {
  if (!is_8bit(x.dtype) || !is_8bit(w.dtype) || !is_per_tensor(x.quant) || !w.quant) return std::nullopt;
  const Quantization& q = *w.quant;
  if (q.kind == Quantization::Kind::kPerAxis) {
    if (q.scales.size() != 1 && (q.axis != w_axis || static_cast<int64_t>(q.scales.size()) != channels))
      return std::nullopt;
  } else if (!is_per_tensor(w.quant)) {
    return std::nullopt;
  }
  const size_t zeros = q.zero_points.size();
  if (zeros > 1 && zeros != q.scales.size()) return std::nullopt;
  QuantizedPair p;
  p.x_signed = x.dtype == DType::kI8;
  p.w_signed = w.dtype == DType::kI8;
  p.x_zero = x.quant->zero_point();
  // The padding of an image is filled with the zero point, which must be a value of the type.
  if (p.x_zero < (p.x_signed ? -128 : 0) || p.x_zero > (p.x_signed ? 127 : 255)) return std::nullopt;
  p.w_zeros.resize(static_cast<size_t>(channels));
  if (zeros == 0) return p;
  for (size_t c = 0; c < p.w_zeros.size(); ++c) {
    const auto at = static_cast<int64_t>(q.scales.size() == 1 ? 0 : c);
    p.w_zeros[c] = q.zero_point(at);
    if (p.w_zeros[c] < -128 || p.w_zeros[c] > 255) return std::nullopt;
  }
  return p;
}

}  // namespace smelt
