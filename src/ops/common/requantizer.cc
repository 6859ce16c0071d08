#include "ops/common/requantizer.h"

#include <algorithm>
#include <cmath>

#include "tensor/numeric.h"

namespace smelt {

bool has_integer_quant_params(const Tensor& t, int axis) {
  if (!t.quant() || !is_integer(t.dtype())) return false;
  const Quantization& q = *t.quant();
  if (q.kind == Quantization::Kind::kPerTensor) return q.scales.size() == 1;
  return q.kind == Quantization::Kind::kPerAxis && (q.scales.size() == 1 || q.axis == axis);
}

template <class T>
void subtract_own_zero_points(const Tensor& t, T* values) {
  const Quantization& q = *t.quant();
  const int64_t n = t.elements();
  if (q.zero_points.empty()) return;
  if (q.zero_points.size() == 1 || q.scales.size() == 1) {
    const T zero = static_cast<T>(static_cast<int64_t>(q.zero_points[0]));
    for (int64_t i = 0; i < n; ++i) values[i] -= zero;
    return;
  }
  int64_t inner = 1;
  for (int i = q.axis + 1; i < t.rank(); ++i) inner *= t.dim(i);
  const auto extent = static_cast<int64_t>(q.zero_points.size());
  for (int64_t i = 0; i < n; ++i)
    values[i] -= static_cast<T>(static_cast<int64_t>(q.zero_points[static_cast<size_t>(i / inner % extent)]));
}
template void subtract_own_zero_points<uint32_t>(const Tensor&, uint32_t*);
template void subtract_own_zero_points<uint64_t>(const Tensor&, uint64_t*);

Status subtract_zero_points(const Tensor& zero_points, uint32_t* values, const Shape& shape, int axis) {
  const int64_t n = shape.elements(), count = zero_points.elements();
  if (count == 1) {
    const auto zero = static_cast<uint32_t>(get_int(zero_points, 0));
    for (int64_t i = 0; i < n; ++i) values[i] -= zero;
    return Ok();
  }
  if (axis < 0 || axis >= shape.rank() || count != shape[axis])
    return InvalidInput(count, " zero points given for ", shape.str(), ", 1 or one for each index of dimension ", axis,
                        " expected");
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  for (int64_t i = 0; i < n; ++i) values[i] -= static_cast<uint32_t>(get_int(zero_points, i / inner % count));
  return Ok();
}

namespace {

/// A bound of an activation as a quantized value of the output.
int64_t quantized_bound(float bound, float scale, int64_t zero, int64_t low, int64_t high, Rounding rounding) {
  const float q = bound / scale;
  if (std::isnan(q)) return zero;
  const double rounded = rounding == Rounding::kFloatHalfEven ? std::nearbyint(q) : std::round(q);
  const double with_zero = rounded + static_cast<double>(zero);
  return with_zero < static_cast<double>(low)    ? low
         : with_zero > static_cast<double>(high) ? high
                                                 : static_cast<int64_t>(with_zero);
}

/// True if an integer bias is in units of x * w. TFLite and XNNPACK require it; ONNX graphs may use other scales.
bool bias_in_accumulator_units(const Tensor& bias, const RescaleFactors& factors) {
  if (!bias.quant()) return true;
  const Quantization& q = *bias.quant();
  for (size_t i = 0; i < std::max(q.scales.size(), factors.size()); ++i) {
    const double want = factors.accumulator_scale(i % factors.size()), have = q.scales[i % q.scales.size()];
    if (std::fabs(have - want) > 0.01 * std::fabs(want)) return false;
  }
  return std::ranges::all_of(q.zero_points, [](int32_t z) { return z == 0; });
}

}  // namespace

[[gnu::cold]] Result<Requantizer> Requantizer::make_outline(const Tensor& x, const Tensor& w, const Tensor* bias,
                                                            const Tensor& out, int64_t channels,
                                                            const RescaleRule& rule) {
  Requantizer r;
  r.channels_ = channels;
  r.act_ = rule.act;
  r.rounding_ = rule.rounding;
  const Quantization &xq = *x.quant(), &wq = *w.quant();
  if (wq.scales.empty() || xq.scales.empty()) return InvalidInput("a quantized operand has no scale");
  if (wq.scales.size() > 1 && channels % static_cast<int64_t>(wq.scales.size()) != 0)
    return InvalidInput("there are ", wq.scales.size(), " scales for ", channels, " output channels");
  const bool wide_x = bit_width(x.dtype()) > 8;
  const bool fixed = rule.rounding != Rounding::kFloatHalfEven;
  r.wide_ = wide_x && !(fixed && bias && bias->dtype() == DType::kI32);
  r.real_ = !is_integer(out.dtype());
  r.unscaled_ = !r.real_ && !out.quant();
  r.low_ = r.real_ ? 0 : int_min(out.dtype());
  r.high_ = r.real_ ? 0 : int_max(out.dtype());
  if (bias) {
    const int64_t n = bias->elements();
    if (n != 1 && n != channels) return InvalidInput("bias has ", n, " elements, ", channels, " expected");
    r.real_bias_given_ =
        !is_integer(bias->dtype()) || !(fixed || bias_in_accumulator_units(*bias, RescaleFactors(xq, wq, 1, rule)));
  }
  if (r.real_ || r.unscaled_) return r;
  const Quantization& oq = *out.quant();
  if (oq.kind != Quantization::Kind::kPerTensor || oq.scales.size() != 1)
    return Unsupported("an output of this kind must be quantized per tensor");
  const float scale = oq.scales[0];
  r.out_scale_ = scale;
  r.zero_ = oq.zero_point();
  r.through_real_ = !clamps(rule.act) || r.real_bias_given_;
  const Bounds b = activation_bounds(rule.act);
  const int64_t low = r.low_, high = r.high_;
  r.low_ = quantized_bound(b.lo, scale, r.zero_, low, high, rule.rounding);
  r.high_ = quantized_bound(b.hi, scale, r.zero_, low, high, rule.rounding);
  return r;
}

[[gnu::cold]] Result<Requantizer> Requantizer::make(const Tensor& x, const Tensor& w, const Tensor* bias,
                                                    const Tensor& out, int64_t channels, const RescaleRule& rule) {
  SMELT_ASSIGN(Requantizer r, make_outline(x, w, bias, out, channels, rule));
  const RescaleFactors of(*x.quant(), *w.quant(), static_cast<float>(r.out_scale_), rule);
  const size_t count = of.size();
  for (size_t i = 0; i < count; ++i) r.accumulator_scales_.push_back(of.accumulator_scale(i));
  if (bias && !r.real_bias_given_) {
    r.bias_.resize(static_cast<size_t>(bias->elements()));
    to_ints(*bias, r.bias_.data());
  } else if (bias) {
    std::vector<float> real(static_cast<size_t>(bias->elements()));
    SMELT_TRY(real_values(*bias, real.data()));
    r.real_bias_.assign(real.begin(), real.end());
  }
  if (r.real_ || r.unscaled_) return r;
  for (size_t i = 0; i < count; ++i) {
    r.double_factors_.push_back(of.double_factor(i));
    r.fixed_.push_back(fixed_factor(of.double_factor(i)));
    r.factors_.push_back(of.factor(i));
  }
  return r;
}

template <class T>
int64_t Requantizer::biased(T accumulator, int64_t channel) const {
  if (!bias_.empty()) accumulator += static_cast<T>(bias_.size() == 1 ? bias_[0] : bias_[static_cast<size_t>(channel)]);
  return static_cast<std::make_signed_t<T>>(accumulator);
}

double Requantizer::real_value(int64_t accumulator, int64_t channel) const {
  double v =
      static_cast<double>(accumulator) * accumulator_scales_[static_cast<size_t>(channel) % accumulator_scales_.size()];
  if (!real_bias_.empty()) v += real_bias_[real_bias_.size() == 1 ? 0 : static_cast<size_t>(channel)];
  return v;
}

int64_t Requantizer::quantized_value(int64_t accumulator, int64_t channel) const {
  if (unscaled_) return accumulator;
  const size_t s = static_cast<size_t>(channel) % factors_.size();
  int64_t q;
  if (through_real_ || rounding_ == Rounding::kFloatHalfEven) {
    double scaled;
    if (through_real_)
      scaled = activate(act_, static_cast<float>(real_value(accumulator, channel))) / out_scale_;
    else if (wide_)
      scaled = static_cast<double>(accumulator) * static_cast<double>(factors_[s]);
    else
      scaled = static_cast<float>(accumulator) * factors_[s];
    if (std::isnan(scaled)) scaled = 0;
    q = static_cast<int64_t>(std::nearbyint(std::clamp(scaled, -1e12, 1e12)));
  } else if (rounding_ == Rounding::kDoubleHalfAway) {
    q = rescale_single(wide_ ? accumulator : static_cast<int32_t>(accumulator), double_factors_[s]);
  } else {
    q = wide_ ? rescale_wide(accumulator, fixed_[s]) : rescale_double(static_cast<int32_t>(accumulator), fixed_[s]);
  }
  return std::clamp(q + zero_, low_, std::max(low_, high_));
}

template <class T>
void Requantizer::to_real(const T* accumulators, int64_t rows, float* out) const {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < channels_; ++c, ++accumulators, ++out)
      *out = activate(act_, static_cast<float>(real_value(biased(*accumulators, c), c)));
}

template <class T>
void Requantizer::to_quantized(const T* accumulators, int64_t rows, uint64_t* out) const {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < channels_; ++c, ++accumulators, ++out)
      *out = static_cast<uint64_t>(quantized_value(biased(*accumulators, c), c));
}

#define SMELT_INSTANTIATE(T)                                              \
  template void Requantizer::to_real<T>(const T*, int64_t, float*) const; \
  template void Requantizer::to_quantized<T>(const T*, int64_t, uint64_t*) const;
SMELT_INSTANTIATE(uint32_t)
SMELT_INSTANTIATE(uint64_t)
#undef SMELT_INSTANTIATE

}  // namespace smelt
