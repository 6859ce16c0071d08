// TensorFlow's AudioSpectrogram and Mfcc.
#include <bit>
#include <cmath>
#include <complex>
#include <vector>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/signal/fft.h"
#include "ops/signal/signal.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

Status need_f32(const ValueType& t, int rank, const char* what) {
  if (t.dtype != DType::kF32 && t.dtype != DType::kInvalid)
    return Unsupported(what, " are ", to_string(t.dtype), ", float32 expected");
  if (t.ranked && t.shape.rank() != rank)
    return InvalidModel(what, " have shape ", t.shape.str(), ", rank ", rank, " expected");
  return Ok();
}

int64_t fft_length(int64_t window) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(window))); }

double mel(double hertz) { return 1127 * std::log1p(hertz / 700); }

/// Triangular filters of equal width on the mel scale. A bin of the spectrum contributes to the filter whose centre is
/// below it, with `weight`, and to the next one with the rest.
class MelFilters {
 public:
  MelFilters(const MfccAttrs& a, int64_t bins, double rate) : channels_(a.channels), bins_(bins) {
    const double low = mel(a.lower), spacing = (mel(a.upper) - low) / static_cast<double>(a.channels + 1);
    const double hertz = 0.5 * rate / static_cast<double>(bins - 1);
    begin_ = static_cast<int64_t>(1.5 + a.lower / hertz);
    last_ = static_cast<int64_t>(std::min(a.upper / hertz, 1e15));
    int64_t next = 0;  // the first filter whose centre is not below the bin
    for (int64_t i = begin_; i <= last_ && i < bins; ++i) {
      const double at = mel(static_cast<double>(i) * hertz);
      const auto centre = [&](int64_t channel) { return low + spacing * static_cast<double>(channel + 1); };
      while (next < a.channels && centre(next) < at) ++next;
      const double below = next == 0 ? low : centre(next - 1);
      entries_.push_back({next - 1, (centre(next) - at) / (centre(next) - below)});
    }
  }
  /// Sums of the magnitudes under each filter; nothing when the band reaches beyond the spectrum.
  std::vector<double> apply(const float* squares) const {
    if (bins_ <= last_) return {};
    std::vector<double> out(static_cast<size_t>(channels_), 0);
    for (size_t k = 0; k < entries_.size(); ++k) {
      const auto& [below, weight] = entries_[k];
      const double magnitude = std::sqrt(static_cast<double>(squares[begin_ + static_cast<int64_t>(k)]));
      if (below >= 0) out[static_cast<size_t>(below)] += magnitude * weight;
      if (below + 1 < channels_) out[static_cast<size_t>(below + 1)] += magnitude - magnitude * weight;
    }
    return out;
  }

 private:
  struct Entry {
    int64_t below;  ///< -1: before the first filter's centre
    double weight;
  };
  int64_t channels_, bins_, begin_ = 0, last_ = 0;
  std::vector<Entry> entries_;  ///< of bins begin_, begin_ + 1, ...
};

}  // namespace

Status infer_Spectrogram(InferContext& ctx) {
  const auto& a = ctx.attrs<SpectrogramAttrs>();
  const ValueType& x = ctx.input(0);
  if (a.window < 2 || a.window > (1 << 30) || a.stride < 1)
    return InvalidModel("a window of ", a.window, " samples every ", a.stride);
  SMELT_TRY(need_f32(x, 2, "samples"));
  Shape y{-1, -1, fft_length(a.window) / 2 + 1};
  if (x.ranked) {
    y[0] = x.shape[1];
    if (x.shape[0] >= 0) y[1] = x.shape[0] < a.window ? 0 : 1 + (x.shape[0] - a.window) / a.stride;
  }
  ctx.set(0, ValueType::tensor(DType::kF32, y));
  return Ok();
}

Status reference_Spectrogram(KernelContext& ctx) {
  const auto& a = ctx.attrs<SpectrogramAttrs>();
  const float* x = ctx.input(0).data<float>();
  Tensor& y = ctx.output(0);
  const int64_t channels = y.dim(0), frames = y.dim(1), bins = y.dim(2);
  if (y.elements() == 0) return Ok();
  std::vector<double> window(static_cast<size_t>(a.window));
  for (size_t i = 0; i < window.size(); ++i)
    window[i] = 0.5 - 0.5 * std::cos(2 * M_PI * static_cast<double>(i) / static_cast<double>(a.window));
  std::vector<std::complex<double>> frame(static_cast<size_t>(fft_length(a.window)));
  float* to = y.data<float>();
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t f = 0; f < frames; ++f, to += bins) {
      SMELT_TRY(ctx.tick());
      std::fill(frame.begin(), frame.end(), 0);
      for (int64_t i = 0; i < a.window; ++i)
        frame[static_cast<size_t>(i)] =
            static_cast<double>(x[(f * a.stride + i) * channels + c]) * window[static_cast<size_t>(i)];
      fft(frame, false);
      for (int64_t i = 0; i < bins; ++i) {
        const auto square = static_cast<float>(std::norm(frame[static_cast<size_t>(i)]));
        to[i] = a.squared ? square : std::sqrt(square);
      }
    }
  return Ok();
}

Status infer_Mfcc(InferContext& ctx) {
  const auto& a = ctx.attrs<MfccAttrs>();
  const ValueType& x = ctx.input(0);
  constexpr int64_t kMost = 1 << 12;
  if (!(a.lower >= 0) || !(a.upper > a.lower)) return InvalidModel("a band from ", a.lower, " to ", a.upper, " hertz");
  if (a.channels < 1 || a.channels > kMost || a.coefficients < 1 || a.coefficients > a.channels)
    return InvalidModel(a.coefficients, " coefficients of ", a.channels, " filters, at most ", kMost, " are supported");
  SMELT_TRY(need_f32(x, 3, "magnitudes"));
  if (x.ranked && x.shape[2] >= 0 && x.shape[2] < 2) return InvalidModel("a spectrum of ", x.shape[2], " bins");
  ctx.set(0, ValueType::tensor(DType::kF32, x.ranked ? Shape{x.shape[0], x.shape[1], a.coefficients}
                                                     : Shape{-1, -1, a.coefficients}));
  return Ok();
}

Status reference_Mfcc(KernelContext& ctx) {
  const auto& a = ctx.attrs<MfccAttrs>();
  const Tensor &x = ctx.input(0), &rate = ctx.input(1);
  Tensor& y = ctx.output(0);
  if (rate.elements() != 1 || get_int(rate, 0) < 1)
    return InvalidInput("the sample rate is not one number of at least 1");
  const MelFilters filters(a, x.dim(2), static_cast<double>(get_int(rate, 0)));
  const auto channels = static_cast<double>(a.channels);
  std::vector<double> cosines;
  for (int64_t i = 0; i < a.coefficients; ++i)
    for (int64_t j = 0; j < a.channels; ++j)
      cosines.push_back(std::sqrt(2 / channels) *
                        std::cos(static_cast<double>(i) * M_PI / channels * (static_cast<double>(j) + 0.5)));
  const float* from = x.data<float>();
  float* to = y.data<float>();
  for (int64_t f = 0; f < x.dim(0) * x.dim(1); ++f, from += x.dim(2)) {
    SMELT_TRY(ctx.tick());
    std::vector<double> energies = filters.apply(from);
    for (double& e : energies) e = std::log(std::max(e, 1e-12));
    for (int64_t i = 0; i < a.coefficients; ++i) {
      double sum = 0;
      for (size_t j = 0; j < energies.size(); ++j)
        sum += cosines[static_cast<size_t>(i * a.channels) + j] * energies[j];
      *to++ = static_cast<float>(sum);
    }
  }
  return Ok();
}

}  // namespace smelt
