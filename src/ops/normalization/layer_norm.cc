// Normalization over slices: LayerNorm (and RMS), GroupNorm (and instance), MeanVarianceNorm.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/common/broadcast.h"
#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/common/parameters.h"
#include "ops/core/op.h"
#include "ops/normalization/normalization.h"
#include "ops/normalization/statistics.h"
#include "ops/reduce/plan.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

template <class T>
std::vector<T> load(const Tensor& t) {
  std::vector<T> v(static_cast<size_t>(t.elements()));
  if constexpr (sizeof(T) == sizeof(double))
    to_doubles(t, v.data());
  else
    to_floats(t, v.data());
  return v;
}

template <class T>
void store(const std::vector<T>& v, Tensor& t) {
  if constexpr (sizeof(T) == sizeof(double))
    from_doubles(v.data(), t);
  else
    from_floats(v.data(), t);
}

/// y = y * scale + bias with scale and bias broadcast to y (absent ones left out).
template <class T>
Status apply_affine(KernelContext& ctx, const Shape& shape, std::vector<T>& y) {
  for (int k = 1; k <= 2; ++k) {
    if (!ctx.has(k)) continue;
    const Tensor& p = ctx.input(k);
    SMELT_ASSIGN(const Shape joint, broadcast_shapes(p.shape(), shape));
    if (!(joint == shape))
      return InvalidInput(k == 1 ? "scale" : "bias", " of shape ", p.shape().str(), " does not broadcast to ",
                          shape.str());
    const std::vector<T> v = load<T>(p);
    BroadcastWalk<1>(shape, {p.shape()}).each([&](int64_t out, const std::array<int64_t, 1>& at) {
      T& value = y[static_cast<size_t>(out)];
      value = k == 1 ? value * v[static_cast<size_t>(at[0])] : value + v[static_cast<size_t>(at[0])];
    });
  }
  return Ok();
}

template <class T>
Status layer_norm(KernelContext& ctx, const LayerNormAttrs& attrs, int axis) {
  const Tensor& x = ctx.input(0);
  std::vector<T> v = load<T>(x);
  const int64_t rows = product(x.shape(), 0, axis), n = product(x.shape(), axis, x.rank());
  for (int64_t r = 0; r < rows; ++r) {
    T* row = v.data() + r * n;
    Moments m;
    if (attrs.rms)
      m.variance = mean_square(row, n);
    else
      m = moments(row, n);
    const double inverse = 1 / std::sqrt(m.variance + attrs.epsilon);
    for (int64_t i = 0; i < n; ++i) row[i] = static_cast<T>((static_cast<double>(row[i]) - m.mean) * inverse);
    if (ctx.wants(1)) set_double(ctx.output(1), r, m.mean);
    if (ctx.wants(2)) set_double(ctx.output(2), r, inverse);
  }
  SMELT_TRY(apply_affine<T>(ctx, x.shape(), v));
  store(v, ctx.output(0));
  return Ok();
}

/// Shape and groups of a GroupNorm.
struct Groups {
  int64_t batch, channels, spatial, groups;
};

Result<Groups> groups_of(const GroupNormAttrs& attrs, const Shape& shape) {
  if (shape.rank() < 2) return InvalidInput("group normalization of shape ", shape.str(), ", rank 2 or more expected");
  const bool last = attrs.layout == Layout::kChannelsLast;
  const int axis = last ? shape.rank() - 1 : 1;
  Groups g{shape[0], shape[axis], last ? product(shape, 1, axis) : product(shape, 2, shape.rank()), attrs.groups};
  if (g.groups == 0) g.groups = std::max<int64_t>(g.channels, 1);
  if (g.groups < 0 || g.channels % g.groups != 0)
    return InvalidInput(g.channels, " channels do not divide into ", attrs.groups, " groups");
  return g;
}

}  // namespace

Status infer_LayerNorm(InferContext& ctx) {
  const auto& attrs = ctx.attrs<LayerNormAttrs>();
  SMELT_TRY(same_as_input(ctx));
  ValueType statistics = ctx.input(0);
  statistics.quant = nullptr;
  statistics.dtype = attrs.stash;
  if (statistics.ranked && statistics.shape.rank() > 0) {
    SMELT_TRY(check_spreads(ctx, 1, statistics.shape, "scale"));
    SMELT_TRY(check_spreads(ctx, 2, statistics.shape, "bias"));
    SMELT_ASSIGN(const int axis, normalize_axis(attrs.axis, statistics.shape.rank()));
    for (int d = axis; d < statistics.shape.rank(); ++d) statistics.shape[d] = 1;
  }
  for (int i = 1; i < ctx.outputs(); ++i) {
    ValueType type = statistics;
    if (const DType declared = ctx.declared(i).dtype; declared != DType::kInvalid) type.dtype = declared;
    ctx.set(i, std::move(type));
  }
  return Ok();
}

Status reference_LayerNorm(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<LayerNormAttrs>();
  const Tensor& x = ctx.input(0);
  if (x.rank() == 0) return InvalidInput("layer normalization of a scalar");
  SMELT_ASSIGN(const int axis, normalize_axis(attrs.axis, x.rank()));
  return x.dtype() == DType::kF64 ? layer_norm<double>(ctx, attrs, axis) : layer_norm<float>(ctx, attrs, axis);
}

Status infer_GroupNorm(InferContext& ctx) {
  const auto& attrs = ctx.attrs<GroupNormAttrs>();
  SMELT_TRY(same_as_input(ctx));
  const ValueType& x = ctx.input(0);
  ValueType statistics = ValueType::tensor(x.dtype, Shape{-1, attrs.groups > 0 ? attrs.groups : -1});
  if (x.ranked) {
    if (x.shape.rank() < 2) return InvalidInput("group normalization of ", x.str(), ", rank 2 or more expected");
    statistics.shape[0] = x.shape[0];
    const int64_t channels = x.shape[attrs.layout == Layout::kChannelsFirst ? 1 : x.shape.rank() - 1];
    const int64_t affine = attrs.per_group_affine && attrs.groups > 0 ? attrs.groups : channels;
    SMELT_TRY(check_length(ctx, 1, affine, "scale"));
    SMELT_TRY(check_length(ctx, 2, affine, "bias"));
    if (attrs.groups == 0) statistics.shape[1] = channels;
  }
  for (int i = 1; i < ctx.outputs(); ++i) ctx.set(i, statistics);
  return Ok();
}

Status reference_GroupNorm(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<GroupNormAttrs>();
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const Groups g, groups_of(attrs, x.shape()));
  const int64_t width = g.channels / g.groups;
  std::vector<double> v = load<double>(x), affine[2];
  for (int k = 0; k < 2; ++k) {
    if (!ctx.has(k + 1)) continue;
    affine[k] = load<double>(ctx.input(k + 1));
    const int64_t want = attrs.per_group_affine ? g.groups : g.channels;
    if (static_cast<int64_t>(affine[k].size()) != want)
      return InvalidInput(k ? "bias" : "scale", " has ", affine[k].size(), " elements, ", want, " expected");
  }
  const bool last = attrs.layout == Layout::kChannelsLast;
  const auto index = [&](int64_t n, int64_t c, int64_t s) {
    return static_cast<size_t>(last ? (n * g.spatial + s) * g.channels + c : (n * g.channels + c) * g.spatial + s);
  };
  const bool activated = attrs.act.kind != ActKind::kNone;
  std::vector<double> group(static_cast<size_t>(width * g.spatial));
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t k = 0; k < g.groups; ++k) {
      for (int64_t c = 0; c < width; ++c)
        for (int64_t s = 0; s < g.spatial; ++s)
          group[static_cast<size_t>(c * g.spatial + s)] = v[index(n, k * width + c, s)];
      const Moments m = moments(group.data(), width * g.spatial);
      const double inverse = 1 / std::sqrt(m.variance + attrs.epsilon);
      for (int64_t c = 0; c < width; ++c) {
        const auto p = static_cast<size_t>(attrs.per_group_affine ? k : k * width + c);
        const double scale = affine[0].empty() ? 1 : affine[0][p], bias = affine[1].empty() ? 0 : affine[1][p];
        for (int64_t s = 0; s < g.spatial; ++s) {
          double& value = v[index(n, k * width + c, s)];
          value = (value - m.mean) * inverse * scale + bias;
          if (activated) value = activate(attrs.act, static_cast<float>(value));
        }
      }
      if (ctx.wants(1)) set_double(ctx.output(1), n * g.groups + k, m.mean);
      if (ctx.wants(2)) set_double(ctx.output(2), n * g.groups + k, inverse);
    }
  store(v, ctx.output(0));
  return Ok();
}

Status infer_MeanVarianceNorm(InferContext& ctx) {
  const ValueType& x = ctx.input(0);
  if (x.ranked) SMELT_TRY(normalize_axes(ctx.attrs<MeanVarianceNormAttrs>().axes, x.shape.rank()));
  return same_as_input(ctx);
}

Status reference_MeanVarianceNorm(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const auto axes, normalize_axes(ctx.attrs<MeanVarianceNormAttrs>().axes, x.rank()));
  const ReducePlan plan(x.shape(), axes);
  std::vector<double> v = load<double>(x);
  std::vector<double> mean(static_cast<size_t>(plan.outputs()), 0.0), deviation(mean);
  const auto n = static_cast<double>(plan.count());
  plan.each([&](int64_t in, int64_t out) { mean[static_cast<size_t>(out)] += v[static_cast<size_t>(in)] / n; });
  plan.each([&](int64_t in, int64_t out) {
    const double d = v[static_cast<size_t>(in)] - mean[static_cast<size_t>(out)];
    deviation[static_cast<size_t>(out)] += d * d / n;
  });
  for (double& d : deviation) d = std::sqrt(d) + 1e-9;
  plan.each([&](int64_t in, int64_t out) {
    double& value = v[static_cast<size_t>(in)];
    value = (value - mean[static_cast<size_t>(out)]) / deviation[static_cast<size_t>(out)];
  });
  store(v, ctx.output(0));
  return Ok();
}

}  // namespace smelt
