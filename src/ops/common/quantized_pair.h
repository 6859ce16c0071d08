#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace smelt {

inline bool is_8bit(DType t) { return t == DType::kI8 || t == DType::kU8; }

/// 8-bit quantized operands of a Conv or MatMul: an activation with one zero point, weights with one zero point or one
/// for each output channel.
struct QuantizedPair {
  bool x_signed = true, w_signed = true;
  int32_t x_zero = 0;
  std::vector<int32_t> w_zeros;  ///< one a channel

  /// nullopt: not 8-bit integers of per-tensor x and per-tensor or per-`w_axis` weights.
  static std::optional<QuantizedPair> make(const ValueType& x, const ValueType& w, int w_axis, int64_t channels);
  /// A weight with its zero point subtracted, from its byte.
  int16_t weight(uint8_t byte, int64_t channel) const {
    const int32_t value = w_signed ? static_cast<int8_t>(byte) : byte;
    return static_cast<int16_t>(value - w_zeros[static_cast<size_t>(channel)]);
  }
};

}  // namespace smelt
