#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "backends/cpu/conv/row_stage.h"
#include "backends/cpu/core/workspace.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// Writes pixels of a channels-last image side by side, the first from element `at` of the image on.
using LoadPixels = std::function<void(int64_t at, int64_t pixels, uint8_t* to)>;

/// The rows of a channels-last image of bytes that a convolution's windows cover, padding included, each in one chunk:
/// a ring in a thread's own memory, where a row is brought when it is first asked for. With `split` by the stride s the
/// pixels 0, s, 2s, ... of a row come first, then 1, s + 1, ..., so that neighbouring outputs read neighbouring pixels.
class LineBuffer {
 public:
  /// Copies n pixels of `channels` bytes that lie `step` apart side by side. Up to 63 bytes behind them may be
  /// overwritten.
  using Gather = void (*)(const uint8_t* from, int64_t n, int64_t step, int64_t channels, uint8_t* to);

  /// Without `gather` (then not split) bytes are taken as they are. inside: no row is asked for that the image lacks.
  LineBuffer(const ConvShape& g, bool split, Gather gather, bool inside = false)
      : g_(g), parts_(split ? g.stride[2] : 1), inside_(inside), gather_(gather) {
    const int64_t width = (g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1;
    pixels_ = (width + parts_ - 1) / parts_;
    const auto bytes = static_cast<__int128>(pixels_) * parts_ * g.all_in() + 64;
    bytes_ = bytes > kMost ? kMost + 1 : padded_bytes(static_cast<int64_t>(bytes));
    for (int d = 0; d < 2; ++d)
      lines_[d] = static_cast<int64_t>(
          std::bit_ceil(static_cast<uint64_t>(std::min((g.kernel[d] - 1) * g.dilation[d] + 1, kMost + 1))));
    tags_ = padded_bytes(lines_[0] * lines_[1] * 8);
  }
  /// True if a thread's memory is small enough to be worth it. Else nothing else may be asked for.
  bool small() const { return lines_[0] * lines_[1] <= kMost / bytes_; }
  /// Memory of a thread, aligned to 64 bytes.
  int64_t workspace_bytes() const { return outside_at() + outside_bytes(); }
  /// Forgets all rows, and makes a row of padding, which it returns, or a few bytes of it where all rows are inside.
  /// `zero` is what stands in it, after `gather`. Each thread has its own row: one that another thread writes again and
  /// again would be slow to read.
  const uint8_t* begin(uint8_t* workspace, uint8_t zero) const {
    clear(workspace);
    uint8_t* const outside = workspace + outside_at();
    std::memset(outside, zero, static_cast<size_t>(outside_bytes()));
    return outside;
  }

  /// What begin() returned.
  const uint8_t* outside(const uint8_t* workspace) const { return workspace + outside_at(); }

  /// Bytes from the start of a row to column kx of the window of the first output pixel.
  int64_t offset(int64_t kx) const {
    const int64_t at = kx * g_.dilation[2];
    return (at % parts_ * pixels_ + at / parts_) * g_.all_in();
  }
  /// Forgets all rows, before those of another image.
  void clear(uint8_t* workspace) const {
    std::fill_n(reinterpret_cast<int64_t*>(workspace), lines_[0] * lines_[1], int64_t{-1});
  }
  /// Row y of depth z of an image, between pixels of `outside`. load(at, pixels, to) writes pixels of the image side by
  /// side, the first from element `at` on, a stride apart where they are split. Precondition: the rows asked for since
  /// clear() lie in windows in order. Not split, only pixels [begin, end) of the row, padding included, are there.
  template <class Load>
  const uint8_t* row_from(Load&& load, const uint8_t* outside, int64_t z, int64_t y, uint8_t* workspace, int64_t begin,
                          int64_t end) const {
    if (z < 0 || z >= g_.in[0] || y < 0 || y >= g_.in[1]) return outside;
    const int64_t slot = (z & (lines_[0] - 1)) * lines_[1] + (y & (lines_[1] - 1)), line = z * g_.in[1] + y;
    uint8_t* to = workspace + tags_ + slot * bytes_;
    auto& tag = reinterpret_cast<int64_t*>(workspace)[slot];
    if (tag != line) fill(load, line * g_.in[2] * g_.all_in(), *outside, to, begin, end);
    tag = line;
    return to;
  }
  /// row_from() of rows of an image of bytes.
  const uint8_t* row(const ImageRows& x, const uint8_t* outside, int64_t z, int64_t y, uint8_t* workspace) const {
    const int64_t c = g_.all_in(), line = z * g_.in[1] + y;
    const int64_t shift = ((line - x.first) % x.held - line) * g_.in[2] * c;
    const auto load = [&](int64_t at, int64_t pixels, uint8_t* to) {
      const auto* from = reinterpret_cast<const uint8_t*>(x.data) + (at + shift);
      if (gather_)
        gather_(from, pixels, parts_ * c, c, to);
      else
        std::memcpy(to, from, static_cast<size_t>(pixels * c));
    };
    return row_from(load, outside, z, y, workspace, 0, pixels_);
  }

  /// Pixels [begin, end) of each part of a row whose first element of the image is `from`, padding included.
  template <class Load>
  void fill(Load&& load, int64_t from, uint8_t zero, uint8_t* to, int64_t begin, int64_t end) const {
    const int64_t c = g_.all_in();
    end = std::min(end, pixels_);
    for (int64_t part = 0; part < parts_; ++part, to += pixels_ * c) {
      // Pixel i of the part is pixel i * parts + part - pad of the image.
      const int64_t shift = part - g_.pad[2];
      const int64_t first = std::clamp<int64_t>(shift >= 0 ? 0 : (-shift + parts_ - 1) / parts_, begin, end);
      const int64_t last = shift >= g_.in[2] ? first : std::clamp((g_.in[2] - shift + parts_ - 1) / parts_, first, end);
      std::memset(to + begin * c, zero, static_cast<size_t>((first - begin) * c));
      load(from + (first * parts_ + shift) * c, last - first, to + first * c);
      std::memset(to + last * c, zero, static_cast<size_t>((end - last) * c));
    }
  }
  /// Lines [y, y + n) of a planar image, those in the padding too, each as fill() writes it, `step` bytes apart.
  /// Precondition: rows are of one part.
  template <class Load>
  void fill_lines(Load&& load, uint8_t zero, int64_t y, int64_t n, int64_t begin, int64_t end, int64_t step,
                  uint8_t* to) const {
    const int64_t c = g_.all_in();
    for (const int64_t behind = y + n; y < behind; ++y, to += step) {
      if (y < 0 || y >= g_.in[1])
        std::memset(to + begin * c, zero, static_cast<size_t>((end - begin) * c));
      else
        fill(load, y * g_.in[2] * c, zero, to, begin, end);
    }
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 22;  ///< bytes of a thread's rows

  int64_t outside_at() const { return tags_ + lines_[0] * lines_[1] * bytes_; }
  int64_t outside_bytes() const { return inside_ ? 64 : bytes_; }

  ConvShape g_;
  int64_t parts_, pixels_ = 0, bytes_ = 0, tags_ = 0;
  bool inside_;
  int64_t lines_[2] = {};  ///< extent of a window in depth and height: rows of the ring, powers of two
  Gather gather_;
};

}  // namespace smelt
