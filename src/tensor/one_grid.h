#pragma once

#include "smelt/tensor.h"

namespace smelt {

/// Quantized with one scale and zero point for the whole tensor.
inline bool on_one_grid(const QuantPtr& q) {
  return q && q->kind == Quantization::Kind::kPerTensor && q->scales.size() == 1;
}

}  // namespace smelt
