// Normalization by statistics of rows (norm.comp), by given statistics, and by neighbours.
#include <algorithm>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/norm/norm.h"
#include "ops/normalization/normalization.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

enum Present : uint32_t { kScale = 1, kBias = 2, kMean = 4, kInverse = 8 };

struct Push {
  RowWalk<3, 3> walk;  ///< operands: x, scale, bias
  float epsilon;
  GpuActivation act;
};

class NormKernel final : public Kernel {
 public:
  NormKernel(const char* shader, NormKind kind, uint32_t present, uint32_t lanes, const Push& push)
      : shader_(shader), kind_(kind), present_(present), lanes_(lanes), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    Binding scale = x, bias = x;
    const Binding y = r.output(0);
    if (present_ & kScale) {
      SMELT_ASSIGN(scale, r.input(1));
    }
    if (present_ & kBias) {
      SMELT_ASSIGN(bias, r.input(2));
    }
    Dispatch d{shader_,
               {row_width(lanes_), lanes_, kind_, push_.walk.straight() ? 1u : 0u, present_},
               {x, scale, bias, y, present_ & kMean ? r.output(1) : y, present_ & kInverse ? r.output(2) : y}};
    set_row_grid(d, push_.walk.rows.n, lanes_);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  NormKind kind_;
  uint32_t present_, lanes_;
  Push push_;
};

/// The kernel for rows along `axes` of a shape; null where types or strides are beyond the shader.
std::unique_ptr<Kernel> make_norm(const KernelSpec& spec, NormKind kind, double epsilon, const Activation& act,
                                  const Shape& dims, const std::vector<int>& axes, const Shape& scale,
                                  const Shape& bias) {
  if (!unquantized_floats(spec, {0}, {0})) return nullptr;
  const DType dtype = spec.outputs[0].dtype;
  uint32_t present = 0;
  for (size_t i = 1; i <= 2 && i < spec.inputs.size(); ++i)
    if (spec.has(i)) {
      if (spec.inputs[i].dtype != dtype || spec.inputs[i].quant) return nullptr;
      present |= i == 1 ? kScale : kBias;
    }
  DType statistic = dtype;
  for (size_t i = 1; i <= 2; ++i)
    if (wanted(spec, i)) {
      if ((present & kMean) && spec.outputs[i].dtype != statistic) return nullptr;
      statistic = spec.outputs[i].dtype;
      present |= i == 1 ? kMean : kInverse;
    }
  if (statistic != dtype && statistic != DType::kF32) return nullptr;
  const char* shader = dtype == DType::kF32 ? "norm_f32" : statistic == dtype ? "norm_f16" : "norm_f16_f32";
  const auto walk = RowWalk<3, 3>::make(dims, axes, {dims.strides(), scale, bias});
  if (!walk) return nullptr;
  const uint32_t lanes = walk->lanes(5);
  if (lanes == 0) return nullptr;
  return std::make_unique<NormKernel>(row_shader(spec, shader, lanes), kind, present, lanes,
                                      Push{*walk, static_cast<float>(epsilon), gpu_activation(act)});
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

namespace {

class LpNorm8Kernel final : public Kernel {
 public:
  struct Push {
    uint32_t rows, extent;
    int32_t zero;
  };
  LpNorm8Kernel(const char* shader, uint32_t lanes, const Push& push) : shader_(shader), lanes_(lanes), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    Dispatch d{shader_, {row_width(lanes_), lanes_}, {x, r.output(0)}};
    set_row_grid(d, push_.rows, lanes_);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  uint32_t lanes_;
  Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_lp_norm_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LpNormAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const bool bytes = x.dtype == DType::kI8 || x.dtype == DType::kU8;
  if (!bytes || y.dtype != x.dtype || !is_per_tensor(x.quant) || !y.quant || attrs.p != 2 ||
      attrs.rounding == Rounding::kFloatHalfEven)
    return nullptr;
  const auto axis = normalize_axis(attrs.axis, x.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView v = axis_view(x.shape, *axis);
  const uint32_t lanes = lanes_for(v.outer, v.extent, true, 2);
  if (v.inner != 1 || lanes == 0) return nullptr;
  return std::make_unique<LpNorm8Kernel>(
      x.dtype == DType::kI8 ? "lp_norm_i8" : "lp_norm_u8", lanes,
      LpNorm8Kernel::Push{static_cast<uint32_t>(v.outer), static_cast<uint32_t>(v.extent), x.quant->zero_point()});
}

namespace {

struct BatchPush {
  uint32_t n, channels, inner;
  float epsilon;
};

class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const char* shader, uint32_t present, const BatchPush& push)
      : shader_(shader), present_(present), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding mean, r.input(3));
    SMELT_ASSIGN(const Binding variance, r.input(4));
    Binding scale = mean, bias = mean;
    if (present_ & kScale) {
      SMELT_ASSIGN(scale, r.input(1));
    }
    if (present_ & kBias) {
      SMELT_ASSIGN(bias, r.input(2));
    }
    Dispatch d{shader_, {kWidth, present_}, {x, scale, bias, mean, variance, r.output(0)}};
    set_grid(d, push_.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  uint32_t present_;
  BatchPush push_;
};

struct LrnPush {
  uint32_t n, channels, inner, before, after;
  float alpha, beta, bias;
};

class LrnKernel final : public Kernel {
 public:
  LrnKernel(DType dtype, const LrnPush& push) : dtype_(dtype), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    Dispatch d{dtype_ == DType::kF16 ? "lrn_f16" : "lrn_f32", {kWidth}, {x, r.output(0)}};
    set_grid(d, push_.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  DType dtype_;
  LrnPush push_;
};

std::optional<LrnPush> lrn_push(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LrnAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  // An invocation on textures makes four elements.
  if (shape.rank() < 2 || attrs.size < 1 || attrs.size > kMaxLoopIterations / 4 || !unquantized_floats(spec, {0}, {0}))
    return std::nullopt;
  const AxisView v = axis_view(shape, channel_axis(attrs.layout, shape.rank()));
  // No window reaches further than all channels.
  const int64_t before = (attrs.size - 1) / 2, after = attrs.size - 1 - before;
  return LrnPush{static_cast<uint32_t>(shape.elements()),
                 static_cast<uint32_t>(v.extent),
                 static_cast<uint32_t>(v.inner),
                 static_cast<uint32_t>(std::min(before, v.extent)),
                 static_cast<uint32_t>(std::min(after, v.extent)),
                 static_cast<float>(attrs.alpha),
                 static_cast<float>(attrs.beta),
                 static_cast<float>(attrs.bias)};
}

}  // namespace

std::unique_ptr<Kernel> make_batch_norm(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BatchNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (attrs.training || shape.rank() == 0 || !unquantized_floats(spec, {0}, {0}) || !spec.has(3) || !spec.has(4))
    return nullptr;
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
  const char* shader = dtype == DType::kF32 ? "batch_norm_f32"
                       : parameter == dtype ? "batch_norm_f16"
                                            : "batch_norm_f16_f32";
  return std::make_unique<BatchNormKernel>(
      shader, present,
      BatchPush{static_cast<uint32_t>(shape.elements()), static_cast<uint32_t>(v.extent),
                static_cast<uint32_t>(v.inner), static_cast<float>(attrs.epsilon)});
}

std::unique_ptr<Kernel> make_lrn(const KernelSpec& spec) {
  const auto push = lrn_push(spec);
  return push ? std::make_unique<LrnKernel>(spec.outputs[0].dtype, *push) : nullptr;
}

std::unique_ptr<Kernel> make_lrn_texture(const KernelSpec& spec) {
  auto push = lrn_push(spec);
  const auto y = image_of(spec, spec.outputs[0]);
  if (!push || !y || spec.constant(0)) return nullptr;
  const auto x = existing_image(spec, 0);
  push->n = static_cast<uint32_t>(y->count());
  return x ? std::make_unique<ElementsTexture<LrnPush>>("lrn", *x, *y, *push) : nullptr;
}

}  // namespace smelt::vulkan
