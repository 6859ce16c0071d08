#pragma once

#include "ops/core/op.h"
#include "ops/resize/plan.h"

namespace smelt {

/// The arithmetic of bilinear resampling of integers along two neighbouring axes.
enum class IntegerResize : uint8_t {
  kNone,    ///< through real numbers
  kFixed,   ///< TFLite, signed: weights of 10 bits, halves away from zero
  kReal,    ///< TFLite, unsigned: float32 weights, halves up
  kXnnpack  ///< XNNPACK, 8 bits: weights of 11 bits of float32 coordinates, halves up
};
IntegerResize integer_resize(const ResizeAttrs& a, DType x, DType y, const std::vector<ResizeAxis>& axes);
/// The number of bits of the integer weights of an arithmetic.
constexpr int weight_bits(IntegerResize arithmetic) { return arithmetic == IntegerResize::kXnnpack ? 11 : 10; }
/// On one axis the two neighbours of output index i and the distance from the lower one, the weight of the upper one.
struct ResizeNeighbours {
  int64_t lower, upper;
  int64_t fixed;  ///< in units of 2^-weight_bits(); kReal: 0
  float real;     ///< kFixed: 0
};
ResizeNeighbours resize_neighbours(const ResizeAttrs& a, const ResizeAxis& d, int64_t i, IntegerResize arithmetic);
/// The reference kernel of an arithmetic that is not kNone.
Status resize_in_integers(KernelContext& ctx, const ResizeAttrs& a, const std::vector<ResizeAxis>& axes,
                          IntegerResize arithmetic);

}  // namespace smelt
