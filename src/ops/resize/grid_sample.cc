#include <algorithm>
#include <array>
#include <cmath>

#include "ops/common/operands.h"
#include "ops/resize/resize.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

using Padding = GridSampleAttrs::Padding;
using Mode = GridSampleAttrs::Mode;
constexpr int kMaxSpatial = Shape::kMaxRank - 2;

struct GridGeometry {
  int spatial = 0;
  Shape output;
};

Result<GridGeometry> grid_geometry(const Shape& x, const Shape& grid) {
  GridGeometry g;
  g.spatial = x.rank() - 2;
  if (g.spatial < 1 || grid.rank() != x.rank())
    return InvalidModel("the grid has rank ", grid.rank(), ", the image ", x.rank(), "; equal ranks >= 3 expected");
  if (grid.back() >= 0 && grid.back() != g.spatial)
    return InvalidModel("the grid holds ", grid.back(), " coordinates, ", g.spatial, " expected");
  if (x[0] >= 0 && grid[0] >= 0 && x[0] != grid[0])
    return InvalidInput("the grid has a batch of ", grid[0], ", the image of ", x[0]);
  g.output = Shape{x[0] >= 0 ? x[0] : grid[0], x[1]};
  for (int i = 0; i < g.spatial; ++i) g.output.push_back(grid[i + 1]);
  return g;
}

/// Mirrors x into [low, high].
double reflected(double x, double low, double high) {
  const double range = high - low;
  if (!(range > 0)) return low;
  double d = std::fmod(std::fabs(x - low), 2 * range);
  if (d > range) d = 2 * range - d;
  return low + d;
}

struct Sampler {
  const GridSampleAttrs& a;
  int spatial;
  std::array<int64_t, kMaxSpatial> size;
  std::array<int64_t, kMaxSpatial> stride;

  double pixel(double g, int d) const {
    const auto n = static_cast<double>(size[static_cast<size_t>(d)]);
    return a.align_corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  }
  /// Applies the padding rule to a coordinate; results of border and reflection lie in the image.
  double padded(double x, int d) const {
    const auto n = static_cast<double>(size[static_cast<size_t>(d)]);
    if (a.padding == Padding::kZeros) return x;
    if (a.padding == Padding::kReflection) x = a.align_corners ? reflected(x, 0, n - 1) : reflected(x, -0.5, n - 0.5);
    return std::clamp(x, 0.0, n - 1);
  }
};

/// Taps of one dimension: indices (-1: reads zero) and weights.
struct SampleTaps {
  int count = 0;
  std::array<int64_t, 4> index;
  std::array<double, 4> weight;
  void add(double at, double w, int64_t size) {
    const bool inside = at >= 0 && at <= static_cast<double>(size - 1);
    index[static_cast<size_t>(count)] = inside ? static_cast<int64_t>(at) : -1;
    weight[static_cast<size_t>(count++)] = w;
  }
};

double cubic_weight(double x) {
  constexpr double a = -0.75;
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

SampleTaps sample_taps(const Sampler& s, double grid, int d) {
  SampleTaps t;
  const int64_t size = s.size[static_cast<size_t>(d)];
  double x = s.pixel(grid, d);
  if (std::isnan(x)) x = -1;
  x = std::clamp(x, -1e15, 1e15);
  if (s.a.mode == Mode::kCubic) {
    const double base = std::floor(x);
    for (int k = -1; k <= 2; ++k) t.add(s.padded(base + k, d), cubic_weight(x - base - k), size);
    return t;
  }
  x = s.padded(x, d);
  if (s.a.mode == Mode::kNearest) {
    t.add(std::nearbyint(x), 1, size);
    return t;
  }
  const double base = std::floor(x), part = x - base;
  t.add(base, 1 - part, size);
  t.add(base + 1, part, size);
  return t;
}

template <class T>
T sample(const Sampler& s, const T* plane, const std::array<SampleTaps, kMaxSpatial>& taps) {
  std::array<int, kMaxSpatial> at{};
  double sum = 0;
  for (;;) {
    double weight = 1;
    int64_t offset = 0;
    for (int d = 0; d < s.spatial && offset >= 0; ++d) {
      const auto u = static_cast<size_t>(d);
      const int64_t index = taps[u].index[static_cast<size_t>(at[u])];
      weight *= taps[u].weight[static_cast<size_t>(at[u])];
      offset = index < 0 ? -1 : offset + index * s.stride[u];
    }
    if (offset >= 0 && weight != 0) sum += weight * static_cast<double>(plane[offset]);
    int d = s.spatial - 1;
    for (; d >= 0; --d) {
      const auto u = static_cast<size_t>(d);
      if (++at[u] < taps[u].count) break;
      at[u] = 0;
    }
    if (d < 0) return static_cast<T>(sum);
  }
}

template <class T>
Status grid_sample(KernelContext& ctx, const GridGeometry& g) {
  const auto& a = ctx.attrs<GridSampleAttrs>();
  const Tensor &x = ctx.input(0), &grid = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const T* const xs, operand<T>(ctx, x));
  SMELT_ASSIGN(const double* const gs, operand<double>(ctx, grid));
  SMELT_ASSIGN(T* const ys, scratch_array<T>(ctx, y.elements()));
  Sampler s{a, g.spatial, {}, {}};
  int64_t plane = 1, positions = 1;
  for (int d = g.spatial - 1; d >= 0; --d) {
    const auto u = static_cast<size_t>(d);
    s.size[u] = x.dim(d + 2);
    s.stride[u] = plane;
    plane *= x.dim(d + 2);
    positions *= y.dim(d + 2);
  }
  if (y.elements() > 0 && plane == 0) return InvalidInput("sampling of an empty image");
  const int64_t channels = x.dim(1);
  std::array<SampleTaps, kMaxSpatial> taps;
  for (int64_t n = 0; n < y.dim(0); ++n)
    for (int64_t p = 0; p < positions; ++p) {
      const double* at = gs + (n * positions + p) * g.spatial;
      for (int d = 0; d < g.spatial; ++d) taps[static_cast<size_t>(d)] = sample_taps(s, at[g.spatial - 1 - d], d);
      for (int64_t c = 0; c < channels; ++c)
        ys[(n * channels + c) * positions + p] = sample(s, xs + (n * channels + c) * plane, taps);
    }
  store(ys, y);
  return Ok();
}

}  // namespace

Status infer_GridSample(InferContext& ctx) {
  const ValueType &x = ctx.input(0), &grid = ctx.input(1);
  ValueType y = ValueType::tensor(x.dtype);
  if (x.ranked && grid.ranked) {
    SMELT_ASSIGN(const GridGeometry g, grid_geometry(x.shape, grid.shape));
    y.ranked = true;
    y.shape = g.output;
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_GridSample(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const GridGeometry g, grid_geometry(x.shape(), ctx.input(1).shape()));
  return compute_of(x.dtype()) == Compute::kFloat ? grid_sample<float>(ctx, g) : grid_sample<double>(ctx, g);
}

namespace {

/// theta [N, k, k+1] and size [N, C, spatial...] give [N, spatial..., k].
Result<Shape> affine_shape(const Shape& theta, const std::vector<int64_t>& size) {
  const int k = static_cast<int>(size.size()) - 2;
  if (k < 1 || k > 3) return InvalidInput("the size of an affine grid has ", size.size(), " numbers, 4 or 5 expected");
  if (theta.rank() != 3 || (theta[1] >= 0 && theta[1] != k) || (theta[2] >= 0 && theta[2] != k + 1))
    return InvalidInput("theta has shape ", theta.str(), ", [N,", k, ",", k + 1, "] expected");
  Shape s{theta[0] >= 0 ? theta[0] : size[0]};
  for (int i = 0; i < k; ++i) s.push_back(size[static_cast<size_t>(i) + 2]);
  s.push_back(k);
  for (int64_t d : s.dims())
    if (d < -1) return InvalidInput("the size of an affine grid is negative");
  return s;
}

}  // namespace

Status infer_AffineGrid(InferContext& ctx) {
  const ValueType& theta = ctx.input(0);
  ValueType y = ValueType::tensor(theta.dtype);
  const auto size = ctx.ints(1);
  if (theta.ranked && size) {
    SMELT_ASSIGN(y.shape, affine_shape(theta.shape, *size));
    y.ranked = true;
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_AffineGrid(KernelContext& ctx) {
  const bool align = ctx.attrs<AffineGridAttrs>().align_corners;
  const Tensor& theta = ctx.input(0);
  Tensor& y = ctx.output(0);
  const int k = y.rank() - 2;
  if (theta.elements() != y.dim(0) * k * (k + 1)) return InvalidInput("theta does not fit the size of the affine grid");
  SMELT_ASSIGN(const double* const m, operand<double>(ctx, theta));
  SMELT_ASSIGN(double* const out, scratch_array<double>(ctx, y.elements()));
  const int64_t positions = y.dim(0) ? y.elements() / y.dim(0) / k : 0;
  for (int64_t n = 0; n < y.dim(0); ++n)
    for (int64_t p = 0; p < positions; ++p) {
      double base[4] = {0, 0, 0, 0};  // x, y, z, then 1
      int64_t rest = p;
      for (int d = 0; d < k; ++d) {
        const int64_t size = y.dim(k - d), i = rest % size;
        rest /= size;
        const auto at = static_cast<double>(i), extent = static_cast<double>(size);
        base[d] = align ? (size > 1 ? 2 * at / (extent - 1) - 1 : 1) : (2 * at + 1) / extent - 1;
      }
      base[k] = 1;
      for (int r = 0; r < k; ++r) {
        double sum = 0;
        for (int c = 0; c <= k; ++c) sum += m[(n * k + r) * (k + 1) + c] * base[c];
        out[(n * positions + p) * k + r] = sum;
      }
    }
  store(out, y);
  return Ok();
}

}  // namespace smelt
