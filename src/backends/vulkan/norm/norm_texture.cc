// Normalization of textures: by statistics of blocks of texels, and by given ones (norm_texture.comp).
#include <cmath>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/norm/norm.h"
#include "ops/common/index.h"
#include "shaders/norm_texture.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

using Push = shaders::NormTexture::Push;

/// Blocks of so many elements along width, height, channels and batch; 1 elsewhere than where statistics join them.
/// `scale` and `bias`: nullopt where the node has none.
std::unique_ptr<Kernel> make_blocks(const KernelSpec& spec, NormKind kind, const GpuSize& elements, Push push,
                                    std::optional<Arg> scale, std::optional<Arg> bias) {
  uint32_t statistics = 0;
  for (size_t i = 1; i < spec.outputs.size(); ++i) {
    if (!wanted(spec, i)) continue;
    if (i > 2 || kind == kGiven || spec.outputs[i].dtype != DType::kF32) return nullptr;
    statistics |= static_cast<uint32_t>(i);
  }
  const auto image = image_of(spec, spec.outputs[0]);
  if (!image) return nullptr;
  const auto p = static_cast<size_t>(image->packed());
  const bool joined = elements[p] > 1;
  if (joined && elements[p] != image->size[p] && elements[p] % 4 != 0) return nullptr;
  push.count = 1;
  uint64_t texels = 1;
  for (size_t d = 0; d < 4; ++d) {
    push.block[d] = d == p ? (elements[d] + 3) / 4 : elements[d];
    push.count *= static_cast<uint32_t>(elements[d]);
    texels *= static_cast<uint64_t>(push.block[d]);
  }
  push.x_size = image->size;
  push.rows = static_cast<uint32_t>(image->count() / texels);
  const uint32_t lanes = lanes_for(push.rows, static_cast<int64_t>(texels), true, 3);
  if (lanes == 0) return nullptr;
  const bool has_scale = scale.has_value(), has_bias = bias.has_value();
  return texture_kernel({spec.form, {image}, {image}}, {shaders::norm_3d, shaders::norm_2d},
                        {.width = row_width(lanes),
                         .lanes = lanes,
                         .kind = kind,
                         .joined = joined,
                         .scale = has_scale,
                         .bias = has_bias,
                         .statistics = statistics},
                        {input(0), has_scale ? *scale : no_arg(), has_bias ? *bias : no_arg(), output(0),
                         statistics & 1 ? output(1) : no_arg(), statistics & 2 ? output(2) : no_arg()},
                        push.rows, push, lanes > 1);
}

/// make_blocks() with the node's optional scale and bias, inputs 1 and 2.
std::unique_ptr<Kernel> make_norm(const KernelSpec& spec, NormKind kind, double epsilon, const Activation& act,
                                  const GpuSize& elements, const GpuSize& scale_stride, const GpuSize& bias_stride) {
  Push push{.scale_stride = scale_stride, .bias_stride = bias_stride};
  push.epsilon = static_cast<float>(epsilon);
  push.act = gpu_activation(act);
  std::optional<Arg> parameters[2];
  for (size_t i = 1; i <= 2; ++i) {
    FloatOperand operand;
    if (!spec.has(i)) continue;
    if (!make_f32_operand(spec, i, operand) || !operand.fits(spec.device)) return nullptr;
    parameters[i - 1] = float_arg(operand);
  }
  return make_blocks(spec, kind, elements, push, parameters[0], parameters[1]);
}

/// A shape's dimensions in `axes` whole, the others 1.
GpuSize along(const Shape& shape, const std::vector<int>& axes) {
  GpuSize s{1, 1, 1, 1};
  for (int d : axes) s[static_cast<size_t>(shape.rank() - 1 - d)] = static_cast<int32_t>(shape[d]);
  return s;
}

bool fits(const Shape& shape) { return shape.rank() >= 1 && shape.rank() <= 4; }

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LayerNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  const auto axis = normalize_axis(attrs.axis, shape.rank());
  const auto scale = parameter_strides(spec, 1, shape), bias = parameter_strides(spec, 2, shape);
  if (!fits(shape) || !axis.ok() || !scale || !bias) return nullptr;
  std::vector<int> axes;
  for (int d = *axis; d < shape.rank(); ++d) axes.push_back(d);
  return make_norm(spec, norm_kind(attrs), attrs.epsilon, {}, along(shape, axes), image_strides(*scale),
                   image_strides(*bias));
}

std::unique_ptr<Kernel> make_group_norm_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<GroupNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (!fits(shape) || shape.rank() < 2 || attrs.per_group_affine) return nullptr;
  const int axis = channel_axis(attrs.layout, shape.rank());
  const int64_t channels = shape[axis], groups = attrs.groups == 0 ? channels : attrs.groups;
  if (groups < 1 || channels % groups != 0) return nullptr;
  for (size_t i = 1; i <= 2; ++i)
    if (spec.has(i) && spec.inputs[i].shape.elements() != channels) return nullptr;
  GpuSize block{1, 1, 1, 1}, stride{};
  for (int d = 1; d < shape.rank(); ++d)
    block[static_cast<size_t>(shape.rank() - 1 - d)] = static_cast<int32_t>(d == axis ? channels / groups : shape[d]);
  stride[static_cast<size_t>(shape.rank() - 1 - axis)] = 1;
  return make_norm(spec, kMoments, attrs.epsilon, attrs.act, block, stride, stride);
}

std::unique_ptr<Kernel> make_mean_variance_norm_texture(const KernelSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  const auto axes = normalize_axes(spec.attrs<MeanVarianceNormAttrs>().axes, shape.rank());
  if (!fits(shape) || !axes.ok()) return nullptr;
  return make_norm(spec, kDeviation, kDeviationEpsilon, {}, along(shape, *axes), {}, {});
}

std::unique_ptr<Kernel> make_lp_norm_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LpNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  const auto axis = normalize_axis(attrs.axis, shape.rank());
  if (!fits(shape) || !axis.ok()) return nullptr;
  return make_norm(spec, norm_kind(attrs), attrs.epsilon, attrs.act, along(shape, {*axis}), {}, {});
}

std::unique_ptr<Kernel> make_batch_norm_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BatchNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (attrs.training || !fits(shape)) return nullptr;
  const int axis = channel_axis(attrs.layout, shape.rank());
  const auto channels = static_cast<size_t>(shape[axis]);
  std::vector<double> p[5];  // by input
  for (size_t i = 1; i <= 4; ++i) {
    p[i].assign(channels, i == 1 ? 1 : 0);
    if (!spec.has(i) && i <= 2) continue;
    const Tensor* t = spec.constant(i);
    if (!t || t->quant() || !is_float(t->dtype()) || t->elements() != shape[axis]) return nullptr;
    to_doubles(*t, p[i].data());
  }
  GpuSize stride{};
  stride[static_cast<size_t>(shape.rank() - 1 - axis)] = 1;
  std::vector<float> scales(channels), biases(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double scale = p[1][c] / std::sqrt(p[4][c] + attrs.epsilon);
    scales[c] = static_cast<float>(scale);
    biases[c] = static_cast<float>(p[2][c] - p[3][c] * scale);
  }
  return make_blocks(spec, kGiven, {1, 1, 1, 1}, {.scale_stride = stride, .bias_stride = stride},
                     table("scales", std::move(scales)), table("biases", std::move(biases)));
}

}  // namespace smelt::vulkan
