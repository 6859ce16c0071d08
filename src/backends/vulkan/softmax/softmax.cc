#include "ops/softmax/softmax.h"

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

/// The rows of a softmax along one axis and the lanes that work on each; nullopt if the axis is none or the rows are
/// too long for a workgroup.
struct SoftmaxRows {
  AxisPush axis;
  uint32_t lanes;
  static std::optional<SoftmaxRows> make(const AxisView& v) {
    const uint32_t lanes = lanes_for(v.outer * v.inner, v.extent, v.inner == 1, 3);
    return lanes ? std::optional(SoftmaxRows{AxisPush(v), lanes}) : std::nullopt;
  }
  static std::optional<SoftmaxRows> along(const Shape& shape, int64_t axis) {
    const auto a = normalize_axis(axis, shape.rank());
    return a.ok() ? make(axis_view(shape, *a)) : std::nullopt;
  }
  Grid grid() const { return row_grid(axis.rows, lanes); }
};

/// Two tables of 256 words, one behind the other.
template <class A, class B>
Arg two_tables(const char* what, const A& first, const B& second) {
  std::vector<uint32_t> words(512);
  std::memcpy(words.data(), first.data(), 256 * sizeof(uint32_t));
  std::memcpy(words.data() + 256, second.data(), 256 * sizeof(uint32_t));
  return table(what, std::move(words));
}

}  // namespace

std::unique_ptr<Kernel> make_softmax_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const Shape& shape = spec.outputs[0].shape;
  if (attrs.flatten || shape.rank() == 0 || attrs.kind == SoftmaxAttrs::Kind::kHardmax) return nullptr;
  const auto axis = normalize_axis(attrs.axis, shape.rank());
  const auto image = image_of(spec, spec.outputs[0]);
  if (!axis.ok() || !image) return nullptr;
  const int d = shape.rank() - 1 - *axis;
  const int64_t elements = image->size[static_cast<size_t>(d)];
  const int64_t line = d == image->packed() ? (elements + 3) / 4 : elements;
  if (3 * line > kMaxLoopIterations) return nullptr;
  const auto n = static_cast<uint32_t>(image->count() / static_cast<uint64_t>(line));
  return texture_kernel({spec.form, {image}, {image}}, {shaders::softmax_3d, shaders::softmax_2d},
                        {.axis = static_cast<uint32_t>(d), .log = attrs.kind == SoftmaxAttrs::Kind::kLogSoftmax},
                        {input(0), output(0)}, n,
                        {.size = image->size, .beta = static_cast<float>(attrs.beta), .n = n});
}

std::unique_ptr<Kernel> make_softmax_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
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
  const auto rows = SoftmaxRows::make(v);
  if (!rows) return nullptr;
  const uint32_t kind = attrs.kind == SoftmaxAttrs::Kind::kHardmax      ? 2
                        : attrs.kind == SoftmaxAttrs::Kind::kLogSoftmax ? 1
                                                                        : 0;
  const bool wide = spec.outputs[0].dtype == DType::kF32;
  const auto shader = uses_subgroups(spec, rows->lanes)
                          ? (wide ? shaders::softmax_f32_subgroups : shaders::softmax_f16_subgroups)
                          : (wide ? shaders::softmax_f32 : shaders::softmax_f16);
  return shader_kernel(shader, {.width = row_width(rows->lanes), .lanes = rows->lanes, .kind = kind},
                       {input(0), output(0)}, rows->grid(),
                       {.axis = rows->axis, .beta = static_cast<float>(attrs.beta)});
}

std::unique_ptr<Kernel> make_softmax_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const bool wide = y.dtype == DType::kI16;
  if (!is_softmax8(attrs, x, y) || (x.dtype != y.dtype && !wide)) return nullptr;
  const auto rows = SoftmaxRows::along(x.shape, attrs.axis);
  if (!rows) return nullptr;
  const auto shader = x.dtype == DType::kI8 ? (wide ? shaders::softmax_i8_i16 : shaders::softmax_i8)
                                            : (wide ? shaders::softmax_u8_i16 : shaders::softmax_u8);
  const Softmax8 rule(static_cast<float>(attrs.beta), x.quant->scale());
  return shader_kernel(shader, {.width = row_width(rows->lanes), .lanes = rows->lanes},
                       {input(0), two_tables("softmax", rule.exps(), rule.parts()), output(0)}, rows->grid(),
                       {.axis = rows->axis});
}

std::unique_ptr<Kernel> make_log_softmax_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType& x = spec.inputs[0];
  if (!is_log_softmax8(attrs, x, spec.outputs[0])) return nullptr;
  const auto rows = SoftmaxRows::along(x.shape, attrs.axis);
  if (!rows) return nullptr;
  const LogSoftmax8 rule(x.quant->scale());
  return shader_kernel(
      x.dtype == DType::kI8 ? shaders::log_softmax_i8 : shaders::log_softmax_u8,
      {.width = row_width(rows->lanes), .lanes = rows->lanes},
      {input(0), two_tables("log-softmax", rule.parts, rule.diffs), output(0)}, rows->grid(),
      {.axis = rows->axis, .smallest = rule.smallest, .multiplier = rule.back.multiplier, .shift = rule.back.shift});
}

std::unique_ptr<Kernel> make_softmax_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const ValueType& x = spec.inputs[0];
  if (!is_per_tensor(x.quant) || attrs.flatten || attrs.kind != SoftmaxAttrs::Kind::kSoftmax ||
      attrs.rounding == Rounding::kFloatHalfEven || x.shape.rank() == 0)
    return nullptr;
  const auto rows = SoftmaxRows::along(x.shape, attrs.axis);
  if (!rows || rows->axis.extent > 65535) return nullptr;  // sums of 32 bits
  const FixedFactor f = Softmax16(attrs.beta, x.quant->scale()).factor;
  std::vector<int32_t> tables;
  for (const auto* t : {&Softmax16::exps(), &Softmax16::inverses()}) tables.insert(tables.end(), t->begin(), t->end());
  return shader_kernel(shaders::softmax_i16, {.width = row_width(rows->lanes), .lanes = rows->lanes},
                       {input(0), table("softmax of int16", std::move(tables)), output(0)}, rows->grid(),
                       {.axis = rows->axis, .multiplier = f.multiplier, .shift = f.shift});
}

}  // namespace smelt::vulkan
