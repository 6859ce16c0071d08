#include "cpu/integer_weights.h"

#include <algorithm>

#include "tensor/numeric.h"

namespace smelt {
namespace {

int32_t stored_weight(const Tensor& b, int64_t i) {
  switch (b.dtype()) {
    case DType::kI8:
      return b.data<int8_t>()[i];
    case DType::kU8:
      return b.data<uint8_t>()[i];
    case DType::kU4:
      return b.data<uint8_t>()[i / 2] >> (i % 2 * 4) & 15;
    case DType::kI4:
      return static_cast<int8_t>(b.data<uint8_t>()[i / 2] >> (i % 2 * 4) << 4) >> 4;
    default:
      return static_cast<int32_t>(get_int(b, i));
  }
}

}  // namespace

std::optional<IntegerWeights> IntegerWeights::make(const Tensor& b, const MatMulShape& s) {
  if (!b.quant() || !is_integer(b.dtype()) || bit_width(b.dtype()) > 8 || b.rank() != 2) return std::nullopt;
  const Quantization& q = *b.quant();
  const int k_axis = s.g.b.column_stride == 1 && s.g.b.row_stride != 1 ? 0 : 1;
  const int n_axis = 1 - k_axis;
  IntegerWeights w;
  w.block = std::max<int64_t>(s.k, 1);
  const auto scales = static_cast<int64_t>(q.scales.size());
  if (q.kind == Quantization::Kind::kPerBlock) {
    if (q.axis != k_axis || q.block <= 0 || b.dim(k_axis) != s.k || b.dim(n_axis) != s.n) return std::nullopt;
    w.block = q.block;
    w.blocks = (s.k + q.block - 1) / q.block;
    if (scales != w.blocks * s.n) return std::nullopt;
  } else if (q.kind == Quantization::Kind::kPerAxis) {
    if (scales != 1 && (q.axis != n_axis || scales != s.n)) return std::nullopt;
  } else if (q.kind != Quantization::Kind::kPerTensor || scales != 1) {
    return std::nullopt;
  }
  if (q.zero_points.size() > 1 && static_cast<int64_t>(q.zero_points.size()) != scales) return std::nullopt;
  const auto parameter = [&](int64_t n, int64_t i) {
    if (scales == 1) return int64_t{0};
    if (w.blocks == 1 && q.kind != Quantization::Kind::kPerBlock) return n;
    return k_axis == 1 ? n * w.blocks + i : i * s.n + n;
  };
  w.scales.resize(static_cast<size_t>(w.blocks * s.n));
  if (b.dtype() == DType::kI8 && w.blocks == 1 && s.g.b.row_stride == 1 && s.g.b.column_stride == s.k &&
      std::all_of(q.zero_points.begin(), q.zero_points.end(), [](int32_t z) { return z == 0; })) {
    for (int64_t n = 0; n < s.n; ++n) w.scales[static_cast<size_t>(n)] = q.scale(parameter(n, 0));
    w.plain = b.data<int8_t>();
    return w;
  }
  w.values.resize(static_cast<size_t>(s.n * s.k));
  int16_t* to = w.values.data();
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t i = 0; i < w.blocks; ++i) {
      const int64_t p = parameter(n, i);
      const int32_t zero = q.zero_point(q.zero_points.size() > 1 ? p : 0);
      if (zero < -255 || zero > 255) return std::nullopt;
      w.scales[static_cast<size_t>(i * s.n + n)] = q.scale(p);
      for (int64_t k = i * w.block; k < std::min(s.k, (i + 1) * w.block); ++k)
        *to++ = static_cast<int16_t>(stored_weight(b, k * s.g.b.row_stride + n * s.g.b.column_stride) - zero);
    }
  return w;
}

std::optional<MatMulShape> rows_times_constant(const KernelSpec& spec) {
  if (!spec.constant(1) || !spec.inputs[1].quant) return std::nullopt;
  auto s = MatMulShape::make(spec);
  if (!s || s->batches != 1 || s->b_matrices != 1 || s->k == 0 || s->g.a.column_stride != 1 ||
      (s->m > 1 && s->g.a.row_stride != s->k))
    return std::nullopt;
  return s;
}

bool float_bias(const KernelSpec& spec, const MatMulShape& s) {
  return !spec.has(2) || (spec.inputs[2].dtype == DType::kF32 && s.is_row(spec.inputs[2].shape));
}

bool carries_row_grids(const KernelSpec& spec, const MatMulShape& s) {
  const ValueType& a = spec.inputs[0];
  if (!a.quant || a.quant->kind != Quantization::Kind::kDynamicRow || (a.dtype != DType::kI8 && a.dtype != DType::kU8))
    return false;
  int64_t row = 1;
  for (int i = std::max(0, a.shape.rank() - a.quant->axis); i < a.shape.rank(); ++i) row *= a.shape[i];
  return row == s.k;
}

Status check_row_grids(const Tensor& a, int64_t rows) {
  if (!a.quant()) return Error(ErrorCode::kInternal, "a dynamic operand has no scales");
  const auto scales = static_cast<int64_t>(a.quant()->scales.size());
  if (scales != 1 && scales < rows)
    return Error(ErrorCode::kInvalidInput, "a dynamically quantized operand has too few scales");
  return Ok();
}

}  // namespace smelt
