#include "ops/softmax/softmax_quantized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/common/fixed_functions.h"
#include "ops/common/fixed_point.h"
#include "ops/common/lookup.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

constexpr int kDiffBits = 5, kSumBits = 12;

/// Differences to the largest value of a row, in Q5; below `smallest` their exponential counts as zero.
struct ScaledDiff {
  FixedFactor factor;
  int32_t smallest;
  ScaledDiff(double beta, double scale) {
    const double real = std::min(beta * scale * (1 << (31 - kDiffBits)), 2147483647.0);
    factor = fixed_factor(real);
    const int left = std::max(factor.shift, 0);
    smallest = -static_cast<int32_t>(
        std::floor(31.0 * (int64_t{1} << (31 - kDiffBits)) / static_cast<double>(int64_t{1} << left)));
  }
  int32_t operator()(int32_t diff) const { return rescale_double(diff, factor); }
};

std::vector<int32_t> load_row(const Tensor& x, const AxisView& v, int64_t start) {
  std::vector<int32_t> row(static_cast<size_t>(v.extent));
  for (int64_t k = 0; k < v.extent; ++k)
    row[static_cast<size_t>(k)] = static_cast<int32_t>(get_int(x, start + k * v.inner));
  const int32_t largest = row.empty() ? 0 : *std::max_element(row.begin(), row.end());
  for (int32_t& d : row) d -= largest;
  return row;
}

template <class F>
void each_group(const AxisView& v, F&& f) {
  for (int64_t o = 0; o < v.outer; ++o)
    for (int64_t i = 0; i < v.inner; ++i) f(o * v.extent * v.inner + i);
}

template <class In, class Out>
void softmax8_as(const Softmax8& rule, const AxisView& v, const Tensor& x, Tensor& y) {
  each_group(v, [&](int64_t start) { rule.group(x.data<In>() + start, v.extent, v.inner, y.data<Out>() + start); });
}

void softmax8(const SoftmaxAttrs& attrs, const AxisView& v, const Tensor& x, Tensor& y) {
  const Softmax8 rule(attrs.beta, x.quant()->scale());
  if (x.dtype() == DType::kU8)
    (y.dtype() == DType::kI16 ? softmax8_as<uint8_t, int16_t> : softmax8_as<uint8_t, uint8_t>)(rule, v, x, y);
  else
    (y.dtype() == DType::kI16 ? softmax8_as<int8_t, int16_t> : softmax8_as<int8_t, int8_t>)(rule, v, x, y);
}

void log_softmax8(const AxisView& v, const Tensor& x, Tensor& y) {
  const LogSoftmax8 rule(x.quant()->scale());
  const int64_t lo = int_min(y.dtype()), hi = int_max(y.dtype());
  each_group(v, [&](int64_t start) {
    const std::vector<int32_t> diffs = load_row(x, v, start);
    uint32_t sum = 0;
    for (int32_t d : diffs) sum += rule.parts[static_cast<size_t>(-d)];
    const int32_t log_sum = LogSoftmax8::log_of(sum), beyond = rule.beyond(log_sum);
    for (int64_t k = 0; k < v.extent; ++k) {
      const int32_t d = diffs[static_cast<size_t>(k)];
      int64_t r = lo;
      if (d > beyond) {
        const int32_t scaled = rule.diffs[static_cast<size_t>(-d)];
        r = std::clamp(rounding_divide_by_pot(scaled - log_sum, 31 - kDiffBits - 4) + hi, lo, hi);
      }
      set_int(y, start + k * v.inner, r);
    }
  });
}

void softmax16(const SoftmaxAttrs& attrs, const AxisView& v, const Tensor& x, Tensor& y) {
  const auto &exp_table = Softmax16::exps(), &inverse_table = Softmax16::inverses();
  const FixedFactor factor = Softmax16(attrs.beta, x.quant()->scale()).factor;
  std::vector<int16_t> exps(static_cast<size_t>(v.extent));
  each_group(v, [&](int64_t start) {
    const std::vector<int32_t> diffs = load_row(x, v, start);
    int32_t sum = 0;
    for (size_t k = 0; k < exps.size(); ++k) {
      const int64_t at = std::clamp<int64_t>(int64_t{rescale_double(diffs[k], factor)} + 32767, -32768, 32767);
      exps[k] = look_up(static_cast<int16_t>(at), exp_table);
      sum += exps[k];
    }
    const int zeros = std::countl_zero(static_cast<uint32_t>(std::max(sum, 1)));
    const auto shifted = static_cast<int32_t>(((int64_t{sum} << (zeros - 1)) + (1 << 13)) >> 14);
    const int32_t centred = std::clamp(shifted - ((1 << 15) + (1 << 16)), -32768, 32767);
    const int64_t inverse = look_up(static_cast<int16_t>(centred), inverse_table);
    const int right = 31 - zeros;
    const int64_t round = right > 0 ? int64_t{1} << (right - 1) : 0;
    for (size_t k = 0; k < exps.size(); ++k)
      set_int(y, start + static_cast<int64_t>(k) * v.inner,
              std::clamp<int64_t>((exps[k] * inverse + round) >> right, 0, 32767));
  });
}

}  // namespace

Softmax16::Softmax16(double beta, float scale)
    : factor(fixed_factor(static_cast<double>(scale * static_cast<float>(beta)) / (10.0 / 65535.0))) {}
const std::vector<int16_t>& Softmax16::exps() {
  static const auto table =
      word_table<double>(10.0 / 65535.0, 32767, 2.0 / 65535.0, 0, [](double t) { return std::exp(t); });
  return table;
}
const std::vector<int16_t>& Softmax16::inverses() {
  static const auto table =
      word_table<double>(1.0 / 65535.0, -32768, 2.0 / 65535.0, 0, [](double t) { return 1.0 / (1.0 + t); });
  return table;
}

Softmax8::Softmax8(double beta, float scale) {
  const ScaledDiff scaled(static_cast<double>(static_cast<float>(beta)), static_cast<double>(scale));
  for (int32_t d = 0; d < 256; ++d) {
    const auto i = static_cast<size_t>(d);
    exps_[i] = -d >= scaled.smallest ? fixed_exp_negative_q5(scaled(-d)) : kZero;
    parts_[i] = exps_[i] == kZero ? 0 : static_cast<uint32_t>(rounding_divide_by_pot(exps_[i], kSumBits));
  }
}

LogSoftmax8::LogSoftmax8(float scale) : parts(Softmax8(1, scale).parts()) {
  const ScaledDiff scaled(1.0, static_cast<double>(scale));
  for (int32_t d = 0; d < 256; ++d) diffs[static_cast<size_t>(d)] = scaled(-d);
  smallest = scaled.smallest - 1;
  const int left = std::max(scaled.factor.shift, 0);
  back = fixed_factor(static_cast<double>(int64_t{1} << (31 - left)) /
                      static_cast<double>(std::max(scaled.factor.multiplier, 1)));
}

int32_t LogSoftmax8::log_of(uint32_t sum) {
  return fixed_log_q12(static_cast<int32_t>(std::clamp<uint32_t>(sum, 1u << (31 - kSumBits), INT32_MAX)));
}

int32_t LogSoftmax8::beyond(int32_t log_sum) const {
  return std::max(smallest, rescale_double(static_cast<int32_t>(int64_t{log_sum} + INT32_MIN), back));
}

template <class In, class Out>
void Softmax8::group(const In* x, int64_t n, int64_t step, Out* y) const {
  int32_t largest = std::numeric_limits<In>::min();
  for (int64_t k = 0; k < n; ++k) largest = std::max<int32_t>(largest, x[k * step]);
  uint32_t sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += parts_[static_cast<size_t>(largest - x[k * step])];
  int bits = 0;
  const int32_t inverse = fixed_reciprocal(static_cast<int32_t>(std::min<uint32_t>(sum, INT32_MAX)), kSumBits, &bits);
  constexpr int64_t kLow = std::numeric_limits<Out>::min(), kHigh = std::numeric_limits<Out>::max();
  const int exponent = std::clamp(bits + 31 - static_cast<int>(sizeof(Out) * 8), 0, 31);
  for (int64_t k = 0; k < n; ++k) {
    const int32_t e = exps_[static_cast<size_t>(largest - x[k * step])];
    const int64_t r =
        e == kZero ? kLow : rounding_divide_by_pot(rounding_doubling_high_mul(inverse, e), exponent) + kLow;
    y[k * step] = static_cast<Out>(std::min(r, kHigh));
  }
}
template void Softmax8::group(const int8_t*, int64_t, int64_t, int8_t*) const;
template void Softmax8::group(const int8_t*, int64_t, int64_t, int16_t*) const;
template void Softmax8::group(const uint8_t*, int64_t, int64_t, uint8_t*) const;
template void Softmax8::group(const uint8_t*, int64_t, int64_t, int16_t*) const;

namespace {
bool in_fixed_point(const SoftmaxAttrs& attrs, SoftmaxAttrs::Kind kind, const ValueType& x, const ValueType& y) {
  return (x.dtype == DType::kI8 || x.dtype == DType::kU8) && is_per_tensor(x.quant) && y.quant && attrs.kind == kind &&
         attrs.rounding != Rounding::kFloatHalfEven && !attrs.flatten && x.shape.rank() > 0;
}
}  // namespace

bool is_softmax8(const SoftmaxAttrs& attrs, const ValueType& x, const ValueType& y) {
  return in_fixed_point(attrs, SoftmaxAttrs::Kind::kSoftmax, x, y);
}

bool is_log_softmax8(const SoftmaxAttrs& attrs, const ValueType& x, const ValueType& y) {
  return in_fixed_point(attrs, SoftmaxAttrs::Kind::kLogSoftmax, x, y) && x.dtype == y.dtype;
}

bool softmax_fixed(const SoftmaxAttrs& attrs, const AxisView& view, const Tensor& x, Tensor& y) {
  const DType in = x.dtype(), out = y.dtype();
  const bool narrow = in == DType::kI8 || in == DType::kU8;
  if (x.quant()->scales.size() != 1) return false;
  if (attrs.kind == SoftmaxAttrs::Kind::kSoftmax) {
    if (narrow && (out == in || out == DType::kI16)) {
      softmax8(attrs, view, x, y);
      return true;
    }
    if (in == DType::kI16 && out == DType::kI16) {
      softmax16(attrs, view, x, y);
      return true;
    }
  }
  if (attrs.kind == SoftmaxAttrs::Kind::kLogSoftmax && narrow && out == in) {
    log_softmax8(view, x, y);
    return true;
  }
  return false;
}

}  // namespace smelt
