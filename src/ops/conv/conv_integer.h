#pragma once

#include "ops/common/operands.h"
#include "ops/conv/geometry.h"

namespace smelt {

/// Accumulators of a convolution without bias, channels-last: [batch, out positions, out channels], in scratch memory.
/// Operands have the layouts of `a`; padding counts as zero. T: float, double, uint32_t, uint64_t (wrapping integers).
template <class T>
Result<T*> convolve(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, const T* x, const T* filter);

/// Accumulators of a transposed convolution; see convolve().
template <class T>
Result<T*> convolve_transposed(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, const T* x,
                               const T* filter);

/// Adds a bias of `channels` entries (nullptr: none) and applies the activation (real types only) to channels-last
/// accumulators.
template <class T>
void add_bias_activate(T* accumulators, int64_t positions, int64_t channels, const T* bias, const Activation& act);

/// Writes channels-last values into an output of the given layout.
template <class T>
Status store_image(KernelContext& ctx, const T* values, int64_t batch, int64_t positions, int64_t channels,
                   Layout layout, Tensor& out);

/// [batch, positions, channels] -> [batch, channels, positions].
template <class T>
void to_channels_first(const T* in, int64_t batch, int64_t positions, int64_t channels, T* out) {
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c) {
      const T* from = in + n * positions * channels + c;
      T* to = out + (n * channels + c) * positions;
      for (int64_t p = 0; p < positions; ++p) to[p] = from[p * channels];
    }
}
/// [batch, channels, positions] -> [batch, positions, channels].
template <class T>
void to_channels_last(const T* in, int64_t batch, int64_t positions, int64_t channels, T* out) {
  to_channels_first(in, batch, channels, positions, out);
}

}  // namespace smelt
