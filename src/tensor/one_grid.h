#pragma once

#include "smelt/tensor.h"

namespace smelt {

/// Quantized with one scale and zero point for the whole tensor.
inline bool on_one_grid(const QuantPtr& q) {
  return q && q->kind == Quantization::Kind::kPerTensor && q->scales.size() == 1;
}

/// Both quantized with the same one scale and zero point.
inline bool on_same_grid(const QuantPtr& a, const QuantPtr& b) {
  return on_one_grid(a) && on_one_grid(b) && a->scale() == b->scale() && a->zero_point() == b->zero_point();
}

}  // namespace smelt
