#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "smelt/tensor.h"

namespace smelt {

/// Scale and zero point of a tensor, or of one of its rows: real = scale * (q - zero_point).
struct QuantParams {
  float scale = 1;
  int32_t zero_point = 0;
  friend bool operator==(const QuantParams&, const QuantParams&) = default;
};

/// Parameters of a per-tensor quantization; scale 1 and zero point 0 without one.
inline QuantParams per_tensor_params(const QuantPtr& q) {
  return q ? QuantParams{q->scale(), q->zero_point()} : QuantParams{};
}

/// True if the value is quantized with one scale and zero point for the whole tensor.
inline bool is_per_tensor(const QuantPtr& q) {
  return q && q->kind == Quantization::Kind::kPerTensor && q->scales.size() == 1;
}

/// Parameters of int8 values that a run chooses for each slice of the last `dims` dimensions: each row if that is 1.
inline QuantPtr per_slice_quant(int dims) {
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerToken;
  q->axis = dims;
  return q;
}

/// True if two values have equal quantization parameters: both unquantized, or equal kinds, scales, zero points (absent
/// ones are 0), axes and blocks. The rounding rule may differ.
inline bool same_quant_params(const QuantPtr& a, const QuantPtr& b) {
  if (a == b) return true;
  if (!a || !b || a->kind != b->kind || a->scales != b->scales) return false;
  using Kind = Quantization::Kind;
  if (a->kind != Kind::kPerTensor && a->axis != b->axis) return false;
  if (a->kind == Kind::kPerBlock && a->block != b->block) return false;
  if (a->kind == Kind::kPerToken && a->symmetric != b->symmetric) return false;
  const size_t n = std::max({a->scales.size(), a->zero_points.size(), b->zero_points.size()});
  for (size_t i = 0; i < n; ++i)
    if (a->zero_point(static_cast<int64_t>(i)) != b->zero_point(static_cast<int64_t>(i))) return false;
  return true;
}

/// True if two values are quantized per tensor with equal parameters.
inline bool same_per_tensor(const QuantPtr& a, const QuantPtr& b) {
  return is_per_tensor(a) && same_quant_params(a, b);
}

}  // namespace smelt
