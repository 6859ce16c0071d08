#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "ops/common/quantized_pair.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

inline constexpr int64_t kSpreadRows = 56;  ///< input pixels that a transposed convolution multiplies at a time

/// Everything known, as three spatial dimensions (missing ones in front are of size 1).
struct Spread : ConvShape {
  int64_t filter_group = 0;  ///< stride of the filter from group to group

  int64_t columns() const { return taps() * c_out; }
  /// The most input lines that reach an output line.
  int64_t reaching_lines() const { return (kernel[1] - 1) * dilation[1] / stride[1] + 1; }

  static std::optional<Spread> make(const KernelSpec& spec);
  /// Position in the filter of group g's output channel o, input channel i, tap t.
  int64_t at(int64_t g, int64_t o, int64_t i, int64_t t) const {
    return g * filter_group + o * filter_o + i * filter_i + t * filter_s;
  }
  /// Adds `rows` rows of columns() products, the first of input pixel `first`, to an image at the group's first
  /// channel.
  template <class T>
  void add(const T* products, int64_t first, int64_t rows, T* image) const {
    const bool joined = dilation[2] == 1 && groups == 1;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t p = first + r, x = p % in[2] * stride[2] - pad[2];
      const int64_t y = p / in[2] % in[1] * stride[1] - pad[1], z = p / in[2] / in[1] * stride[0] - pad[0];
      const T* from = products + r * columns();
      for (int64_t kz = 0; kz < kernel[0]; ++kz)
        for (int64_t ky = 0; ky < kernel[1]; ++ky, from += kernel[2] * c_out) {
          const int64_t oz = z + kz * dilation[0], oy = y + ky * dilation[1];
          if (oz < 0 || oz >= out[0] || oy < 0 || oy >= out[1]) continue;
          T* line = image + (oz * out[1] + oy) * out[2] * all_out();
          if (joined) {
            const int64_t begin = std::clamp<int64_t>(-x, 0, kernel[2]);
            const int64_t end = std::clamp<int64_t>(out[2] - x, begin, kernel[2]);
            run(from + begin * c_out, (end - begin) * c_out, line + (x + begin) * c_out);
            continue;
          }
          for (int64_t kx = 0; kx < kernel[2]; ++kx) {
            const int64_t ox = x + kx * dilation[2];
            if (ox >= 0 && ox < out[2]) run(from + kx * c_out, c_out, line + ox * all_out());
          }
        }
    }
  }

 private:
  template <class T>
  static void run(const T* from, int64_t n, T* to) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  }
};

/// The weights of a constant filter of 8-bit integers, zero points subtracted.
class TapWeights {
 public:
  /// The operands must live as long.
  TapWeights(const Spread& s, const QuantizedPair& q, const Tensor& filter);
  /// Copies those of tap t between group g's input channels and its output channel o. W: int8_t (precondition: they
  /// fit) or int16_t.
  template <class W>
  void copy(int64_t g, int64_t o, int64_t t, W* to) const {
    const uint8_t* const from = bytes_ + s_.at(g, o, 0, t);
    if (sizeof(W) == 1 && as_they_lie_)
      std::memcpy(to, from, static_cast<size_t>(s_.c_in));
    else
      for (int64_t i = 0; i < s_.c_in; ++i) to[i] = static_cast<W>(q_.weight(from[i * s_.filter_i], g * s_.c_out + o));
  }

 private:
  const Spread& s_;
  const QuantizedPair& q_;
  const uint8_t* bytes_;
  bool as_they_lie_;  ///< int8 side by side, no zero points
};

/// A filter of 8-bit integers as [group][tap][output][input], zero points subtracted.
std::vector<int16_t> filter_by_taps(const Spread& s, const QuantizedPair& q, const Tensor& filter);

}  // namespace smelt
