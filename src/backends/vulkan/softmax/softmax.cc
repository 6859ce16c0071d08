#include "ops/softmax/softmax.h"

#include <bit>
#include <cstring>

#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/softmax/softmax_quantized.h"
#include "shaders/log_softmax_i8.h"
#include "shaders/softmax.h"
#include "shaders/softmax_i16.h"
#include "shaders/softmax_i8.h"
#include "shaders/softmax_texture.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(shaders::Variant<shaders::Softmax> shader, uint32_t kind, uint32_t lanes,
                const shaders::Softmax::Push& push)
      : shader_(shader), kind_(kind), lanes_(lanes), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return r.run(shader_, {.width = row_width(lanes_), .lanes = lanes_, .kind = kind_}, {x, r.output(0)},
                 row_grid(push_.axis.rows, lanes_), push_);
  }

 private:
  shaders::Variant<shaders::Softmax> shader_;
  uint32_t kind_, lanes_;
  shaders::Softmax::Push push_;
};

class SoftmaxTexture final : public TextureKernel {
 public:
  SoftmaxTexture(const ImageLayout& image, uint32_t axis, bool log, const shaders::SoftmaxTexture::Push& push)
      : TextureKernel({image}, image), axis_(axis), log_(log), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return run(r, {shaders::softmax_3d, shaders::softmax_2d}, {.packed = packed(), .axis = axis_, .log = log_},
               {x, r.output(0)}, push_.n, push_);
  }

 private:
  uint32_t axis_;
  bool log_;
  shaders::SoftmaxTexture::Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const Shape& shape = spec.outputs[0].shape;
  if (!unquantized_floats(spec, {0}, {0}) || spec.constant(0) || attrs.flatten || shape.rank() == 0 ||
      attrs.kind == SoftmaxAttrs::Kind::kHardmax)
    return nullptr;
  const auto axis = normalize_axis(attrs.axis, shape.rank());
  const auto image = image_of(spec, spec.outputs[0]);
  if (!axis.ok() || !image) return nullptr;
  const int d = shape.rank() - 1 - *axis;
  const int64_t elements = image->size[static_cast<size_t>(d)];
  const int64_t line = d == image->packed() ? (elements + 3) / 4 : elements;
  if (3 * line > kMaxLoopIterations) return nullptr;
  return std::make_unique<SoftmaxTexture>(
      *image, static_cast<uint32_t>(d), attrs.kind == SoftmaxAttrs::Kind::kLogSoftmax,
      shaders::SoftmaxTexture::Push{.size = image->size,
                                    .beta = static_cast<float>(attrs.beta),
                                    .n = static_cast<uint32_t>(image->count() / static_cast<uint64_t>(line))});
}

std::unique_ptr<Kernel> make_softmax_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  if (!unquantized_floats(spec, {0}, {0})) return nullptr;
  const Shape& shape = spec.inputs[0].shape;
  AxisView v;
  if (attrs.flatten && attrs.axis == shape.rank()) {
    v = {shape.elements(), 1, 1};
  } else if (shape.rank() > 0) {
    const auto axis = normalize_axis(attrs.axis, shape.rank());
    if (!axis.ok()) return nullptr;
    v = attrs.flatten ? AxisView{product(shape, 0, *axis), product(shape, *axis, shape.rank()), 1}
                      : axis_view(shape, *axis);
  }
  const shaders::Softmax::Push push{.axis = AxisPush(v), .beta = static_cast<float>(attrs.beta)};
  const bool hard = attrs.kind == SoftmaxAttrs::Kind::kHardmax;
  const uint32_t lanes = lanes_for(push.axis.rows, push.axis.extent, push.axis.inner == 1, 3);
  if (lanes == 0) return nullptr;
  const uint32_t kind = hard ? 2 : attrs.kind == SoftmaxAttrs::Kind::kLogSoftmax ? 1 : 0;
  const bool wide = spec.outputs[0].dtype == DType::kF32;
  const auto shader = uses_subgroups(spec, lanes)
                          ? (wide ? shaders::softmax_f32_subgroups : shaders::softmax_f16_subgroups)
                          : (wide ? shaders::softmax_f32 : shaders::softmax_f16);
  return std::make_unique<SoftmaxKernel>(shader, kind, lanes, push);
}

namespace {

class Softmax8Kernel final : public Kernel {
 public:
  Softmax8Kernel(shaders::Variant<shaders::SoftmaxI8> shader, float beta, float scale, uint32_t lanes,
                 const AxisPush& push)
      : shader_(shader), beta_(beta), scale_(scale), lanes_(lanes), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const std::string key = Cat("softmax ", std::bit_cast<uint32_t>(beta_), " ", std::bit_cast<uint32_t>(scale_));
    SMELT_ASSIGN(const Binding tables, r.table(key, 512 * 4, [&](void* to) {
      const Softmax8 rule(beta_, scale_);
      std::memcpy(to, rule.exps().data(), 256 * 4);
      std::memcpy(static_cast<char*>(to) + 256 * 4, rule.parts().data(), 256 * 4);
    }));
    return r.run(shader_, {.width = row_width(lanes_), .lanes = lanes_}, {x, tables, r.output(0)},
                 row_grid(push_.rows, lanes_), {.axis = push_});
  }

 private:
  shaders::Variant<shaders::SoftmaxI8> shader_;
  float beta_, scale_;
  uint32_t lanes_;
  AxisPush push_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const bool wide = y.dtype == DType::kI16;
  if (!is_softmax8(attrs, x, y) || (x.dtype != y.dtype && !wide)) return nullptr;
  const auto axis = normalize_axis(attrs.axis, x.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView v = axis_view(x.shape, *axis);
  const uint32_t lanes = lanes_for(v.outer * v.inner, v.extent, v.inner == 1, 3);
  if (lanes == 0) return nullptr;
  const auto shader = x.dtype == DType::kI8 ? (wide ? shaders::softmax_i8_i16 : shaders::softmax_i8)
                                            : (wide ? shaders::softmax_u8_i16 : shaders::softmax_u8);
  return std::make_unique<Softmax8Kernel>(shader, static_cast<float>(attrs.beta), x.quant->scale(), lanes, AxisPush(v));
}

namespace {

class LogSoftmax8Kernel final : public Kernel {
 public:
  LogSoftmax8Kernel(shaders::Variant<shaders::LogSoftmaxI8> shader, float scale, uint32_t lanes, const AxisPush& axis)
      : shader_(shader), rule_(scale), scale_(scale), lanes_(lanes), axis_(axis) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const std::string key = Cat("log-softmax ", std::bit_cast<uint32_t>(scale_));
    SMELT_ASSIGN(const Binding tables, r.table(key, 512 * 4, [&](void* to) {
      std::memcpy(to, rule_.parts.data(), 256 * 4);
      std::memcpy(static_cast<char*>(to) + 256 * 4, rule_.diffs.data(), 256 * 4);
    }));
    return r.run(
        shader_, {.width = row_width(lanes_), .lanes = lanes_}, {x, tables, r.output(0)}, row_grid(axis_.rows, lanes_),
        {.axis = axis_, .smallest = rule_.smallest, .multiplier = rule_.back.multiplier, .shift = rule_.back.shift});
  }

 private:
  shaders::Variant<shaders::LogSoftmaxI8> shader_;
  LogSoftmax8 rule_;
  float scale_;
  uint32_t lanes_;
  AxisPush axis_;
};

}  // namespace

std::unique_ptr<Kernel> make_log_softmax_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType& x = spec.inputs[0];
  if (!is_log_softmax8(attrs, x, spec.outputs[0])) return nullptr;
  const auto axis = normalize_axis(attrs.axis, x.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView v = axis_view(x.shape, *axis);
  const uint32_t lanes = lanes_for(v.outer * v.inner, v.extent, v.inner == 1, 3);
  if (lanes == 0) return nullptr;
  return std::make_unique<LogSoftmax8Kernel>(x.dtype == DType::kI8 ? shaders::log_softmax_i8 : shaders::log_softmax_u8,
                                             x.quant->scale(), lanes, AxisPush(v));
}

namespace {

class Softmax16Kernel final : public Kernel {
 public:
  using Push = shaders::SoftmaxI16::Push;
  Softmax16Kernel(uint32_t lanes, const Push& push) : lanes_(lanes), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const size_t entries = Softmax16::exps().size() + Softmax16::inverses().size();
    SMELT_ASSIGN(const Binding tables, r.table("softmax of int16", entries * sizeof(int32_t), [&](void* to) {
      auto* out = static_cast<int32_t*>(to);
      for (const auto* table : {&Softmax16::exps(), &Softmax16::inverses()})
        for (int16_t v : *table) *out++ = v;
    }));
    return r.run(shaders::softmax_i16, {.width = row_width(lanes_), .lanes = lanes_}, {x, tables, r.output(0)},
                 row_grid(push_.axis.rows, lanes_), push_);
  }

 private:
  uint32_t lanes_;
  Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (x.dtype != DType::kI16 || y.dtype != DType::kI16 || !is_per_tensor(x.quant) || !y.quant || attrs.flatten ||
      attrs.kind != SoftmaxAttrs::Kind::kSoftmax || attrs.rounding == Rounding::kFloatHalfEven || x.shape.rank() == 0)
    return nullptr;
  const auto axis = normalize_axis(attrs.axis, x.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView v = axis_view(x.shape, *axis);
  const uint32_t lanes = lanes_for(v.outer * v.inner, v.extent, v.inner == 1, 3);
  if (lanes == 0 || v.extent > 65535) return nullptr;  // sums of 32 bits
  const FixedFactor f = Softmax16(attrs.beta, x.quant->scale()).factor;
  return std::make_unique<Softmax16Kernel>(
      lanes, Softmax16Kernel::Push{.axis = AxisPush(v), .multiplier = f.multiplier, .shift = f.shift});
}

}  // namespace smelt::vulkan
