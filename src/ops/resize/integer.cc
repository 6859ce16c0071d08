#include "ops/resize/integer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/common/operands.h"
#include "ops/common/quantized_pair.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

ResizeNeighbours fixed_neighbours(const ResizeAttrs& a, const ResizeAxis& d, int64_t i) {
  const bool corners = a.coord == ResizeAttrs::Coord::kAlignCorners && d.out > 1;
  const bool half = a.coord == ResizeAttrs::Coord::kHalfPixel;
  const int64_t in = corners ? d.in - 1 : d.in, out = corners ? d.out - 1 : d.out;
  const int64_t step = (1024 * in + out / 2) / out;
  const int64_t at = half ? i * step + step / 2 - 512 : i * step;
  ResizeNeighbours n;
  n.lower = std::max<int64_t>(at / 1024, 0);
  n.upper = std::min((at + 1023) / 1024, d.in - 1);
  n.lower = std::min(n.lower, d.in - 1);
  n.upper = std::max<int64_t>(n.upper, 0);
  n.fixed = at - 1024 * n.lower;
  n.real = 0;
  return n;
}

ResizeNeighbours real_neighbours(const ResizeAttrs& a, const ResizeAxis& d, int64_t i) {
  const bool corners = a.coord == ResizeAttrs::Coord::kAlignCorners && d.out > 1;
  const bool half = a.coord == ResizeAttrs::Coord::kHalfPixel;
  const float step = corners ? static_cast<float>(d.in - 1) / static_cast<float>(d.out - 1)
                             : static_cast<float>(d.in) / static_cast<float>(d.out);
  const float at = half ? (static_cast<float>(i) + 0.5f) * step - 0.5f : static_cast<float>(i) * step;
  ResizeNeighbours n;
  n.lower = std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)), 0, d.in - 1);
  n.upper = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(at)), 0, d.in - 1);
  n.fixed = 0;
  n.real = at - static_cast<float>(n.lower);
  return n;
}

/// XNNPACK clamps the coordinate before it takes the distance.
ResizeNeighbours xnnpack_neighbours(const ResizeAttrs& a, const ResizeAxis& d, int64_t i) {
  const bool corners = a.coord == ResizeAttrs::Coord::kAlignCorners && d.out > 1;
  const float step = corners ? static_cast<float>(d.in - 1) / static_cast<float>(d.out - 1)
                             : static_cast<float>(d.in) / static_cast<float>(d.out);
  float at = static_cast<float>(i) * step;
  if (a.coord == ResizeAttrs::Coord::kHalfPixel) at += 0.5f * step - 0.5f;
  at = std::clamp(at, 0.0f, static_cast<float>(d.in - 1));
  ResizeNeighbours n;
  n.lower = static_cast<int64_t>(at);
  n.upper = std::min(n.lower + 1, d.in - 1);
  n.real = at - static_cast<float>(n.lower);
  n.fixed = std::lrint(n.real * 0x1p+11f);
  return n;
}

/// The weighted sum of four values, in units of 2^-(2 * bits).
int64_t blend(int64_t v00, int64_t v10, int64_t v01, int64_t v11, int64_t dy, int64_t dx, int bits) {
  const int64_t one = int64_t{1} << bits;
  return v00 * (one - dy) * (one - dx) + v10 * dy * (one - dx) + v01 * (one - dy) * dx + v11 * dy * dx;
}

int64_t blend_fixed(int64_t v00, int64_t v10, int64_t v01, int64_t v11, int64_t dy, int64_t dx) {
  const int64_t sum = blend(v00, v10, v01, v11, dy, dx, 10);
  return (sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20);
}

int64_t blend_xnnpack(int64_t v00, int64_t v10, int64_t v01, int64_t v11, int64_t dy, int64_t dx) {
  return (blend(v00, v10, v01, v11, dy, dx, 11) + (1 << 21)) >> 22;
}

int64_t blend_real(float v00, float v10, float v01, float v11, float dy, float dx) {
  const float sum = v00 * (1 - dy) * (1 - dx) + v10 * dy * (1 - dx) + v01 * (1 - dy) * dx + v11 * dy * dx;
  return static_cast<int64_t>(sum + 0.5f);  // NOLINT(bugprone-incorrect-roundings): as TFLite rounds
}

}  // namespace

ResizeNeighbours resize_neighbours(const ResizeAttrs& a, const ResizeAxis& d, int64_t i, IntegerResize arithmetic) {
  if (arithmetic == IntegerResize::kXnnpack) return xnnpack_neighbours(a, d, i);
  return arithmetic == IntegerResize::kFixed ? fixed_neighbours(a, d, i) : real_neighbours(a, d, i);
}

IntegerResize integer_resize(const ResizeAttrs& a, DType x, DType y, const std::vector<ResizeAxis>& axes) {
  if (!a.tflite || a.rounding == Rounding::kFloatHalfEven || a.mode != ResizeAttrs::Mode::kLinear || a.antialias ||
      !is_integer(x) || x != y || bit_width(x) > 16 || axes.size() != 2 || axes[0].axis + 1 != axes[1].axis ||
      axes[0].in <= 0 || axes[1].in <= 0)
    return IntegerResize::kNone;
  if (a.rounding == Rounding::kXnnpack && is_8bit(x)) return IntegerResize::kXnnpack;
  return is_signed_integer(x) ? IntegerResize::kFixed : IntegerResize::kReal;
}

Status resize_in_integers(KernelContext& ctx, const ResizeAttrs& a, const std::vector<ResizeAxis>& axes,
                          IntegerResize arithmetic) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const ResizeAxis &v = axes[0], &h = axes[1];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < v.axis; ++i) outer *= x.dim(i);
  for (int i = h.axis + 1; i < x.rank(); ++i) inner *= x.dim(i);
  SMELT_ASSIGN(const uint64_t* const integers, operand<uint64_t>(ctx, x));
  const auto* xs = reinterpret_cast<const int64_t*>(integers);
  SMELT_ASSIGN(uint64_t* const ys, scratch_array<uint64_t>(ctx, y.elements()));
  const auto value = [&](const std::array<const int64_t*, 4>& p, int64_t c, const ResizeNeighbours& ny,
                         const ResizeNeighbours& nx) {
    if (arithmetic == IntegerResize::kReal)
      return blend_real(static_cast<float>(p[0][c]), static_cast<float>(p[1][c]), static_cast<float>(p[2][c]),
                        static_cast<float>(p[3][c]), ny.real, nx.real);
    return (arithmetic == IntegerResize::kFixed ? blend_fixed : blend_xnnpack)(p[0][c], p[1][c], p[2][c], p[3][c],
                                                                               ny.fixed, nx.fixed);
  };
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < v.out; ++i) {
      const ResizeNeighbours ny = resize_neighbours(a, v, i, arithmetic);
      for (int64_t j = 0; j < h.out; ++j) {
        const ResizeNeighbours nx = resize_neighbours(a, h, j, arithmetic);
        const auto pixel = [&](int64_t r, int64_t c) { return xs + ((o * v.in + r) * h.in + c) * inner; };
        const std::array<const int64_t*, 4> p{pixel(ny.lower, nx.lower), pixel(ny.upper, nx.lower),
                                              pixel(ny.lower, nx.upper), pixel(ny.upper, nx.upper)};
        uint64_t* to = ys + ((o * v.out + i) * h.out + j) * inner;
        for (int64_t c = 0; c < inner; ++c) to[c] = static_cast<uint64_t>(value(p, c, ny, nx));
      }
    }
  store(ys, y);
  return Ok();
}

}  // namespace smelt
