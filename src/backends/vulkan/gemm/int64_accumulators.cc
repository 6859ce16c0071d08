#include "backends/vulkan/gemm/int64_accumulators.h"

#include <span>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "base/cat.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

struct Push {
  uint32_t n, inner, channels;
  int32_t zero, low, high;
};

}  // namespace

std::optional<Int64Accumulators> Int64Accumulators::make(const KernelSpec& spec, int64_t channels, int64_t inner,
                                                         const RescaleRule& rule) {
  const ValueType &x = spec.inputs[0], &w = spec.inputs[1], &y = spec.outputs[0];
  if (!spec.device.info().int64 || y.dtype != DType::kI16 || !is_per_tensor(y.quant) || !is_per_tensor(x.quant) ||
      !w.quant)
    return std::nullopt;
  const auto kind = w.quant->kind;
  if (kind != Quantization::Kind::kPerTensor && kind != Quantization::Kind::kPerAxis) return std::nullopt;
  for (int32_t z : w.quant->zero_points)
    if (z != w.quant->zero_points[0]) return std::nullopt;
  if (spec.has(2) && (!spec.constant(2) || !is_integer(spec.inputs[2].dtype))) return std::nullopt;
  const int64_t n = y.shape.elements();
  if (static_cast<uint64_t>(n) * sizeof(int64_t) > spec.device.max_binding()) return std::nullopt;
  auto q = Requantizer::make(type_only(x), type_only(w), spec.constant(2), type_only(y), channels, rule);
  if (!q.ok() || !q->fixed_point()) return std::nullopt;
  Int64Accumulators s(std::move(*q));
  s.once_ = rule.rounding == Rounding::kFixedSingle;
  s.n_ = static_cast<size_t>(n);
  s.inner_ = static_cast<uint32_t>(inner);
  s.channels_ = static_cast<uint32_t>(channels);
  s.x_zero_ = x.quant->zero_point();
  s.w_zero_ = w.quant->zero_point();
  return s;
}

Status Int64Accumulators::record(KernelRecorder& r) const {
  std::vector<uint32_t> rows;
  for (size_t c = 0; c < channels_; ++c) {
    const auto& bias = q_.bias();
    const uint64_t b = bias.empty() ? 0 : static_cast<uint64_t>(bias[bias.size() == 1 ? 0 : c]);
    const FixedFactor f = q_.fixed()[c % q_.fixed().size()];
    rows.insert(rows.end(), {static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32),
                             static_cast<uint32_t>(f.multiplier), static_cast<uint32_t>(f.shift)});
  }
  SMELT_ASSIGN(const Binding table, r.table("rescale", std::span<const uint32_t>(rows)));
  Dispatch d{"rescale_accumulators_i16",
             {kWidth, q_.wide() ? 1u : 0u, once_ ? 1u : 0u},
             {accumulators(r, false), table, r.output(0)}};
  set_grid(d, n_, kWidth);
  return r.dispatch(d, Push{static_cast<uint32_t>(n_), inner_, channels_, static_cast<int32_t>(q_.zero()),
                            static_cast<int32_t>(q_.low()), static_cast<int32_t>(q_.high())});
}

}  // namespace smelt::vulkan
