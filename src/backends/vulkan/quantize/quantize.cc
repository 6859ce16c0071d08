// Quantization and dequantization, with constant parameters or with ones that the device reads.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "shaders/quantize.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

using QuantizePush = shaders::Quantize::Push;

struct Parameter {
  float scale;
  int32_t zero;
};

struct Flags {
  bool ties_away = false, reciprocal = false;
};

/// Sets the sizes around the parameters' axis, with one parameter per `block` entries.
void along_axis(QuantizePush& push, const Shape& x, int64_t axis, int64_t block) {
  const int a = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
  for (int d = a + 1; d < x.rank(); ++d) push.inner *= u32(x[d]);
  push.extent = u32(x[a]);
  push.block = u32(block);
  push.blocks = u32((x[a] + block - 1) / block);
}

/// Takes the parameters from a quantized value's type; false if it has none that the shader takes.
bool take_parameters(const ValueType& t, std::vector<Parameter>& parameters, QuantizePush& push) {
  using Kind = Quantization::Kind;
  if (!t.quant || t.quant->scales.empty() || t.quant->kind == Kind::kPerToken) return false;
  const Quantization& q = *t.quant;
  for (size_t i = 0; i < q.scales.size(); ++i)
    parameters.push_back({q.scales[i], q.zero_points.size() == q.scales.size() ? q.zero_points[i] : q.zero_point(0)});
  if (q.scales.size() == 1) return true;
  if (q.kind == Kind::kPerTensor || q.axis < -t.shape.rank() || q.axis >= t.shape.rank()) return false;
  const bool blocked = q.kind == Kind::kPerBlock && q.block > 1;
  along_axis(push, t.shape, q.axis, blocked ? q.block : 1);
  if (q.kind == Kind::kPerBlock && !blocked) return false;
  const int64_t expected = blocked ? t.shape.elements() / push.extent * push.blocks : push.extent;
  return static_cast<int64_t>(parameters.size()) == expected;
}

/// Maps the parameters of (De)QuantizeLinear to elements by their shapes; false for unsupported shapes.
bool take_shapes(const KernelSpec& spec, QuantizePush& push) {
  const auto& a = spec.attrs<QuantizeLinearAttrs>();
  const Shape &x = spec.inputs[0].shape, &scale = spec.inputs[1].shape;
  const int64_t n = scale.elements(), zeros = spec.has(2) ? spec.inputs[2].shape.elements() : n;
  if (n < 1 || (zeros != n && zeros != 1)) return false;
  if (n == 1) return true;
  if (a.axis < -x.rank() || a.axis >= x.rank()) return false;
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + x.rank() : a.axis);
  if (scale.rank() <= 1) {
    along_axis(push, x, axis, 1);
    return n == x[axis];
  }
  if (scale.rank() != x.rank() || scale[axis] < 1) return false;
  int64_t block = a.block > 0 ? a.block : (x[axis] + scale[axis] - 1) / scale[axis];
  block = std::min(block, x[axis]);
  if (block < 2) return false;
  along_axis(push, x, axis, block);
  for (int d = 0; d < x.rank(); ++d)
    if (scale[d] != (d == axis ? static_cast<int64_t>(push.blocks) : x[d])) return false;
  return true;
}

/// Takes the parameters from constant inputs 1 and 2 of (De)QuantizeLinear.
bool take_constants(const KernelSpec& spec, std::vector<Parameter>& parameters, QuantizePush& push) {
  const Tensor *scale = spec.constant(1), *zero = spec.constant(2);
  if (!take_shapes(spec, push)) return false;
  for (int64_t i = 0; i < scale->elements(); ++i) {
    const int64_t z = !zero || is_float(zero->dtype()) ? 0 : get_int(*zero, zero->elements() == 1 ? 0 : i);
    if (z < INT32_MIN || z > INT32_MAX) return false;
    parameters.push_back({static_cast<float>(get_double(*scale, i)), static_cast<int32_t>(z)});
  }
  return true;
}

std::unique_ptr<Kernel> make(const KernelSpec& spec, const char* prefix, std::vector<Parameter> parameters, Flags flags,
                             const QuantizePush& push) {
  const auto shader = shaders::find_variant<shaders::Quantize>(
      Cat(prefix, type_suffix(spec.inputs[0].dtype), '_', type_suffix(spec.outputs[0].dtype)));
  if (!shader) return nullptr;
  return shader_kernel(*shader, {.ties_away = flags.ties_away, .reciprocal = flags.reciprocal},
                       {input(0), table("scales", std::move(parameters)), output(0)}, push.n, push);
}

QuantizePush push_of(const KernelSpec& spec) {
  QuantizePush push{.n = u32(spec.outputs[0].shape.elements()),
                    .inner = 1,
                    .extent = 1,
                    .block = 0,
                    .blocks = 0,
                    .low = 0,
                    .high = 0};
  const DType to = spec.outputs[0].dtype;
  if (bit_width(to) <= 16 && is_integer(to)) {
    push.low = static_cast<int32_t>(int_min(to));
    push.high = static_cast<int32_t>(int_max(to));
  }
  return push;
}

}  // namespace

std::unique_ptr<Kernel> make_quantize(const KernelSpec& spec) {
  const ValueType& y = spec.outputs[0];
  QuantizePush push = push_of(spec);
  std::vector<Parameter> parameters;
  if (!take_parameters(y, parameters, push)) return nullptr;
  return make(spec, "quantize_", std::move(parameters), {y.quant->rounding != Rounding::kFloatHalfEven, false}, push);
}

std::unique_ptr<Kernel> make_dequantize(const KernelSpec& spec) {
  QuantizePush push = push_of(spec);
  std::vector<Parameter> parameters;
  if (!take_parameters(spec.inputs[0], parameters, push)) return nullptr;
  return make(spec, "dequantize_", std::move(parameters), {}, push);
}

namespace {

/// (De)QuantizeLinear with non-constant float32 scales, and zero points in the quantized type.
std::unique_ptr<Kernel> make_dynamic(const KernelSpec& spec, const char* prefix, const ValueType& quantized,
                                     Flags flags, QuantizePush push) {
  if (!take_shapes(spec, push)) return nullptr;
  if (spec.has(2) && (spec.inputs[2].dtype != quantized.dtype || spec.inputs[2].quant)) return nullptr;
  const auto shader = shaders::find_variant<shaders::Quantize>(
      Cat(prefix, type_suffix(spec.inputs[0].dtype), '_', type_suffix(spec.outputs[0].dtype), "_dynamic"));
  if (!shader) return nullptr;
  const uint32_t zeros = !spec.has(2) ? 0 : spec.inputs[2].shape.elements() == 1 ? 1 : 2;
  return shader_kernel(*shader, {.reciprocal = flags.reciprocal, .zeros = zeros},
                       {input(0), input(1), output(0), input(zeros ? 2 : 1)}, push.n, push);
}

/// Takes the quantized range; false if it exceeds the element type.
bool take_range(const QuantizeLinearAttrs& a, QuantizePush& push) {
  if (a.quant_min == a.quant_max) return true;
  if (a.quant_min < push.low || a.quant_max > push.high || a.quant_min > a.quant_max) return false;
  push.low = static_cast<int32_t>(a.quant_min);
  push.high = static_cast<int32_t>(a.quant_max);
  return true;
}

}  // namespace

std::unique_ptr<Kernel> make_quantize_linear_dynamic(const KernelSpec& spec) {
  const auto& a = spec.attrs<QuantizeLinearAttrs>();
  QuantizePush push = push_of(spec);
  if (spec.outputs[0].quant || !take_range(a, push)) return nullptr;
  return make_dynamic(spec, "quantize_", spec.outputs[0], {false, a.reciprocal}, push);
}

std::unique_ptr<Kernel> make_dequantize_linear_dynamic(const KernelSpec& spec) {
  if (spec.inputs[0].quant) return nullptr;
  return make_dynamic(spec, "dequantize_", spec.inputs[0], {}, push_of(spec));
}

std::unique_ptr<Kernel> make_quantize_linear(const KernelSpec& spec) {
  const auto& a = spec.attrs<QuantizeLinearAttrs>();
  QuantizePush push = push_of(spec);
  std::vector<Parameter> parameters;
  if (spec.outputs[0].quant || !take_constants(spec, parameters, push)) return nullptr;
  if (!take_range(a, push)) return nullptr;
  return make(spec, "quantize_", std::move(parameters), {false, a.reciprocal}, push);
}

std::unique_ptr<Kernel> make_dequantize_linear(const KernelSpec& spec) {
  QuantizePush push = push_of(spec);
  std::vector<Parameter> parameters;
  if (spec.inputs[0].quant || !take_constants(spec, parameters, push)) return nullptr;
  return make(spec, "dequantize_", std::move(parameters), {}, push);
}

}  // namespace smelt::vulkan
