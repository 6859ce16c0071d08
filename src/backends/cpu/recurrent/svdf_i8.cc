// TFLite's SVDF of 8-bit values: products with the feature weights enter a state of 16 bits, which the time weights
// weigh.
#include <algorithm>
#include <cstring>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/recurrent/svdf_i8.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "ops/common/fixed_point.h"
#include "ops/recurrent/recurrent.h"
#include "tensor/quant_params.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Sum of a[i] * b[i] modulo 2^32.
uint32_t dot_int16(const int16_t* a, const int16_t* b, int64_t n) {
  const hn::ScalableTag<int16_t> d;
  const hn::ScalableTag<int32_t> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(di), odd = hn::Zero(di);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    even = hn::ReorderWidenMulAccumulate(di, hn::LoadU(d, a + i), hn::LoadU(d, b + i), even, odd);
  auto sum = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(di, hn::Add(even, odd))));
  for (; i < n; ++i) sum += static_cast<uint32_t>(a[i] * b[i]);
  return sum;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct SvdfShape {
  int64_t batch = 0, features = 0, filters = 0, units = 0, memory = 0;
  int64_t state() const { return batch * filters * memory; }
};

struct SvdfKey {
  const void* weights;
  int64_t features, filters;
  const GemmI8* gemm;
  int32_t zero;
  auto operator<=>(const SvdfKey&) const = default;
};

class SvdfI8 final : public Kernel {
 public:
  SvdfI8(const SvdfShape& s, const KernelSpec& spec)
      : s_(s), gemm_(gemm_i8(spec.isa, true)), dot_(SMELT_FOR_LEVEL(spec.isa, dot_int16)) {
    const Quantization &x = *spec.inputs[0].quant, &y = *spec.outputs[0].quant, &state = *spec.inputs[4].quant;
    x_zero_ = x.zero_point();
    y_zero_ = y.zero_point();
    const float sx = x.scale(), sf = spec.inputs[1].quant->scale(), ss = state.scale(),
                st = spec.inputs[2].quant->scale(), sy = y.scale();
    first_ = fixed_factor(sx * sf / ss);
    second_ = fixed_factor(ss * st / sy);
    lda_ = gemm_.a_row_bytes(s.features);
    rows_bytes_ = padded_bytes(s.batch * lda_);
    has_bias_ = spec.has(3);
    const Tensor& weights = *spec.constant(1);
    const int32_t zero = GemmI8::int8_zero_point(true, x_zero_);
    packed_ = spec.packs.get(SvdfKey{weights.raw(), s.features, s.filters, &gemm_, zero}, [&] {
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(gemm_.packed_bytes(s.features, s.filters)));
      gemm_.pack(weights.data<int8_t>(), s.features, s.filters, nullptr, zero, packed->data<char>());
      return packed;
    });
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(rows_bytes_ + s_.state() * 2); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the state of a filter bank");
    const bool kept = ctx.wants(1);
    auto* state = kept ? ctx.output(1).data<int16_t>() : reinterpret_cast<int16_t*>(scratch + rows_bytes_);
    shift_state(ctx.input(4).data<int16_t>(), state);
    gemm_.convert(ctx.input(0).data<uint8_t>(), s_.features, s_.batch, s_.features, true, x_zero_, scratch, lda_);
    gemm_.run(s_.batch, s_.filters, s_.features, scratch, lda_, true, packed_->data<char>(), 0,
              gemm_.panels(s_.filters),
              [&](const int32_t* acc, int64_t row, int64_t rows, int64_t column, int64_t columns) {
                for (int64_t r = 0; r < rows; ++r, acc += gemm_.nr()) {
                  int16_t* newest = state + ((row + r) * s_.filters + column + 1) * s_.memory - 1;
                  for (int64_t j = 0; j < columns; ++j, newest += s_.memory)
                    *newest = static_cast<int16_t>(std::clamp(rescale_double(acc[j], first_), -32768, 32767));
                }
              });
    weigh(ctx, state);
    return Ok();
  }

 private:
  /// Every filter forgets its oldest value.
  void shift_state(const int16_t* from, int16_t* to) const {
    const int64_t n = s_.state();
    std::memcpy(to, from + 1, static_cast<size_t>(n - 1) * 2);
  }
  void weigh(KernelContext& ctx, const int16_t* state) const {
    const int64_t entries = s_.filters / s_.units * s_.memory;
    const auto* times = ctx.input(2).data<int16_t>();
    const int32_t* bias = has_bias_ ? ctx.input(3).data<int32_t>() : nullptr;
    auto* y = ctx.output(0).data<int8_t>();
    for (int64_t i = 0; i < s_.batch * s_.units; ++i) {
      const int64_t unit = i % s_.units;
      const uint32_t sum =
          dot_(times + unit * entries, state + i * entries, entries) + (bias ? static_cast<uint32_t>(bias[unit]) : 0);
      const int64_t v = int64_t{rescale_double(static_cast<int32_t>(sum), second_)} + y_zero_;
      y[i] = static_cast<int8_t>(std::clamp<int64_t>(v, -128, 127));
    }
  }

  SvdfShape s_;
  const GemmI8& gemm_;
  uint32_t (*dot_)(const int16_t*, const int16_t*, int64_t);
  FixedFactor first_, second_;
  int32_t x_zero_ = 0, y_zero_ = 0;
  int64_t lda_ = 0, rows_bytes_ = 0;
  bool has_bias_ = false;
  Packed packed_;
};

bool has_params(const ValueType& t, DType dtype) { return t.dtype == dtype && is_per_tensor(t.quant); }

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_svdf_i8(const KernelSpec& spec) {
  if (!spec.has(4) || !spec.constant(1)) return nullptr;
  const ValueType &x = spec.inputs[0], &features = spec.inputs[1], &times = spec.inputs[2], &state = spec.inputs[4];
  if (!has_params(x, DType::kI8) || !has_params(features, DType::kI8) || !has_params(times, DType::kI16) ||
      !has_params(state, DType::kI16) || !has_params(spec.outputs[0], DType::kI8))
    return nullptr;
  if (x.shape.rank() != 2 || features.shape.rank() != 2 || times.shape.rank() != 2) return nullptr;
  const int64_t rank = spec.attrs<TfSvdfAttrs>().rank;
  SvdfShape s;
  s.batch = x.shape[0];
  s.features = x.shape[1];
  s.filters = features.shape[0];
  s.memory = times.shape[1];
  if (rank < 1 || s.filters % rank != 0) return nullptr;
  s.units = s.filters / rank;
  if (s.batch < 1 || s.features < 1 || s.units < 1 || s.memory < 1) return nullptr;
  if (features.shape[1] != s.features || times.shape[0] != s.filters || state.shape.elements() != s.state())
    return nullptr;
  if (spec.has(3) && (spec.inputs[3].dtype != DType::kI32 || spec.inputs[3].shape.elements() != s.units))
    return nullptr;
  return std::make_unique<SvdfI8>(s, spec);
}

}  // namespace smelt
#endif
