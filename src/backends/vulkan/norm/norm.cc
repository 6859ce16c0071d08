// Normalization by statistics of rows (norm.comp), by given statistics, and by neighbours.
#include <algorithm>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/norm/norm.h"
#include "ops/normalization/normalization.h"
#include "shaders/batch_norm.h"
#include "shaders/lp_norm_i8.h"
#include "shaders/lrn.h"
#include "shaders/norm.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

enum Present : uint32_t { kScale = 1, kBias = 2, kMean = 4, kInverse = 8 };

/// The kernel for rows along `axes` of a shape; null where types or strides are beyond the shader.
std::unique_ptr<Kernel> make_norm(const KernelSpec& spec, NormKind kind, double epsilon, const Activation& act,
                                  const Shape& dims, const std::vector<int>& axes, const Shape& scale,
                                  const Shape& bias) {
  const DType dtype = spec.outputs[0].dtype;
  uint32_t present = (spec.has(1) ? kScale : 0u) | (spec.has(2) ? kBias : 0u);
  DType statistic = dtype;
  for (size_t i = 1; i <= 2; ++i)
    if (wanted(spec, i)) {
      if ((present & kMean) && spec.outputs[i].dtype != statistic) return nullptr;
      statistic = spec.outputs[i].dtype;
      present |= i == 1 ? kMean : kInverse;
    }
  if (statistic != dtype && statistic != DType::kF32) return nullptr;
  const auto walk = RowWalk<3, 3>::make(dims, axes, {dims.strides(), scale, bias});
  if (!walk) return nullptr;
  const uint32_t lanes = walk->lanes(5);
  if (lanes == 0) return nullptr;
  static constexpr shaders::Variant<shaders::Norm> kShaders[][2] = {
      {shaders::norm_f32, shaders::norm_f32_subgroups},
      {shaders::norm_f16, shaders::norm_f16_subgroups},
      {shaders::norm_f16_f32, shaders::norm_f16_f32_subgroups}};
  const auto& variants = kShaders[dtype == DType::kF32 ? 0 : statistic == dtype ? 1 : 2];
  return shader_kernel(
      variants[uses_subgroups(spec, lanes) ? 1 : 0],
      {.width = row_width(lanes), .lanes = lanes, .kind = kind, .straight = walk->straight(), .present = present},
      {input(0), input(present & kScale ? 1 : 0), input(present & kBias ? 2 : 0), output(0),
       output(present & kMean ? 1 : 0), output(present & kInverse ? 2 : 0)},
      row_grid(walk->rows.n, lanes),
      {.walk = *walk, .epsilon = static_cast<float>(epsilon), .act = gpu_activation(act)});
}

/// Every dimension, or those from `first` on.
std::vector<int> axes_from(int first, int rank) {
  std::vector<int> axes;
  for (int d = first; d < rank; ++d) axes.push_back(d);
  return axes;
}

}  // namespace

std::unique_ptr<Kernel> make_layer_norm(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LayerNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  const auto axis = normalize_axis(attrs.axis, shape.rank());
  const auto scale = parameter_strides(spec, 1, shape), bias = parameter_strides(spec, 2, shape);
  if (!axis.ok() || !scale || !bias) return nullptr;
  return make_norm(spec, norm_kind(attrs), attrs.epsilon, {}, shape, axes_from(*axis, shape.rank()), *scale, *bias);
}

std::unique_ptr<Kernel> make_group_norm(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<GroupNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (shape.rank() < 2) return nullptr;
  const bool last = attrs.layout == Layout::kChannelsLast;
  const int axis = channel_axis(attrs.layout, shape.rank());
  const int64_t channels = shape[axis], groups = attrs.groups == 0 ? channels : attrs.groups;
  if (groups < 1 || channels % groups != 0) return nullptr;
  const int64_t width = channels / groups, own = attrs.per_group_affine ? groups : channels;
  for (size_t i = 1; i <= 2; ++i)
    if (spec.has(i) && spec.inputs[i].shape.elements() != own) return nullptr;
  const int64_t spatial = last ? product(shape, 1, axis) : product(shape, 2, shape.rank());
  const int64_t by_group = attrs.per_group_affine ? 1 : width, by_channel = attrs.per_group_affine ? 0 : 1;
  if (last) {
    const Shape p{0, 0, by_group, by_channel};
    return make_norm(spec, kMoments, attrs.epsilon, attrs.act, Shape{shape[0], spatial, groups, width}, {1, 3}, p, p);
  }
  const Shape p{0, by_group, by_channel, 0};
  return make_norm(spec, kMoments, attrs.epsilon, attrs.act, Shape{shape[0], groups, width, spatial}, {2, 3}, p, p);
}

std::unique_ptr<Kernel> make_mean_variance_norm(const KernelSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  const auto axes = normalize_axes(spec.attrs<MeanVarianceNormAttrs>().axes, shape.rank());
  if (!axes.ok()) return nullptr;
  const Shape none = Shape::of_rank(shape.rank(), 0);
  return make_norm(spec, kDeviation, kDeviationEpsilon, {}, shape, *axes, none, none);
}

std::unique_ptr<Kernel> make_lp_norm_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LpNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  const auto axis = normalize_axis(attrs.axis, shape.rank());
  if (!axis.ok()) return nullptr;
  const Shape none = Shape::of_rank(shape.rank(), 0);
  return make_norm(spec, norm_kind(attrs), attrs.epsilon, attrs.act, shape, {*axis}, none, none);
}

std::unique_ptr<Kernel> make_lp_norm_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LpNormAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (y.dtype != x.dtype || !is_per_tensor(x.quant) || attrs.p != 2 || attrs.rounding == Rounding::kFloatHalfEven)
    return nullptr;
  const auto axis = normalize_axis(attrs.axis, x.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView v = axis_view(x.shape, *axis);
  const uint32_t lanes = lanes_for(v.outer, v.extent, true, 2);
  if (v.inner != 1 || lanes == 0) return nullptr;
  return shader_kernel(x.dtype == DType::kI8 ? shaders::lp_norm_i8 : shaders::lp_norm_u8,
                       {.width = row_width(lanes), .lanes = lanes}, {input(0), output(0)},
                       row_grid(static_cast<uint64_t>(v.outer), lanes),
                       {.rows = u32(v.outer), .extent = u32(v.extent), .zero = x.quant->zero_point()});
}

namespace {

using LrnPush = shaders::Lrn::Push;

std::optional<LrnPush> lrn_push(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LrnAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  // An invocation on textures makes four elements.
  if (shape.rank() < 2 || attrs.size < 1 || attrs.size > kMaxLoopIterations / 4) return std::nullopt;
  const AxisView v = axis_view(shape, channel_axis(attrs.layout, shape.rank()));
  // No window reaches further than all channels.
  const int64_t before = (attrs.size - 1) / 2, after = attrs.size - 1 - before;
  return LrnPush{.n = static_cast<uint32_t>(shape.elements()),
                 .channels = static_cast<uint32_t>(v.extent),
                 .inner = static_cast<uint32_t>(v.inner),
                 .before = static_cast<uint32_t>(std::min(before, v.extent)),
                 .after = static_cast<uint32_t>(std::min(after, v.extent)),
                 .alpha = static_cast<float>(attrs.alpha),
                 .beta = static_cast<float>(attrs.beta),
                 .bias = static_cast<float>(attrs.bias)};
}

}  // namespace

std::unique_ptr<Kernel> make_batch_norm(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BatchNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (attrs.training || shape.rank() == 0 || !spec.has(3) || !spec.has(4)) return nullptr;
  for (size_t i = 1; i < spec.outputs.size(); ++i)
    if (wanted(spec, i)) return nullptr;
  const AxisView v = axis_view(shape, channel_axis(attrs.layout, shape.rank()));
  const DType dtype = spec.outputs[0].dtype, parameter = spec.inputs[3].dtype;
  uint32_t present = 0;
  for (size_t i = 1; i <= 4; ++i) {
    if (!spec.has(i)) continue;
    if (spec.inputs[i].dtype != parameter || spec.inputs[i].quant || spec.inputs[i].shape.elements() != v.extent)
      return nullptr;
    if (i <= 2) present |= i == 1 ? kScale : kBias;
  }
  if (parameter != dtype && parameter != DType::kF32) return nullptr;
  const auto shader = dtype == DType::kF32 ? shaders::batch_norm_f32
                      : parameter == dtype ? shaders::batch_norm_f16
                                           : shaders::batch_norm_f16_f32;
  return shader_kernel(
      shader, {.present = present},
      {input(0), input(present & kScale ? 1 : 3), input(present & kBias ? 2 : 3), input(3), input(4), output(0)},
      static_cast<uint64_t>(shape.elements()),
      {.n = u32(shape.elements()),
       .channels = u32(v.extent),
       .inner = u32(v.inner),
       .epsilon = static_cast<float>(attrs.epsilon)});
}

std::unique_ptr<Kernel> make_lrn(const KernelSpec& spec) {
  const auto push = lrn_push(spec);
  if (!push) return nullptr;
  return shader_kernel(spec.outputs[0].dtype == DType::kF16 ? shaders::lrn_f16 : shaders::lrn_f32, {},
                       {input(0), output(0)}, push->n, *push);
}

std::unique_ptr<Kernel> make_lrn_texture(const KernelSpec& spec) {
  const auto push = lrn_push(spec);
  const auto x = existing_image(spec, 0), y = image_of(spec, spec.outputs[0]);
  if (!push || !x || !y) return nullptr;
  return texture_kernel({spec.form, {x}, {y}}, {shaders::lrn_3d, shaders::lrn_2d}, {}, {input(0), output(0)},
                        y->count(),
                        {.x_size = x->size,
                         .y_size = y->size,
                         .n = static_cast<uint32_t>(y->count()),
                         .channels = push->channels,
                         .inner = push->inner,
                         .before = push->before,
                         .after = push->after,
                         .alpha = push->alpha,
                         .beta = push->beta,
                         .bias = push->bias});
}

}  // namespace smelt::vulkan
