// TFLite's SVDF on float32 activations, with float weights or 8-bit ones that meet quantized rows, and on int8.
#include <algorithm>
#include <bit>
#include <string>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "backends/vulkan/recurrent/tf_cells.h"
#include "base/cat.h"
#include "ops/common/fixed_point.h"
#include "ops/recurrent/recurrent.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

/// The layout of tf_svdf.comp.
struct SvdfSizes {
  uint32_t features, filters, units, rank, memory;
};
struct RealPush {
  SvdfSizes z;
  GpuActivation act;
};
struct StoredPush {
  SvdfSizes z;
  int32_t x_zero, y_zero;
  int32_t state_multiplier, state_shift, y_multiplier, y_shift;
};

/// The constants: features, times, bias (undefined: none).
struct Weights {
  Tensor features, times, bias;
  bool quantized_features = false, quantized_times = false;

  size_t words(const SvdfSizes& z) const { return 1 + size_t{z.filters} * (z.features + z.memory) + z.units; }
  void fill(const SvdfSizes& z, uint32_t* out) const {
    *out++ = features.quant() ? std::bit_cast<uint32_t>(features.quant()->scale()) : 0;
    for (int64_t k = 0; k < z.features; ++k)
      for (int64_t f = 0; f < z.filters; ++f) *out++ = weight_word(features, f * z.features + k, quantized_features);
    for (int64_t i = 0; i < times.elements(); ++i) *out++ = weight_word(times, i, quantized_times);
    for (int64_t u = 0; u < z.units; ++u) *out++ = bias.defined() ? weight_word(bias, u, quantized_times) : 0;
  }
};

template <class Push>
class TfSvdf final : public Kernel {
 public:
  TfSvdf(const char* shader, Weights weights, std::vector<uint32_t> constants, uint32_t batch, bool keeps,
         size_t state_bytes, const Push& push)
      : shader_(shader),
        weights_(std::move(weights)),
        constants_(std::move(constants)),
        batch_(batch),
        keeps_(keeps),
        state_bytes_(state_bytes),
        push_(push) {}
  bool reads(size_t i) const override { return i == 0 || i == 4; }
  size_t scratch_bytes() const override { return keeps_ ? 0 : state_bytes_; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding state, r.input(4));
    const auto address = [](const Tensor& t) { return t.defined() ? reinterpret_cast<uintptr_t>(t.raw()) : 0; };
    const std::string key =
        Cat("svdf ", weights_.quantized_features, ' ', address(weights_.times), ' ', address(weights_.bias));
    SMELT_ASSIGN(const Binding table, r.table(1, key, weights_.words(push_.z) * sizeof(uint32_t),
                                              [&](void* to) { weights_.fill(push_.z, static_cast<uint32_t*>(to)); }));
    const Binding next = keeps_ ? r.output(1) : r.scratch(0, state_bytes_, true);
    return r.dispatch({shader_, constants_, {x, table, state, r.output(0), next}, batch_}, push_);
  }

 private:
  const char* shader_;
  Weights weights_;
  std::vector<uint32_t> constants_;
  uint32_t batch_;
  bool keeps_;  ///< the new state is an output
  size_t state_bytes_;
  Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_tf_svdf(const KernelSpec& spec) {
  const auto& a = spec.attrs<TfSvdfAttrs>();
  const ValueType &x = spec.inputs[0], &s = spec.inputs[4], &y = spec.outputs[0];
  const Tensor *features = spec.constant(1), *times = spec.constant(2), *bias = spec.constant(3);
  if (!features || !times || (spec.has(3) && !bias) || !wanted(spec, 0)) return nullptr;
  if (x.shape.rank() != 2 || features->rank() != 2 || times->rank() != 2 || a.rank < 1) return nullptr;
  const auto u32 = [](int64_t v) { return static_cast<uint32_t>(v); };
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
  if (x.dtype == DType::kF32) {
    const bool quantized = features->dtype() == DType::kI8 || features->dtype() == DType::kU8;
    const auto real = [](const Tensor& t) { return t.quant() ? is_per_tensor(t.quant()) : is_float(t.dtype()); };
    if (s.dtype != DType::kF32 || y.dtype != DType::kF32 || s.quant || y.quant || !real(*times) ||
        (bias && !real(*bias)))
      return nullptr;
    if (quantized ? !is_per_tensor(features->quant()) : features->quant() || !is_float(features->dtype()))
      return nullptr;
    w.quantized_features = quantized;
    return std::make_unique<TfSvdf<RealPush>>(
        "tf_svdf_f32", std::move(w), std::vector<uint32_t>{u32(lanes), u32(lanes), quantized, a.asymmetric_inputs},
        u32(batch), keeps, state_bytes, RealPush{z, gpu_activation(a.act)});
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
  return std::make_unique<TfSvdf<StoredPush>>(
      "tf_svdf_i8", std::move(w), std::vector<uint32_t>{u32(lanes), u32(lanes), 0, 0}, u32(batch), keeps, state_bytes,
      StoredPush{z, x.quant->zero_point(), y.quant->zero_point(), first.multiplier, first.shift, second.multiplier,
                 second.shift});
}

}  // namespace smelt::vulkan
