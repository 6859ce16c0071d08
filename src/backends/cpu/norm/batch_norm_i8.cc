// Batch normalization of 8-bit values: a factor and an addend by channel between one set of quantization parameters and
// another, equal to the reference kernel bit by bit.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/norm/batch_norm_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "ops/common/index.h"
#include "ops/normalization/normalization.h"
#include "tensor/quant_params.h"

#ifndef SMELT_CPU_BATCH_NORM_I8
#define SMELT_CPU_BATCH_NORM_I8
namespace smelt {
/// The arithmetic of a node. Bytes are taken as uint8: the flips turn int8 into uint8 and back, zero points move along.
///
/// Definition: y = nearest(((scale_x * (x - zero_x)) * factor + addend) / scale_y), each operation in float32, then
/// clamped to [low, high], plus zero_y. Near: x * near_factor + near_addend. Where that is further than 1/2 - `sure`
/// from the middle between two integers, its nearest integer, within [0, 255], is y's.
struct BatchNormI8Rule {
  uint8_t flip_x = 0, flip_y = 0;
  int32_t zero_x = 0, zero_y = 0;
  float scale_x = 1, scale_y = 1;
  float low = 0, high = 0;  ///< of y less its zero point
  bool away = false;        ///< ties of the last rounding go away from zero, else to even
  float sure = -1;
};
/// By channel.
struct BatchNormI8Channels {
  const float *factor, *addend, *near_factor, *near_addend;
};
/// Rows of n bytes. step: 0 where all are of one channel, 1 where each byte of a row is of the next one.
using BatchNormI8Rows = void (*)(const BatchNormI8Rule& rule, const uint8_t* x, const BatchNormI8Channels& of,
                                 int64_t step, int64_t rows, int64_t n, uint8_t* y);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool kStep>
void batch_norm_i8_rows(const BatchNormI8Rule& rule, const uint8_t* x, const BatchNormI8Channels& channels,
                        int64_t rows, int64_t n, uint8_t* y) {
  const BatchNormI8Rule r = rule;  // stores to y cannot change these
  const BatchNormI8Channels of = channels;
  for (int64_t row = 0; row < rows; ++row, x += n, y += n)
    for_lanes<int32_t>(n, [&](auto di, int64_t i) HWY_ATTR {
      using DI = decltype(di);
      const hn::RebindToFloat<DI> df;
      const hn::RebindToUnsigned<DI> du;
      const hn::Rebind<uint8_t, DI> d8;
      const auto channel = [&](const float* from)
                               HWY_ATTR { return kStep ? hn::LoadU(df, from + i) : hn::Set(df, *from); };
      const auto stored = hn::PromoteTo(di, hn::Xor(hn::LoadU(d8, x + i), hn::Set(d8, r.flip_x)));
      const auto near = hn::MulAdd(hn::ConvertTo(df, stored), channel(of.near_factor), channel(of.near_addend));
      auto nearest = nearest_in_range(near);
      const auto off = hn::Abs(hn::Sub(near, hn::ConvertTo(df, nearest)));
      if (HWY_UNLIKELY(!hn::AllTrue(df, hn::Lt(off, hn::Set(df, r.sure))))) {
        const auto real = hn::Mul(hn::Set(df, r.scale_x), hn::ConvertTo(df, hn::Sub(stored, hn::Set(di, r.zero_x))));
        auto v = hn::Add(hn::Mul(real, channel(of.factor)), channel(of.addend));
        v = hn::Min(hn::Max(hn::Div(v, hn::Set(df, r.scale_y)), hn::Set(df, r.low)), hn::Set(df, r.high));
        nearest =
            r.away ? whole_in_range(hn::Add(v, hn::CopySign(hn::Set(df, 0x1.fffffep-2f), v))) : nearest_in_range(v);
        nearest = hn::Add(nearest, hn::Set(di, r.zero_y));
      }
      nearest = hn::Min(hn::Max(nearest, hn::Zero(di)), hn::Set(di, 255));
      hn::StoreU(hn::Xor(hn::TruncateTo(d8, hn::BitCast(du, nearest)), hn::Set(d8, r.flip_y)), d8, y + i);
    });
}

void batch_norm_i8(const BatchNormI8Rule& rule, const uint8_t* x, const BatchNormI8Channels& of, int64_t step,
                   int64_t rows, int64_t n, uint8_t* y) {
  step ? batch_norm_i8_rows<true>(rule, x, of, rows, n, y) : batch_norm_i8_rows<false>(rule, x, of, rows, n, y);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// `outer` times `channels` rows of `inner` bytes.
struct ChannelRows {
  int64_t outer, channels, inner;
};

class BatchNormI8 final : public Kernel {
 public:
  BatchNormI8(const ChannelRows& rows, const BatchNormI8Rule& rule, std::vector<float> channels, const KernelSpec& spec)
      : rows_(rows), rule_(rule), channels_(std::move(channels)), rows_of_(SMELT_FOR_LEVEL(spec.isa, batch_norm_i8)) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    const bool last = rows_.inner == 1;
    const int64_t size = last ? rows_.channels : rows_.inner, rows = rows_.outer * (last ? 1 : rows_.channels);
    ctx.threads().parallel_for(rows, std::max<int64_t>(1, 16384 / size), [&](int64_t begin, int64_t end) {
      if (last) return rows_of_(rule_, x + begin * size, from(0), 1, end - begin, size, y + begin * size);
      for (int64_t r = begin; r < end; ++r)
        rows_of_(rule_, x + r * size, from(r % rows_.channels), 0, 1, size, y + r * size);
    });
    return Ok();
  }

 private:
  BatchNormI8Channels from(int64_t c) const {
    const float* of = channels_.data() + c;
    const int64_t n = rows_.channels;
    return {of, of + n, of + 2 * n, of + 3 * n};
  }

  ChannelRows rows_;
  BatchNormI8Rule rule_;
  std::vector<float> channels_;  ///< the four arrays of BatchNormI8Channels
  BatchNormI8Rows rows_of_;
};

/// Factors, addends and their near ones of the channels; sets how near is sure.
std::vector<float> channels_of(const KernelSpec& spec, int64_t n, BatchNormI8Rule& r) {
  const double epsilon = spec.attrs<BatchNormAttrs>().epsilon;
  std::vector<float> of(static_cast<size_t>(4 * n));
  double most = 0;
  for (int64_t c = 0; c < n; ++c) {
    const auto entry = [&](size_t i, double otherwise) {
      return spec.has(i) ? static_cast<double>(spec.constant(i)->data<float>()[c]) : otherwise;
    };
    const double scale = entry(1, 1) / std::sqrt(entry(4, 1) + epsilon);
    float* at = of.data() + c;
    at[0] = static_cast<float>(scale);
    at[n] = static_cast<float>(entry(2, 0) - entry(3, 0) * scale);
    const double factor = static_cast<double>(at[0]) * static_cast<double>(r.scale_x) / static_cast<double>(r.scale_y),
                 addend = static_cast<double>(at[n]) / static_cast<double>(r.scale_y) + r.zero_y - factor * r.zero_x;
    at[2 * n] = static_cast<float>(factor);
    at[3 * n] = static_cast<float>(addend);
    const double size = (std::abs(r.zero_x) + 255) * std::abs(factor) + std::abs(r.zero_y) +
                        std::abs(static_cast<double>(at[n]) / static_cast<double>(r.scale_y));
    most = size <= most ? most : size;  // not a number: so is the largest
  }
  // Both ways together make less than eight errors of half a unit in the last place of numbers up to `most`.
  const double error = most * 0x1p-21;
  r.sure = error < 0.05 ? static_cast<float>(0.5 - error) : -1.0f;
  return of;
}

bool has_one_normal_scale(const ValueType& t) {
  return is_per_tensor(t.quant) && std::isnormal(t.quant->scale()) && t.quant->scale() > 0 &&
         std::abs(t.quant->zero_point()) <= 1 << 20;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_batch_norm_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BatchNormAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!has_one_normal_scale(x) || !has_one_normal_scale(y)) return spec.refuse("an operand has not one normal scale");
  if (attrs.training || spec.node.outputs.size() > 1) return spec.refuse("statistics are wanted");
  const int rank = x.shape.rank();
  if (rank < 2 || x.shape.elements() == 0) return spec.refuse("no channels");
  const int axis = attrs.layout == Layout::kChannelsFirst ? 1 : rank - 1;
  const ChannelRows rows{product(x.shape, 0, axis), x.shape[axis], product(x.shape, axis + 1, rank)};
  for (size_t i = 1; i < 5; ++i)
    if (spec.has(i) && (spec.inputs[i].dtype != DType::kF32 || spec.inputs[i].shape.elements() != rows.channels))
      return spec.refuse("a parameter is not a float32 number for each channel");
  const QuantRule to = quant_rule(y);
  BatchNormI8Rule r;
  r.flip_x = x.dtype == DType::kI8 ? 128 : 0;
  r.flip_y = y.dtype == DType::kI8 ? 128 : 0;
  r.zero_x = x.quant->zero_point() + r.flip_x;
  r.zero_y = to.zero + r.flip_y;
  r.scale_x = x.quant->scale();
  r.scale_y = to.scale;
  r.low = static_cast<float>(to.low - to.zero);
  r.high = static_cast<float>(to.high - to.zero);
  r.away = to.away;
  std::vector<float> channels = channels_of(spec, rows.channels, r);
  if (!std::ranges::all_of(channels, [](float v) { return std::isfinite(v); }))
    return spec.refuse("a parameter is no finite number");
  return std::make_unique<BatchNormI8>(rows, r, std::move(channels), spec);
}

}  // namespace smelt
#endif
