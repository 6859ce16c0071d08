#include "backends/vulkan/gemm/quantized_weights.h"

#include <algorithm>

#include "tensor/numeric.h"

namespace smelt::vulkan {

std::optional<QuantizedWeights> QuantizedWeights::make(const Device& device, const ValueType& t, const ConvShape& s,
                                                       int o_axis, int i_axis) {
  if (!t.quant || !is_integer(t.dtype) || bit_width(t.dtype) > 8 || s.groups != 1) return std::nullopt;
  const Quantization& q = *t.quant;
  QuantizedWeights w;
  w.block = s.c_in;
  if (q.kind == Quantization::Kind::kPerBlock) {
    if (t.shape.rank() != 2 || q.axis != i_axis || q.block <= 0 || (q.block % 4 != 0 && q.block < s.c_in))
      return std::nullopt;
    w.block = std::min(q.block, s.c_in);
    if (static_cast<int64_t>(q.scales.size()) != w.blocks(s) * s.c_out) return std::nullopt;
  } else if (q.kind == Quantization::Kind::kPerAxis) {
    if (q.scales.size() != 1 && (q.axis != o_axis || static_cast<int64_t>(q.scales.size()) != s.c_out))
      return std::nullopt;
  } else if (q.kind != Quantization::Kind::kPerTensor || q.scales.size() != 1) {
    return std::nullopt;
  }
  if (q.zero_points.size() > 1 && q.zero_points.size() != q.scales.size()) return std::nullopt;
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < std::max<size_t>(q.zero_points.size(), 1); ++i) {
    const int64_t zero = q.zero_point(static_cast<int64_t>(i));
    low = std::min(low, int_min(t.dtype) - zero);
    high = std::max(high, int_max(t.dtype) - zero);
  }
  if (low < -128 || high > 127) return std::nullopt;
  w.bits = low >= -8 && high <= 7 ? 4 : 8;
  if (!device.stores(w.bits == 4 ? DType::kU16 : DType::kI8)) return std::nullopt;
  return w;
}

int64_t QuantizedWeights::parameter(const Quantization& q, const ConvShape& s, int64_t o, int64_t i) const {
  if (q.scales.size() == 1) return 0;
  if (q.kind != Quantization::Kind::kPerBlock) return o;
  return s.filter_i < s.filter_o ? o * blocks(s) + i / block : i / block * s.c_out + o;
}

std::vector<int8_t> QuantizedWeights::values(const Tensor& weights, const ConvShape& s) const {
  std::vector<int64_t> quantized(static_cast<size_t>(weights.elements()));
  to_ints(weights, quantized.data());
  std::vector<int8_t> values(quantized.size());
  const Quantization& q = *weights.quant();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t p = parameter(q, s, at / s.filter_o % s.all_out(), at / s.filter_i % s.c_in);
    values[i] = static_cast<int8_t>(quantized[i] - q.zero_point(q.zero_points.size() > 1 ? p : 0));
  }
  return values;
}

}  // namespace smelt::vulkan
