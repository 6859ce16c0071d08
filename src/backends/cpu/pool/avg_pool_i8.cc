#include <algorithm>
#include <cmath>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/pool/float_accumulators.h"
#include "backends/cpu/pool/pool_shape.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "backends/cpu/quantize/near_means.h"
#include "ops/common/quantized_pair.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// Means of 8-bit values in real numbers. The values, multiples of one scale by less than 9 bits, add up exactly in
/// double precision: in any order to what the reference kernel gets.
class PoolMeanI8 final : public Kernel {
 public:
  PoolMeanI8(const PoolShape& s, const KernelSpec& spec)
      : s_(s),
        to_(quant_rule(spec.outputs[0])),
        quant_(dynamic_quant_ops(spec.isa)),
        ops_(float_accumulators(spec.isa)),
        bytes_(vector_ops(spec.isa)),
        near_(smelt::near_means(spec.isa)),
        threads_(std::max(spec.threads, 1)),
        signed_(spec.inputs[0].dtype == DType::kI8),
        scale_(spec.inputs[0].quant->scale()),
        zero_point_(spec.inputs[0].quant->zero_point()),
        taps_bytes_(rounded(s.taps() * 8)),
        sums_bytes_(rounded((s.channels_last ? s.channels : s.dims[2].in + kSlack + s.dims[2].out) * 8)),
        slot_bytes_(taps_bytes_ + sums_bytes_ + rounded((s.channels_last ? s.channels : s.out_pixels()) * 4)),
        often_midway_(means_of(s.taps(), s.taps()).often_midway()),
        low_(byte_of(s.lo)),
        high_(byte_of(s.hi)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_) * slot_bytes_; }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    const int64_t lines = s_.dims[0].out * s_.dims[1].out;
    if (s_.channels_last)
      return in_slots(ctx, threads_, s_.batch * lines, slot_bytes_, [&](int64_t unit, char* scratch) {
        line(x + unit / lines * s_.in_pixels() * s_.channels, unit % lines,
             y + unit / lines * s_.out_pixels() * s_.channels, scratch);
      });
    return in_slots(ctx, threads_, s_.batch * s_.channels, slot_bytes_, [&](int64_t unit, char* scratch) {
      plane(x + unit * s_.in_pixels(), y + unit * s_.out_pixels(), scratch);
    });
  }

 private:
  void line(const uint8_t* image, int64_t index, uint8_t* y, char* scratch) const {
    auto** taps = reinterpret_cast<const uint8_t**>(scratch);
    each_pixel(s_, index, [&](int64_t pixel, const int64_t out[3]) {
      const int64_t count = window_pixels(s_, image, out, taps), divisor = s_.divisor_at(out, count);
      uint8_t* const to = y + pixel * s_.channels;
      if (often_midway_)
        defined_means(taps, count, divisor, scratch + taps_bytes_, to);
      else
        near_means(taps, count, divisor, scratch + taps_bytes_, to);
    });
  }
  void defined_means(const uint8_t* const* taps, int64_t count, int64_t divisor, char* scratch, uint8_t* y) const {
    auto* sums = reinterpret_cast<double*>(scratch);
    auto* means = reinterpret_cast<float*>(scratch + sums_bytes_);
    ops_.sum(taps, count, s_.channels, signed_, scale_, zero_point_, sums);
    ops_.mean(sums, s_.channels, static_cast<double>(divisor), s_.lo, s_.hi, means);
    quant_.quantize(means, s_.channels, to_, y);
  }
  void near_means(const uint8_t* const* taps, int64_t count, int64_t divisor, char* scratch, uint8_t* y) const {
    auto* sums = reinterpret_cast<int32_t*>(scratch);
    bytes_.sum_taps_i8(taps, count, s_.channels, signed_, sums);
    NearMeans means = means_of(count, divisor);
    means.low = low_;
    means.high = high_;
    each_mean(near_, means, sums, s_.channels, y, [&](int64_t c) {
      double sum = 0;
      for (int64_t t = 0; t < count; ++t) {
        const int32_t x = signed_ ? static_cast<int8_t>(taps[t][c]) : taps[t][c];
        sum += static_cast<double>(scale_ * static_cast<float>(x - zero_point_));
      }
      return static_cast<uint8_t>(
          byte_of(std::clamp(static_cast<float>(sum / static_cast<double>(divisor)), s_.lo, s_.hi)));
    });
  }
  NearMeans means_of(int64_t count, int64_t divisor) const {
    return {{scale_, zero_point_}, {to_.scale, to_.zero}, count, divisor};
  }
  /// The integer of a real number in the output.
  int32_t byte_of(float real) const {
    uint8_t byte = 0;
    quant_.quantize(&real, 1, to_, &byte);
    return to_.is_signed ? static_cast<int8_t>(byte) : byte;
  }
  /// Lines under the window are added up first, then columns.
  void plane(const uint8_t* image, uint8_t* y, char* scratch) const {
    auto** taps = reinterpret_cast<const uint8_t**>(scratch);
    auto* merged = reinterpret_cast<double*>(scratch + taps_bytes_);
    auto* sums = merged + s_.dims[2].in + kSlack;
    auto* means = reinterpret_cast<float*>(scratch + taps_bytes_ + sums_bytes_);
    const WindowDim& dx = s_.dims[2];
    const auto [inner0, inner1] = PoolShape::inside(dx);
    for (int64_t index = 0; index < s_.dims[0].out * s_.dims[1].out; ++index) {
      int64_t out[3] = {index / s_.dims[1].out, index % s_.dims[1].out, 0};
      const int64_t count = window_lines(s_, image, s_.dims[2].in, out, taps);
      ops_.sum(taps, count, dx.in, signed_, scale_, zero_point_, merged);
      float* to = means + index * dx.out;
      const auto edge = [&](int64_t begin, int64_t end) {
        for (out[2] = begin; out[2] < end; ++out[2]) {
          int64_t x0, x1;
          PoolShape::range(dx, out[2], x0, x1);
          const double* from = merged + out[2] * dx.stride - dx.pad_begin;
          double sum = 0;
          for (int64_t k = x0; k < x1; ++k) sum += from[k * dx.dilation];
          const auto divisor = static_cast<double>(s_.divisor_at(out, count * (x1 - x0)));
          to[out[2]] = std::clamp(static_cast<float>(sum / divisor), s_.lo, s_.hi);
        }
      };
      edge(0, inner0);
      out[2] = inner0;
      if (inner0 < inner1) {
        ops_.sum_windows(merged + inner0 * dx.stride - dx.pad_begin, dx.stride, dx.dilation, dx.kernel, inner1 - inner0,
                         sums);
        const auto divisor = static_cast<double>(s_.divisor_at(out, count * dx.kernel));
        ops_.mean(sums, inner1 - inner0, divisor, s_.lo, s_.hi, to + inner0);
      }
      edge(inner1, dx.out);
    }
    quant_.quantize(means, s_.out_pixels(), to_, y);
  }

  static constexpr int64_t kSlack = 8;  ///< that sum_windows() may read
  PoolShape s_;
  QuantRule to_;
  const DynamicQuantOps& quant_;
  const FloatAccumulators& ops_;
  const VectorOps& bytes_;
  NearMeansFn near_;
  int64_t threads_;
  bool signed_;
  float scale_;
  int32_t zero_point_;
  size_t taps_bytes_, sums_bytes_, slot_bytes_;
  bool often_midway_;   ///< means lie between two integers
  int32_t low_, high_;  ///< bounds of the output
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_avg_pool_i8(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const auto& attrs = spec.attrs<PoolAttrs>();
  if (attrs.kind != PoolKind::kAverage || attrs.rounding != Rounding::kFloatHalfEven || !is_per_tensor(x.quant) ||
      !is_per_tensor(y.quant) || !std::isnormal(x.quant->scale()) || !std::isnormal(y.quant->scale()))
    return nullptr;
  const auto s = PoolShape::make(spec);
  return s ? std::make_unique<PoolMeanI8>(*s, spec) : nullptr;
}

}  // namespace smelt
