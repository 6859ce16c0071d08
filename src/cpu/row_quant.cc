#include "cpu/row_quant.h"

#include <algorithm>
#include <cmath>

#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_quant.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tensor/numeric.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

void row_range(const float* x, int64_t n, float* low, float* high) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float lo = x[0], hi = x[0];
  int64_t i = 0;
  if (n >= lanes) {
    V vlo = hn::LoadU(d, x), vhi = vlo;
    for (i = lanes; i + lanes <= n; i += lanes) {
      const V v = hn::LoadU(d, x + i);
      vlo = hn::Min(vlo, v);
      vhi = hn::Max(vhi, v);
    }
    lo = hn::GetLane(hn::MinOfLanes(d, vlo));
    hi = hn::GetLane(hn::MaxOfLanes(d, vhi));
  }
  for (; i < n; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
  }
  *low = lo;
  *high = hi;
}

void rescale_sums(const int32_t* sums, int32_t zero, const int32_t* column_sums, float row_scale, const float* scales,
                  const float* bias, bool first, bool last, float lo, float hi, int64_t n, float* y) {
  const auto step = [&](auto d, int64_t j) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    auto s = hn::LoadU(di, sums + j);
    if (zero != 0) s = hn::Sub(s, hn::Mul(hn::Set(di, zero), hn::LoadU(di, column_sums + j)));
    auto v = hn::Mul(hn::Mul(hn::ConvertTo(d, s), hn::Set(d, row_scale)), hn::LoadU(d, scales + j));
    if (!first) v = hn::Add(v, hn::LoadU(d, y + j));
    if (last) {
      if (bias) v = hn::Add(v, hn::LoadU(d, bias + j));
      v = hn::Min(hn::Set(d, hi), hn::Max(hn::Set(d, lo), v));
    }
    hn::StoreU(v, d, y + j);
  };
  const D d;
  const hn::CappedTag<float, 4> four;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) step(d, j);
  for (; j + 4 <= n; j += 4) step(four, j);
  for (; j < n; ++j) step(one, j);
}

void to_grid(const float* x, int64_t n, const Grid& grid, uint8_t* out) {
  const Grid g = grid;  // stores to `out` cannot change it
  const float inverse = 1.0f / g.scale;
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto x_i = hn::LoadU(d, x + i);
    const auto v = g.factor       ? hn::Mul(x_i, hn::Set(d, g.scale))
                   : g.reciprocal ? hn::Mul(x_i, hn::Set(d, inverse))
                                  : hn::Div(x_i, hn::Set(d, g.scale));
    auto r = hn::Min(hn::Max(v, hn::Set(d, static_cast<float>(g.low - g.zero))),
                     hn::Set(d, static_cast<float>(g.high - g.zero)));
    if (g.away) {
      const auto whole = hn::Trunc(r);
      const auto tie = hn::Ge(hn::Abs(hn::Sub(r, whole)), hn::Set(d, 0.5f));
      r = hn::Add(whole, hn::IfThenElseZero(tie, hn::CopySign(hn::Set(d, 1.0f), r)));
    }
    auto q = hn::Add(hn::NearestInt(r), hn::Set(di, g.zero));
    q = hn::IfThenZeroElse(hn::RebindMask(di, hn::IsNaN(v)), q);
    if (g.wide) {
      auto* to = reinterpret_cast<uint16_t*>(out) + i;
      if (g.is_signed) {
        const hn::Rebind<int16_t, decltype(d)> d16;
        hn::StoreU(hn::DemoteTo(d16, q), d16, reinterpret_cast<int16_t*>(to));
      } else {
        const hn::Rebind<uint16_t, decltype(d)> d16;
        hn::StoreU(hn::DemoteTo(d16, q), d16, to);
      }
    } else if (g.is_signed) {
      const hn::Rebind<int8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, q), d8, reinterpret_cast<int8_t*>(out + i));
    } else {
      const hn::Rebind<uint8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, q), d8, out + i);
    }
  };
  const D d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  for (; i < n; ++i) step(one, i);
}

void from_grid(const uint8_t* x, int64_t n, const Grid& grid, float factor, float* out) {
  const Grid g = grid;  // stores to `out` cannot change it
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<int8_t, decltype(d)> ds;
    const hn::Rebind<uint8_t, decltype(d)> du;
    const auto q = g.is_signed ? hn::PromoteTo(di, hn::LoadU(ds, reinterpret_cast<const int8_t*>(x + i)))
                               : hn::PromoteTo(di, hn::LoadU(du, x + i));
    const auto real = hn::Mul(hn::Set(d, g.scale), hn::ConvertTo(d, hn::Sub(q, hn::Set(di, g.zero))));
    hn::StoreU(hn::Mul(hn::Set(d, factor), real), d, out + i);
  };
  const D d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  for (; i < n; ++i) step(one, i);
}

RowQuant make_row_quant() { return {row_range, rescale_sums, to_grid, from_grid}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

Grid grid_of(DType dtype) {
  Grid grid;
  grid.low = static_cast<int32_t>(int_min(dtype));
  grid.high = static_cast<int32_t>(int_max(dtype));
  grid.is_signed = grid.low < 0;
  grid.wide = bit_width(dtype) == 16;
  return grid;
}

Grid grid_of(const ValueType& t) {
  Grid grid = grid_of(t.dtype);
  grid.scale = t.quant->scale();
  grid.zero = t.quant->zero_point();
  grid.away = t.quant->rounding != Rounding::kFloatHalfEven;
  return grid;
}

bool one_known_grid(const NodeSpec& spec) {
  for (size_t i = 1; i < spec.inputs.size(); ++i)
    if (spec.has(i) && (!spec.constant(i) || spec.constant(i)->elements() != 1)) return false;
  return true;
}

const RowQuant& row_quant(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_row_quant)(); });
}

RowGrid RowQuant::quantize_row(const float* x, int64_t n, bool asymmetric, int8_t* out) const {
  if (n == 0) return {};
  float low, high;
  range(x, n, &low, &high);
  const float magnitude = std::max(std::fabs(low), std::fabs(high));
  if (!(magnitude > 0) || !std::isfinite(magnitude)) return smelt::quantize_row(x, n, asymmetric, out);
  RowGrid row{magnitude / 127.0f, 0};
  Grid grid{.scale = 127.0f / magnitude, .low = -127, .away = true, .factor = true};
  if (asymmetric) {
    if (!asymmetric_grid(low, high, row)) return smelt::quantize_row(x, n, true, out);
    grid.scale = 1.0f / row.scale;
    grid.zero = row.zero_point;
    grid.low = -128;
  }
  to_grid(x, n, grid, reinterpret_cast<uint8_t*>(out));
  return row;
}

}  // namespace smelt
#endif
