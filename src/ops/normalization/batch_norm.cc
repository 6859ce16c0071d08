#include <cmath>
#include <vector>

#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/common/parameters.h"
#include "ops/core/op.h"
#include "ops/normalization/normalization.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

int channel_axis(Layout layout, int rank) {
  if (rank < 2) return 0;
  return layout == Layout::kChannelsFirst ? 1 : rank - 1;
}

/// A per-channel parameter, or `fill` where it is absent.
Result<std::vector<double>> parameter(KernelContext& ctx, int i, int64_t channels, double fill) {
  std::vector<double> v(static_cast<size_t>(channels), fill);
  if (!ctx.has(i)) return v;
  if (ctx.input(i).elements() != channels)
    return InvalidInput("input ", i, " has ", ctx.input(i).elements(), " elements, one for each of ", channels,
                        " channels expected");
  to_doubles(ctx.input(i), v.data());
  return v;
}

struct Channels {
  AxisView view;
  std::vector<double> x;
  /// Moments over everything but the channels.
  void statistics(std::vector<double>& mean, std::vector<double>& variance) const {
    const auto n = static_cast<double>(view.outer * view.inner);
    for (int64_t c = 0; c < view.extent; ++c) {
      double sum = 0, squares = 0;
      each(c, [&](int64_t i) { sum += x[static_cast<size_t>(i)]; });
      const double m = sum / n;
      each(c, [&](int64_t i) {
        const double d = x[static_cast<size_t>(i)] - m;
        squares += d * d;
      });
      mean[static_cast<size_t>(c)] = m;
      variance[static_cast<size_t>(c)] = squares / n;
    }
  }
  template <class F>
  void each(int64_t c, F&& f) const {
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i) f((o * view.extent + c) * view.inner + i);
  }
};

/// The float32 inference path: one multiply and one add an element.
void scale_floats(const AxisView& v, const float* x, const std::vector<double>& scale, const std::vector<double>& shift,
                  float* y) {
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t c = 0; c < v.extent; ++c) {
      const auto a = static_cast<float>(scale[static_cast<size_t>(c)]),
                 b = static_cast<float>(shift[static_cast<size_t>(c)]);
      const int64_t at = (o * v.extent + c) * v.inner;
      for (int64_t i = 0; i < v.inner; ++i) y[at + i] = x[at + i] * a + b;
    }
}

}  // namespace

Status infer_BatchNorm(InferContext& ctx) {
  const auto& attrs = ctx.attrs<BatchNormAttrs>();
  SMELT_TRY(same_as_input(ctx));
  const ValueType& x = ctx.input(0);
  ValueType parameters = ValueType::tensor(ctx.has(3) ? ctx.input(3).dtype : x.dtype, Shape{-1});
  if (x.ranked && x.shape.rank() > 0) {
    parameters.shape[0] = x.shape[channel_axis(attrs.layout, x.shape.rank())];
    for (int i = 1; i <= 4; ++i) SMELT_TRY(check_length(ctx, i, parameters.shape[0], "a parameter of the channels"));
  }
  if (attrs.torch_outputs && !attrs.training) parameters.shape[0] = 0;
  for (int i = 1; i < ctx.outputs(); ++i) ctx.set(i, parameters);
  return Ok();
}

Status reference_BatchNorm(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<BatchNormAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  if (x.rank() == 0) return InvalidInput("batch normalization of a scalar");
  Channels data{axis_view(x.shape(), channel_axis(attrs.layout, x.rank())), {}};
  const int64_t channels = data.view.extent;
  SMELT_ASSIGN(std::vector<double> scale, parameter(ctx, 1, channels, 1));
  SMELT_ASSIGN(std::vector<double> shift, parameter(ctx, 2, channels, 0));
  SMELT_ASSIGN(const std::vector<double> running_mean, parameter(ctx, 3, channels, 0));
  SMELT_ASSIGN(const std::vector<double> running_variance, parameter(ctx, 4, channels, 1));
  std::vector<double> mean = running_mean, variance = running_variance;
  const bool fast = x.dtype() == DType::kF32 && y.dtype() == DType::kF32;
  if (attrs.training || !fast) {
    data.x.resize(static_cast<size_t>(x.elements()));
    to_doubles(x, data.x.data());
  }
  if (attrs.training) data.statistics(mean, variance);
  for (size_t c = 0; c < scale.size(); ++c) {
    scale[c] /= std::sqrt(variance[c] + attrs.epsilon);
    shift[c] -= mean[c] * scale[c];
  }
  if (fast) {
    scale_floats(data.view, x.data<float>(), scale, shift, y.data<float>());
  } else {
    for (int64_t c = 0; c < channels; ++c)
      data.each(c, [&](int64_t i) {
        const auto k = static_cast<size_t>(c);
        set_double(y, i, data.x[static_cast<size_t>(i)] * scale[k] + shift[k]);
      });
  }
  if (attrs.torch_outputs && !attrs.training) return Ok();
  for (size_t c = 0; c < mean.size(); ++c) {
    const auto i = static_cast<int64_t>(c);
    const double inverse = 1 / std::sqrt(variance[c] + attrs.epsilon);
    const bool mix = attrs.training && !attrs.torch_outputs;
    const double m = attrs.momentum;
    if (ctx.wants(1)) set_double(ctx.output(1), i, mix ? running_mean[c] * m + mean[c] * (1 - m) : mean[c]);
    if (ctx.wants(2))
      set_double(ctx.output(2), i,
                 attrs.torch_outputs ? inverse : (mix ? running_variance[c] * m + variance[c] * (1 - m) : variance[c]));
    if (ctx.wants(3)) set_double(ctx.output(3), i, mean[c]);
    if (ctx.wants(4)) set_double(ctx.output(4), i, variance[c]);
  }
  return Ok();
}

}  // namespace smelt
