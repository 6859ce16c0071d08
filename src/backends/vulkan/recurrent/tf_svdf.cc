// TFLite's SVDF on float32 activations, with float weights or 8-bit ones that meet quantized rows, and on int8.
#include <algorithm>
#include <bit>
#include <string>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "backends/vulkan/recurrent/tf_recurrent.h"
#include "base/cat.h"
#include "ops/common/fixed_point.h"
#include "ops/recurrent/recurrent.h"
#include "shaders/tf_svdf.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

/// Sizes as the push constants hold them.
struct SvdfSizes {
  uint32_t features, filters, units, rank, memory;
};

/// The constants: features, times, bias (undefined: none).
struct Weights {
  Tensor features, times, bias;
  bool quantized_features = false, quantized_times = false;

  Result<Binding> bind(KernelRecorder& r, const SvdfSizes& z) const {
    const auto address = [](const Tensor& t) { return t.defined() ? reinterpret_cast<uintptr_t>(t.raw()) : 0; };
    return r.table(1, Cat("svdf ", quantized_features, ' ', address(times), ' ', address(bias)),
                   words(z) * sizeof(uint32_t), [&](void* to) { fill(z, static_cast<uint32_t*>(to)); });
  }
  size_t words(const SvdfSizes& z) const { return 1 + size_t{z.filters} * (z.features + z.memory) + z.units; }
  void fill(const SvdfSizes& z, uint32_t* out) const {
    *out++ = features.quant() ? std::bit_cast<uint32_t>(features.quant()->scale()) : 0;
    for (int64_t k = 0; k < z.features; ++k)
      for (int64_t f = 0; f < z.filters; ++f) *out++ = weight_word(features, f * z.features + k, quantized_features);
    for (int64_t i = 0; i < times.elements(); ++i) *out++ = weight_word(times, i, quantized_times);
    for (int64_t u = 0; u < z.units; ++u) *out++ = bias.defined() ? weight_word(bias, u, quantized_times) : 0;
  }
};

}  // namespace

std::unique_ptr<Kernel> make_tf_svdf(const KernelSpec& spec) {
  const auto& a = spec.attrs<TfSvdfAttrs>();
  const ValueType &x = spec.inputs[0], &s = spec.inputs[4], &y = spec.outputs[0];
  const Tensor *features = spec.constant(1), *times = spec.constant(2), *bias = spec.constant(3);
  if (!wanted(spec, 0)) return nullptr;
  if (x.shape.rank() != 2 || features->rank() != 2 || times->rank() != 2 || a.rank < 1) return nullptr;
  const int64_t batch = x.shape[0], filters = features->dim(0), memory = times->dim(1), units = filters / a.rank;
  const SvdfSizes z{u32(x.shape[1]), u32(filters), u32(units), u32(a.rank), u32(memory)};
  if (features->dim(1) != x.shape[1] || times->dim(0) != filters || filters % a.rank != 0 || units < 1 || memory < 1 ||
      batch < 1 || batch > 65535 || s.shape.elements() != batch * filters * memory ||
      (bias && bias->elements() != units))
    return nullptr;
  const int64_t lanes = std::max(filters, units) > 64 ? 256 : kWidth;
  const int64_t iterations = (filters + lanes - 1) / lanes * (z.features + memory) +
                             (units + lanes - 1) / lanes * (a.rank * memory) + z.features / lanes + 64;
  if (iterations > kMaxLoopIterations) return nullptr;
  const bool keeps = wanted(spec, 1);
  const size_t state_bytes = Tensor::byte_size(s.dtype, s.shape.elements());
  Weights w{*features, *times, bias ? *bias : Tensor()};
  const auto kernel = [&](auto shader, auto constants, auto push) {
    constants.width = constants.lanes = u32(lanes);
    push.features = z.features;
    push.filters = z.filters;
    push.units = z.units;
    push.rank = z.rank;
    push.memory = z.memory;
    const Arg weights{[w, z](KernelRecorder& r) { return w.bind(r, z); }};
    auto made = shader_kernel(shader, constants,
                              {input(0), weights, input(4), output(0), keeps ? output(1) : scratch(state_bytes)},
                              Grid{u32(batch), 1, 1}, push);
    if (!keeps) made->scratch_size = state_bytes;
    return made;
  };
  if (x.dtype == DType::kF32) {
    const bool quantized = features->dtype() == DType::kI8 || features->dtype() == DType::kU8;
    const auto real = [](const Tensor& t) { return t.quant() ? is_per_tensor(t.quant()) : is_float(t.dtype()); };
    if (s.dtype != DType::kF32 || y.dtype != DType::kF32 || s.quant || y.quant || !real(*times) ||
        (bias && !real(*bias)))
      return nullptr;
    if (quantized ? !is_per_tensor(features->quant()) : features->quant() || !is_float(features->dtype()))
      return nullptr;
    w.quantized_features = quantized;
    shaders::TfSvdf::Push push{};
    push.act = gpu_activation(a.act);
    return kernel(shaders::tf_svdf_f32,
                  shaders::TfSvdf::Constants{.quantizes = quantized, .asymmetric_rows = a.asymmetric_inputs}, push);
  }
  if (x.dtype != DType::kI8 || features->dtype() != DType::kI8 || times->dtype() != DType::kI16 ||
      s.dtype != DType::kI16 || y.dtype != DType::kI8 || (bias && bias->dtype() != DType::kI32))
    return nullptr;
  for (const QuantPtr& q : {x.quant, features->quant(), times->quant(), s.quant, y.quant})
    if (!is_per_tensor(q)) return nullptr;
  w.quantized_features = w.quantized_times = true;
  // The products are rounded to float, as in the format's kernel.
  const float from_x = x.quant->scale() * features->quant()->scale() / s.quant->scale();
  const float to_y = s.quant->scale() * times->quant()->scale() / y.quant->scale();
  const FixedFactor first = fixed_factor(from_x), second = fixed_factor(to_y);
  shaders::TfSvdfInteger::Push push{};
  push.x_zero = x.quant->zero_point();
  push.y_zero = y.quant->zero_point();
  push.state_multiplier = first.multiplier;
  push.state_shift = first.shift;
  push.y_multiplier = second.multiplier;
  push.y_shift = second.shift;
  return kernel(shaders::tf_svdf_i8, shaders::TfSvdfInteger::Constants{}, push);
}

}  // namespace smelt::vulkan
