#include "backends/vulkan/gemm/int64_accumulators.h"

#include <span>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/float64_factor.h"
#include "shaders/rescale_accumulators.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {

std::optional<Int64Accumulators> Int64Accumulators::make(const KernelSpec& spec, int64_t channels, int64_t inner,
                                                         const RescaleRule& rule) {
  const ValueType &x = spec.inputs[0], &w = spec.inputs[1], &y = spec.outputs[0];
  if (!is_per_tensor(y.quant) || !is_per_tensor(x.quant)) return std::nullopt;
  const auto kind = w.quant->kind;
  if (kind != Quantization::Kind::kPerTensor && kind != Quantization::Kind::kPerAxis) return std::nullopt;
  for (int32_t z : w.quant->zero_points)
    if (z != w.quant->zero_points[0]) return std::nullopt;
  if (spec.has(2) && !is_integer(spec.inputs[2].dtype)) return std::nullopt;
  const int64_t n = y.shape.elements();
  if (static_cast<uint64_t>(n) * sizeof(int64_t) > spec.device.max_binding()) return std::nullopt;
  auto q = Requantizer::make(type_only(x), type_only(w), spec.constant(2), type_only(y), channels, rule);
  if (!q.ok() || !q->fixed_point()) return std::nullopt;
  Int64Accumulators s(std::move(*q));
  s.once_ = rule.rounding == Rounding::kDoubleHalfAway;
  s.n_ = static_cast<size_t>(n);
  s.inner_ = static_cast<uint32_t>(inner);
  s.channels_ = static_cast<uint32_t>(channels);
  s.x_zero_ = x.quant->zero_point();
  s.w_zero_ = w.quant->zero_point();
  return s;
}

std::unique_ptr<Kernel> Int64Accumulators::behind(std::unique_ptr<Kernel> product) const {
  std::vector<uint32_t> rows;
  for (size_t c = 0; c < channels_; ++c) {
    const auto& bias = q_.bias();
    const uint64_t b = bias.empty() ? 0 : static_cast<uint64_t>(bias[bias.size() == 1 ? 0 : c]);
    rows.insert(rows.end(), {static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)});
    const size_t scale = c % q_.fixed().size();
    if (once_) {
      const Float64Factor f = Float64Factor::of(q_.double_factors()[scale]);
      rows.insert(rows.end(), {f.high, f.low_and_shift});
    } else {
      const FixedFactor f = q_.fixed()[scale];
      rows.insert(rows.end(), {static_cast<uint32_t>(f.multiplier), static_cast<uint32_t>(f.shift)});
    }
  }
  auto rescale = shader_kernel(shaders::rescale_accumulators_i16, {.wide = q_.wide(), .once = once_},
                               {scratch(bytes(), false), table("rescale", std::move(rows)), output(0)}, n_,
                               {.n = static_cast<uint32_t>(n_),
                                .inner = inner_,
                                .channels = channels_,
                                .zero = i32(q_.zero()),
                                .low = i32(q_.low()),
                                .high = i32(q_.high())});
  rescale->scratch_size = bytes();
  return in_sequence(std::move(product), std::move(rescale));
}

}  // namespace smelt::vulkan
