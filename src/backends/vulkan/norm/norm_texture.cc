// Normalization of textures: by statistics of blocks of texels, and by given ones (norm_texture.comp).
#include <cmath>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/norm/norm.h"
#include "base/cat.h"
#include "ops/common/index.h"
#include "shaders/norm_texture.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

using Push = shaders::NormTexture::Push;

/// Scale or bias: an operand, or values that the host computed.
struct Parameter {
  FloatOperand operand;
  std::vector<float> values;
  Result<Binding> bind(KernelRecorder& r) const {
    if (values.empty()) return operand.bind(r);
    const size_t bytes = values.size() * sizeof(float);
    return r.table(Cat("parameter ", reinterpret_cast<uintptr_t>(this)), bytes,
                   [&](void* to) { std::memcpy(to, values.data(), bytes); });
  }
};

class NormTexture final : public TextureKernel {
 public:
  /// `joined`: blocks reach along the packed dimension.
  NormTexture(const ImageLayout& image, NormKind kind, bool joined, uint32_t lanes, uint32_t statistics,
              const Push& push)
      : TextureKernel({image}, image),
        kind_(kind),
        joined_(joined),
        lanes_(lanes),
        statistics_(statistics),
        push_(push) {}
  std::optional<Parameter> scale, bias;
  bool reads(size_t i) const override {
    const auto& p = i == 1 ? scale : bias;
    return i == 0 || (i <= 2 && p && p->values.empty());
  }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding scales, scale ? scale->bind(r) : no_buffer(r));
    SMELT_ASSIGN(const Binding biases, bias ? bias->bind(r) : no_buffer(r));
    SMELT_ASSIGN(const Binding none, no_buffer(r));
    return run(
        r, {shaders::norm_3d, shaders::norm_2d},
        {.width = row_width(lanes_),
         .lanes = lanes_,
         .kind = kind_,
         .packed = packed(),
         .joined = joined_,
         .scale = scale.has_value(),
         .bias = bias.has_value(),
         .statistics = statistics_},
        {x, scales, biases, r.output(0), statistics_ & 1 ? r.output(1) : none, statistics_ & 2 ? r.output(2) : none},
        push_.rows, push_, lanes_ > 1);
  }

 private:
  NormKind kind_;
  bool joined_;
  uint32_t lanes_, statistics_;
  Push push_;
};

/// Blocks of so many elements along width, height, channels and batch; 1 elsewhere than where statistics join them.
std::unique_ptr<NormTexture> make_blocks(const KernelSpec& spec, NormKind kind, const GpuSize& elements, Push push) {
  if (!unquantized_floats(spec, {0}, {0}) || spec.constant(0)) return nullptr;
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
  return std::make_unique<NormTexture>(*image, kind, joined, lanes, statistics, push);
}

/// make_blocks() with the node's optional scale and bias, inputs 1 and 2.
std::unique_ptr<Kernel> make_norm(const KernelSpec& spec, NormKind kind, double epsilon, const Activation& act,
                                  const GpuSize& elements, const GpuSize& scale_stride, const GpuSize& bias_stride) {
  Push push{.scale_stride = scale_stride, .bias_stride = bias_stride};
  push.epsilon = static_cast<float>(epsilon);
  push.act = gpu_activation(act);
  auto kernel = make_blocks(spec, kind, elements, push);
  for (size_t i = 1; i <= 2 && kernel; ++i) {
    if (!spec.has(i)) continue;
    Parameter& p = (i == 1 ? kernel->scale : kernel->bias).emplace();
    if (!make_f32_operand(spec, i, p.operand) || !p.operand.fits(spec.device)) return nullptr;
  }
  return kernel;
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
  auto kernel = make_blocks(spec, kGiven, {1, 1, 1, 1}, Push{.scale_stride = stride, .bias_stride = stride});
  if (!kernel) return nullptr;
  std::vector<float> scales(channels), biases(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double scale = p[1][c] / std::sqrt(p[4][c] + attrs.epsilon);
    scales[c] = static_cast<float>(scale);
    biases[c] = static_cast<float>(p[2][c] - p[3][c] * scale);
  }
  kernel->scale = Parameter{{}, std::move(scales)};
  kernel->bias = Parameter{{}, std::move(biases)};
  return kernel;
}

}  // namespace smelt::vulkan
