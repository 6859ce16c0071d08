#include "cpu/quantized.h"

#include <algorithm>

#include "ops/conv/geometry.h"
#include "tensor/one_grid.h"

namespace smelt {

std::optional<QuantizedPair> QuantizedPair::make(const ValueType& x, const ValueType& w, int w_axis, int64_t channels) {
  const auto eight_bits = [](const ValueType& t) { return t.dtype == DType::kI8 || t.dtype == DType::kU8; };
  if (!eight_bits(x) || !eight_bits(w) || !on_one_grid(x.quant) || !w.quant) return std::nullopt;
  const Quantization& q = *w.quant;
  if (q.kind == Quantization::Kind::kPerAxis) {
    if (q.scales.size() != 1 && (q.axis != w_axis || static_cast<int64_t>(q.scales.size()) != channels))
      return std::nullopt;
  } else if (!on_one_grid(w.quant)) {
    return std::nullopt;
  }
  const size_t zeros = q.zero_points.size();
  if (zeros > 1 && zeros != q.scales.size()) return std::nullopt;
  QuantizedPair p;
  p.x_signed = x.dtype == DType::kI8;
  p.w_signed = w.dtype == DType::kI8;
  p.x_zero = x.quant->zero_point();
  // The padding of an image is stored as the zero point, which must be a value of the type.
  if (p.x_zero < (p.x_signed ? -128 : 0) || p.x_zero > (p.x_signed ? 127 : 255)) return std::nullopt;
  p.w_zeros.resize(static_cast<size_t>(channels));
  for (size_t c = 0; c < p.w_zeros.size(); ++c) {
    const auto at = static_cast<int64_t>(q.scales.size() == 1 ? 0 : c);
    p.w_zeros[c] = q.zero_point(at);
    if (p.w_zeros[c] < -128 || p.w_zeros[c] > 255) return std::nullopt;
  }
  return p;
}

bool fits_int8(const std::vector<int16_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int16_t v) { return v >= -128 && v <= 127; });
}

int filter_output_axis(const ConvAttrs& attrs, int rank) { return filter_dims(attrs.filter, rank).output; }

void transpose_bytes(ThreadPool& pool, const uint8_t* in, int64_t rows, int64_t columns, uint8_t* out) {
  constexpr int64_t kTile = 32;
  pool.parallel_for((columns + kTile - 1) / kTile, 16, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin * kTile; c0 < std::min(columns, end * kTile); c0 += kTile)
      for (int64_t r0 = 0; r0 < rows; r0 += kTile)
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c)
          for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) out[c * rows + r] = in[r * columns + c];
  });
}

}  // namespace smelt
