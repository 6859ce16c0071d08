// TFLite's LSTM of int8 activations with int16 gates and cells.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "backends/vulkan/recurrent/tf_recurrent.h"
#include "base/cat.h"
#include "ops/common/fixed_point.h"
#include "ops/recurrent/fixed_cell.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/tf_lstm.h"
#include "shaders/tf_cell_integer.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

using IntegerCellPush = shaders::TfCellInteger::Push;

class IntegerCell final : public Kernel {
 public:
  IntegerCell(std::vector<int32_t> weights, uint32_t has, uint32_t batch, uint32_t width, int64_t at_once,
              const IntegerCellPush& push)
      : weights_(std::move(weights)), has_(has), batch_(batch), width_(width), at_once_(u32(at_once)), push_(push) {}
  bool reads(size_t i) const override { return i == 0 || i == 18 || i == 19; }
  size_t scratch_bytes() const override {
    return size_t{batch_} * (push_.outputs + 6 * size_t{push_.units}) * sizeof(int32_t);
  }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding h, r.input(18));
    SMELT_ASSIGN(const Binding c, r.input(19));
    const size_t bytes = weights_.size() * sizeof(int32_t);
    SMELT_ASSIGN(const Binding weights,
                 r.table(Cat("integer cell ", reinterpret_cast<uintptr_t>(this)), bytes,
                         [&](void* to) { std::copy_n(weights_.data(), weights_.size(), static_cast<int32_t*>(to)); }));
    const int cell_bits = 15 + push_.cell_log2;
    SMELT_ASSIGN(const Binding functions,
                 r.table(Cat("gates of int16, cells of ", cell_bits), 3 * 65536 * sizeof(int16_t), [&](void* to) {
                   auto* out = static_cast<int16_t*>(to);
                   for (int f = 0; f < 3; ++f)
                     for (int v = -32768; v < 32768; ++v) {
                       const auto at = static_cast<int16_t>(v);
                       *out++ = f == 0 ? logistic_fixed16(at, 3) : tanh_fixed16(at, f == 1 ? 3 : cell_bits);
                     }
                 }));
    const size_t some = has_ & kWritesY ? 0 : has_ & kWritesH ? 1 : 2;
    const auto output = [&](size_t i, uint32_t flag) { return r.output(has_ & flag ? i : some); };
    IntegerCellPush p = push_;
    for (p.first = 0; p.first < p.time; p.first += p.count) {
      p.count = std::min(at_once_, p.time - p.first);
      SMELT_TRY(r.run(shaders::tf_cell_integer, {.width = width_, .lanes = width_, .has = has_},
                      {x, weights, functions, h, c, output(0, kWritesY), output(1, kWritesH), output(2, kWritesC),
                       r.scratch(0, scratch_bytes(), true)},
                      {batch_, 1, 1}, p));
    }
    return Ok();
  }

 private:
  std::vector<int32_t> weights_;
  uint32_t has_, batch_, width_, at_once_;
  IntegerCellPush push_;
};

/// Reads the constants of a node; `ok` turns false where they are not what the kernel takes.
struct Constants {
  const KernelSpec& spec;
  std::vector<int32_t> table = {};
  bool ok = true;

  const Tensor* typed(int i, DType dtype, int64_t n, bool needs_scale) {
    if (i < 0 || !spec.has(static_cast<size_t>(i))) return nullptr;
    const Tensor* t = spec.constant(static_cast<size_t>(i));
    if (!t || t->dtype() != dtype || t->elements() != n || (needs_scale && !is_per_tensor(t->quant()))) ok = false;
    return ok ? t : nullptr;
  }
  /// [rows][columns] as [columns][rows]; zeros where absent.
  void put(const Tensor* t, int64_t rows, int64_t columns) {
    for (int64_t k = 0; k < columns; ++k)
      for (int64_t u = 0; u < rows; ++u) table.push_back(t ? static_cast<int32_t>(get_int(*t, u * columns + k)) : 0);
  }
};

float scale_of(const Tensor* t) { return t ? t->quant()->scale() : 1.f; }

}  // namespace

std::unique_ptr<Kernel> make_tf_lstm_i8(const KernelSpec& spec) {
  const auto& a = spec.attrs<TfLstmAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (a.basic || a.bidirectional || a.diagonal_recurrent || a.intermediates.size() != 5 || !is_per_tensor(x.quant) ||
      !is_per_tensor(y.quant) || !wanted(spec, 0))
    return nullptr;
  const tf_lstm::Inputs& in = tf_lstm::single_inputs();
  const auto shape = [&](int i) {
    return spec.has(static_cast<size_t>(i)) ? spec.inputs[static_cast<size_t>(i)].shape : Shape{};
  };
  const int rank = x.shape.rank();
  if ((rank != 2 && !(rank == 3 && a.sequence)) || shape(in.w[3]).rank() != 2 || shape(in.r[3]).rank() != 2)
    return nullptr;
  const bool time_major = rank == 2 || a.time_major;
  const int64_t batch = x.shape[rank == 3 && time_major ? 1 : 0], time = rank == 3 ? x.shape[time_major ? 0 : 1] : 1;
  const int64_t features = x.shape[rank - 1], n = shape(in.w[3])[0], outputs = shape(in.r[3])[1];
  const ValueType &h = spec.inputs[18], &cell = spec.inputs[19];
  if (batch < 1 || batch > 65535 || n < 1 || outputs < 1 || time < 1 || !spec.has(18) || !spec.has(19) ||
      h.dtype != DType::kI8 || cell.dtype != DType::kI16 || !is_per_tensor(h.quant) || !is_per_tensor(cell.quant) ||
      h.shape.elements() != batch * outputs || cell.shape.elements() != batch * n)
    return nullptr;
  IntegerCellPush p{};
  p.time = u32(time);
  p.features = u32(features);
  p.units = u32(n);
  p.outputs = u32(outputs);
  p.x_step = u32(time_major ? batch * features : features);
  p.x_batch = u32(time_major ? features : time * features);
  p.y_step = u32(time_major ? batch * outputs : outputs);
  p.y_batch = u32(time_major ? outputs : time * outputs);
  p.x_zero = x.quant->zero_point();
  p.h_zero = h.quant->zero_point();
  const float cell_scale = cell.quant->scale(), x_scale = x.quant->scale(), h_scale = h.quant->scale();
  p.cell_log2 = static_cast<int32_t>(std::lround(std::log2(cell_scale)));
  if (!(cell_scale > 0) || std::ldexp(1.f, p.cell_log2) != cell_scale || p.cell_log2 > -9 || p.cell_log2 < -15)
    return nullptr;
  // As the reference kernel cuts them (ops/recurrent/tf_lstm_integer.cc).
  if (a.cell_clip > 0)
    p.cell_clip = static_cast<int16_t>(std::clamp(static_cast<float>(a.cell_clip) / cell_scale, -32768.f, 32767.f));
  if (a.proj_clip > 0)
    p.projection_clip =
        static_cast<int32_t>(std::clamp(static_cast<float>(a.proj_clip) / y.quant->scale(), -128.f, 127.f));
  Constants c{spec};
  uint32_t has = kWritesY;
  const bool norm = spec.has(static_cast<size_t>(in.norm[1]));
  if (norm) has |= kNorm;
  const auto intermediate = [&](size_t i) -> const Quantization* {
    const QuantPtr& q = a.intermediates[i].quant;
    return q && q->scale() > 0 ? q.get() : nullptr;
  };
  for (size_t g = 0; g < 4; ++g) {
    const bool present = spec.has(static_cast<size_t>(in.w[g]));
    if (!present && g > 0) return nullptr;
    if (!present) has |= kCoupled;
    const auto part = [&](int i) { return present ? i : -1; };
    const Tensor* w = c.typed(part(in.w[g]), DType::kI8, n * features, true);
    const Tensor* r = c.typed(part(in.r[g]), DType::kI8, n * outputs, true);
    const Tensor* peephole = g == 2 ? nullptr : c.typed(part(in.peephole[g == 3 ? 2 : g]), DType::kI16, n, true);
    const Tensor* scale = c.typed(part(in.norm[g]), DType::kI16, n, true);
    const Tensor* bias = c.typed(part(in.bias[g]), DType::kI32, n, false);
    if (!c.ok || (present && (!r || (scale != nullptr) != norm || (norm && !bias)))) return nullptr;
    if (peephole) has |= kPeephole;
    float unit = std::ldexp(1.f, -12);
    if (norm && !intermediate(g)) return nullptr;
    if (norm) unit = intermediate(g)->scale();
    const float norm_scale = scale_of(scale);
    // All of these are products in float, as the format's kernel rounds them.
    const FixedFactor factors[] = {
        fixed_factor(scale_of(w) * x_scale / unit),
        fixed_factor(scale_of(r) * h_scale / unit),
        fixed_factor(static_cast<float>(std::ldexp(1.0, p.cell_log2) * scale_of(peephole) / unit)),
        {fixed_factor(norm_scale).multiplier, std::min(30, fixed_factor(norm_scale).shift + 12)}};
    for (const FixedFactor& f : factors) {
      c.table.push_back(f.multiplier);
      c.table.push_back(f.shift);
    }
    c.table.push_back(std::max(1, static_cast<int32_t>(std::min(1e9f, 10000 * norm_scale))));
    c.table.push_back(peephole ? 1 : 0);
    c.table.insert(c.table.end(), 6, 0);
    c.put(w, n, features);
    c.put(r, n, outputs);
    for (const Tensor* t : {peephole, scale, bias}) c.put(t, n, 1);
  }
  const Quantization* hidden = intermediate(4);
  const Tensor* projection = c.typed(in.projection, DType::kI8, outputs * n, true);
  const Tensor* projection_bias = c.typed(in.projection_bias, DType::kI32, outputs, false);
  if (!hidden || !c.ok || (!projection && n != outputs)) return nullptr;
  if (projection) {
    has |= kProjection;
    c.put(projection, outputs, n);
    c.put(projection_bias, outputs, 1);
  }
  p.hidden_zero = hidden->zero_point();
  const FixedFactor to_hidden =
      fixed_factor(static_cast<float>(std::ldexp(1.0, -15) / hidden->scale() * std::ldexp(1.0, -15)));
  const FixedFactor to_output = fixed_factor(scale_of(projection) * hidden->scale() / h_scale);
  p.hidden_multiplier = to_hidden.multiplier;
  p.hidden_shift = to_hidden.shift;
  p.projection_multiplier = to_output.multiplier;
  p.projection_shift = to_output.shift;
  for (size_t i : {1u, 2u}) {
    if (!wanted(spec, i)) continue;
    if (spec.outputs[i].dtype != (i == 1 ? DType::kI8 : DType::kI16)) return nullptr;
    has |= i == 1 ? kWritesH : kWritesC;
  }
  const uint32_t width = std::max(n, outputs) > 128 ? 256 : std::max(n, outputs) > 32 ? kWidth : 32;
  const int64_t each = (n + width - 1) / width;
  const int64_t iterations = 4 * each * (features + outputs + 64) + (outputs + width - 1) / width * (n + 8) + 256;
  if (iterations > kMaxLoopIterations) return nullptr;
  return std::make_unique<IntegerCell>(std::move(c.table), has, u32(batch), width, kMaxLoopIterations / iterations, p);
}

}  // namespace smelt::vulkan
