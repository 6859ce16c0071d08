#include "backends/cpu/conv/im2col.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace smelt {

namespace {
template <class T>
inline T* fill_run(T* dst, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) dst[i] = value;
  return dst + n;
}
template <class T>
inline T* copy_run(T* dst, const T* src, int64_t n) {
  std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  return dst + n;
}
/// Copies in chunks of 16 bytes: reads and writes up to 15 bytes more. For runs too short for memcpy.
template <class T>
inline T* copy_short_run(T* dst, const T* src, int64_t n) {
  const auto* from = reinterpret_cast<const char*>(src);
  auto* to = reinterpret_cast<char*>(dst);
  for (int64_t bytes = n * static_cast<int64_t>(sizeof(T)); bytes > 0; bytes -= 16, from += 16, to += 16)
    std::memcpy(to, from, 16);
  return dst + n;
}
/// fill_run() in chunks of 16 bytes: writes up to 15 bytes more.
template <class T>
inline T* fill_short_run(T* dst, int64_t n, T value) {
  constexpr int64_t kElements = 16 / static_cast<int64_t>(sizeof(T));
  T chunk[kElements];
  std::fill_n(chunk, kElements, value);
  for (int64_t i = 0; i < n; i += kElements) std::memcpy(dst + i, chunk, 16);
  return dst + n;
}
/// A run of x between elements of padding, of all of which the first lies at dst. Writes up to 15 bytes more.
template <class T>
inline T* padded_run(T* dst, int64_t front, const T* from, int64_t n, int64_t behind, T fill, const T* x_end) {
  dst = fill_short_run(dst, front, fill);
  dst = from + n + kPatchSlack <= x_end ? copy_short_run(dst, from, n) : copy_run(dst, from, n);
  return fill_short_run(dst, behind, fill);
}
constexpr int64_t kShortRun = 128;  ///< bytes
constexpr int64_t kMostInnerPixels = 128;

/// Lines of a planar image of one group, as far as the windows of a row of output pixels see them, padding included: a
/// ring on the stack, where a line is brought when it is first asked for.
template <class T>
class PaddedLines {
 public:
  static constexpr int64_t kMostLines = 16;
  PaddedLines(const ConvShape& g, const T* x, T fill)
      : g_(g),
        x_(x),
        fill_(fill),
        lines_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((g.kernel[1] - 1) * g.dilation[1] + 1)))),
        pixels_((g.out[2] - 1) * g.stride[2] + g.kernel[2]),
        step_(pixels_ * g.c_in + kSlack) {}
  /// False if the stack does not hold them. Else begin() comes next.
  bool fit() const { return lines_ <= kMostLines && (lines_ + 1) * step_ <= kElements; }
  void begin() {
    std::fill_n(held_, lines_, int64_t{-1});
    std::fill_n(outside(), step_, fill_);
  }
  /// Line y, from the first column of the windows of the first output pixel on; kSlack elements behind it may be read.
  const T* line(int64_t y) {
    if (y < 0 || y >= g_.in[1]) return outside();
    const int64_t slot = y & (lines_ - 1);
    T* const to = data_ + slot * step_;
    if (held_[slot] != y) bring(y, to);
    held_[slot] = y;
    return to;
  }

 private:
  static constexpr int64_t kSlack = 16, kElements = 8192 / static_cast<int64_t>(sizeof(T));

  T* outside() { return data_ + lines_ * step_; }
  void bring(int64_t y, T* to) const {
    const int64_t c = g_.c_in, left = std::clamp<int64_t>(g_.pad[2], 0, pixels_);
    const int64_t skipped = std::max<int64_t>(-g_.pad[2], 0);
    const int64_t inside = std::clamp<int64_t>(g_.in[2] - skipped, 0, pixels_ - left);
    padded_run(to, left * c, x_ + (y * g_.in[2] + skipped) * c, inside * c, (pixels_ - left - inside) * c, fill_,
               x_ + g_.in_pixels() * c);
  }

  const ConvShape& g_;
  const T* x_;
  T fill_;
  int64_t lines_;  ///< a power of two, at least those under a window
  int64_t pixels_, step_;
  int64_t held_[kMostLines];
  T data_[kElements];
};

/// im2col_rows() of windows whose lines lie in PaddedLines. kBytes: the length of a line of a window in chunks of
/// copy_short_run(), or 0: any.
template <int64_t kBytes, class T>
void patches_of_lines(const ConvShape& g, PaddedLines<T>& lines, int64_t first, int64_t last, T* rows, int64_t stride) {
  const int64_t line = g.kernel[2] * g.c_in, step = g.stride[2] * g.c_in;
  const int64_t copied = kBytes ? kBytes / static_cast<int64_t>(sizeof(T)) : line;
  int64_t y0 = first / g.out[2] * g.stride[1] - g.pad[1], ox = first % g.out[2];
  for (int64_t n = 0; first < last; first += n, ox = 0, y0 += g.stride[1]) {
    n = std::min(last - first, g.out[2] - ox);
    const T* from[PaddedLines<T>::kMostLines];
    for (int64_t ky = 0; ky < g.kernel[1]; ++ky) from[ky] = lines.line(y0 + ky * g.dilation[1]) + ox * step;
    for (int64_t i = 0; i < n; ++i, rows += stride) {
      T* to = rows;
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky, to += line) copy_short_run(to, from[ky] + i * step, copied);
    }
  }
}

/// True if patches_of_elements() makes the patches: their lines are single elements inside the image's lines.
bool has_lines_of_one_element(const ConvShape& g) {
  return g.all_in() == 1 && g.kernel[2] == 1 && g.pad[2] == 0 && (g.out[2] - 1) * g.stride[2] < g.in[2];
}

/// im2col_rows() tap by tap for a stretch of output pixels, since a tap's elements lie side by side.
template <class T>
void patches_of_elements(const ConvShape& g, const T* x, int64_t first, int64_t last, T fill, T* rows, int64_t stride) {
  constexpr int64_t kStretch = 32;  // pixels, whose rows stay in the first cache
  for (int64_t n = 0; first < last; first += n, rows += n * stride) {
    const int64_t ox = first % g.out[2], oy = first / g.out[2] % g.out[1], oz = first / g.out[2] / g.out[1];
    n = std::min({last - first, g.out[2] - ox, kStretch});
    T* to = rows;
    for (int64_t kz = 0; kz < g.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky, ++to) {
        const int64_t z = oz * g.stride[0] - g.pad[0] + kz * g.dilation[0];
        const int64_t y = oy * g.stride[1] - g.pad[1] + ky * g.dilation[1];
        const bool inside = z >= 0 && z < g.in[0] && y >= 0 && y < g.in[1];
        const T* from = inside ? x + (z * g.in[1] + y) * g.in[2] + ox * g.stride[2] : &fill;
        const int64_t step = inside ? g.stride[2] : 0;
        for (int64_t i = 0; i < n; ++i) to[i * stride] = from[i * step];
      }
  }
}
}  // namespace

template <class T>
void im2col_rows(const ConvShape& g, const T* x, int64_t first, int64_t last, T fill, T* rows, int64_t row_stride) {
  if constexpr (sizeof(T) == 1)
    if (has_lines_of_one_element(g)) return patches_of_elements(g, x, first, last, fill, rows, row_stride);
  const int64_t pixel = g.all_in(), line = g.kernel[2] * g.c_in;
  const bool joined = g.dilation[2] == 1 && g.groups == 1;  // the taps of a line lie side by side
  const bool is_short = joined && line * static_cast<int64_t>(sizeof(T)) <= kShortRun;
  const bool few_channels = g.c_in * static_cast<int64_t>(sizeof(T)) <= 16;
  // Up to here short runs read nothing foreign, whatever group x is of.
  const T* const safe = x + g.in_pixels() * pixel - (pixel - g.c_in) - kPatchSlack;
  const int64_t image_line = g.in[2] * pixel;
  if (is_short && g.planar()) {
    if (PaddedLines<T> lines(g, x, fill); lines.fit()) {
      lines.begin();
      const bool one = line * static_cast<int64_t>(sizeof(T)) <= 16;
      return (one ? patches_of_lines<16, T> : patches_of_lines<0, T>)(g, lines, first, last, rows, row_stride);
    }
  }
  int64_t ox = first % g.out[2], oy = first / g.out[2] % g.out[1], oz = first / g.out[2] / g.out[1];
  const auto next = [&] {
    if (++ox < g.out[2]) return;
    ox = 0;
    if (++oy < g.out[1]) return;
    oy = 0;
    ++oz;
  };
  for (int64_t p = first; p < last; ++p, next()) {
    T* dst = rows + (p - first) * row_stride;
    const int64_t x0 = ox * g.stride[2] - g.pad[2];
    if (is_short && g.kernel[0] == 1 && g.in[0] == 1 && x0 >= 0 && x0 + g.kernel[2] <= g.in[2]) {
      const int64_t y0 = oy * g.stride[1] - g.pad[1], y1 = y0 + (g.kernel[1] - 1) * g.dilation[1];
      if (oz * g.stride[0] == g.pad[0] && y0 >= 0 && y1 < g.in[1] && x + y1 * image_line + x0 * pixel + line <= safe) {
        const T* src = x + y0 * image_line + x0 * pixel;  // a patch inside the image
        for (int64_t ky = 0; ky < g.kernel[1]; ++ky, src += g.dilation[1] * image_line)
          dst = copy_short_run(dst, src, line);
        continue;
      }
    }
    for (int64_t kz = 0; kz < g.kernel[0]; ++kz) {
      const int64_t z = oz * g.stride[0] - g.pad[0] + kz * g.dilation[0];
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky) {
        const int64_t y = oy * g.stride[1] - g.pad[1] + ky * g.dilation[1];
        if (z < 0 || z >= g.in[0] || y < 0 || y >= g.in[1]) {
          dst = is_short ? fill_short_run(dst, line, fill) : fill_run(dst, line, fill);
          continue;
        }
        const T* src = x + ((z * g.in[1] + y) * g.in[2]) * pixel;
        if (joined) {
          const int64_t begin = std::clamp<int64_t>(-x0, 0, g.kernel[2]);
          const int64_t end = std::clamp<int64_t>(g.in[2] - x0, begin, g.kernel[2]);
          if (is_short && src + (x0 + end) * pixel <= safe) {
            dst = fill_short_run(dst, begin * pixel, fill);
            dst = copy_short_run(dst, src + (x0 + begin) * pixel, (end - begin) * pixel);
            dst = fill_short_run(dst, (g.kernel[2] - end) * pixel, fill);
            continue;
          }
          dst = fill_run(dst, begin * pixel, fill);
          dst = copy_run(dst, src + (x0 + begin) * pixel, (end - begin) * pixel);
          dst = fill_run(dst, (g.kernel[2] - end) * pixel, fill);
          continue;
        }
        for (int64_t kx = 0; kx < g.kernel[2]; ++kx) {
          const int64_t at = x0 + kx * g.dilation[2];
          if (at < 0 || at >= g.in[2])
            dst = fill_run(dst, g.c_in, fill);
          else if (few_channels && src + at * pixel + g.c_in <= safe)
            dst = copy_short_run(dst, src + at * pixel, g.c_in);
          else
            dst = copy_run(dst, src + at * pixel, g.c_in);
        }
      }
    }
  }
}

template void im2col_rows<float>(const ConvShape&, const float*, int64_t, int64_t, float, float*, int64_t);
template void im2col_rows<uint8_t>(const ConvShape&, const uint8_t*, int64_t, int64_t, uint8_t, uint8_t*, int64_t);

int64_t column_stride(const ConvShape& g) { return g.stride[1] * g.kernel[2] * g.c_in; }

bool has_short_lines(const ConvShape& g) {
  constexpr int64_t kFewPixels = 4, kManyLines = 16, kShortLine = 16;  // elements
  return g.planar() && !g.pointwise() && g.groups == 1 && g.dilation[1] == 1 && g.dilation[2] == 1 &&
         g.stride[1] <= g.kernel[1] && g.out[2] < kFewPixels && g.out[1] >= kManyLines &&
         g.kernel[2] * g.c_in <= kShortLine;
}

template <class T>
void im2col_column(const ConvShape& g, const T* x, int64_t ox, T fill, T* rows) {
  const int64_t c = g.c_in, line = g.kernel[2] * c, x0 = ox * g.stride[2] - g.pad[2], step = g.in[2] * c;
  const int64_t begin = std::clamp<int64_t>(-x0, 0, g.kernel[2]), end = std::clamp(g.in[2] - x0, begin, g.kernel[2]);
  const int64_t lines = (g.out[1] - 1) * g.stride[1] + g.kernel[1], front = begin * c, copied = (end - begin) * c;
  const int64_t first = std::clamp<int64_t>(g.pad[1], 0, lines), last = std::clamp(g.in[1] + g.pad[1], first, lines);
  const T* const x_end = x + g.in_pixels() * c;
  const T* from = x + (first - g.pad[1]) * step + (x0 + begin) * c;
  rows = fill_short_run(rows, first * line, fill);
  for (int64_t i = first; i < last; ++i, from += step)
    rows = padded_run(rows, front, from, copied, line - front - copied, fill, x_end);
  fill_short_run(rows, (lines - last) * line, fill);
}

template void im2col_column<float>(const ConvShape&, const float*, int64_t, float, float*);
template void im2col_column<uint8_t>(const ConvShape&, const uint8_t*, int64_t, uint8_t, uint8_t*);

namespace {

/// im2col_panel() of windows that lie inside the image, pixel by pixel.
void panel_of_inner_pixels(const ConvShape& g, const float* x, int64_t first, int64_t n, int64_t width, float* dst) {
  int64_t starts[kMostInnerPixels];
  for (int64_t j = 0; j < n; ++j) {
    const int64_t p = first + j;
    const int64_t ox = p % g.out[2], oy = p / g.out[2] % g.out[1], oz = p / g.out[2] / g.out[1];
    starts[j] = (oz * g.stride[0] * g.in[1] + oy * g.stride[1]) * g.in[2] + ox * g.stride[2];
  }
  for (int64_t c = 0; c < g.c_in; ++c, x += g.in_pixels())
    for (int64_t kz = 0; kz < g.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < g.kernel[2]; ++kx, dst += width) {
          const float* tap = x + (kz * g.dilation[0] * g.in[1] + ky * g.dilation[1]) * g.in[2] + kx * g.dilation[2];
          for (int64_t j = 0; j < n; ++j) dst[j] = tap[starts[j]];
          fill_run(dst + n, width - n, 0.0f);
        }
}

bool windows_lie_inside(const ConvShape& g) {
  for (int d = 0; d < 3; ++d)
    if (g.pad[d] != 0 || (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] >= g.in[d]) return false;
  return true;
}

}  // namespace

void im2col_panel(const ConvShape& g, const float* x, int64_t first, int64_t last, int64_t width, float* dst) {
  constexpr int64_t kShortRow = 8;
  if (g.out[2] < kShortRow && last - first <= kMostInnerPixels && windows_lie_inside(g))
    return panel_of_inner_pixels(g, x, first, last - first, width, dst);
  const int64_t plane = g.in_pixels(), s = g.stride[2], ox0 = first % g.out[2];
  const int64_t oy0 = first / g.out[2] % g.out[1], oz0 = first / g.out[2] / g.out[1];
  const float* const safe = x + g.c_in * plane - kPatchSlack;  // up to here short runs read nothing foreign
  for (int64_t c = 0; c < g.c_in; ++c) {
    for (int64_t kz = 0; kz < g.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < g.kernel[2]; ++kx, dst += width) {
          float* out = dst;
          int64_t ox = ox0, oy = oy0, oz = oz0;
          for (int64_t left = last - first, n = 0; left > 0; left -= n) {  // stretches of rows of output pixels
            n = std::min(left, g.out[2] - ox);
            const int64_t z = oz * g.stride[0] - g.pad[0] + kz * g.dilation[0];
            const int64_t y = oy * g.stride[1] - g.pad[1] + ky * g.dilation[1];
            const int64_t at = ox * s - g.pad[2] + kx * g.dilation[2];
            ox = 0;
            if (++oy == g.out[1]) {
              oy = 0;
              ++oz;
            }
            if (z < 0 || z >= g.in[0] || y < 0 || y >= g.in[1]) {
              out = fill_short_run(out, n, 0.0f);
              continue;
            }
            const float* src = x + c * plane + (z * g.in[1] + y) * g.in[2];
            // Pixels j of the stretch with 0 <= at + j * s < in.
            const int64_t begin = std::min(n, at >= 0 ? 0 : (-at + s - 1) / s);
            const int64_t end = std::clamp<int64_t>(at >= g.in[2] ? 0 : (g.in[2] - at + s - 1) / s, begin, n);
            out = fill_short_run(out, begin, 0.0f);
            if (s > 1) {
              for (int64_t j = begin; j < end; ++j) *out++ = src[at + j * s];
            } else if (src + at + end <= safe) {
              out = copy_short_run(out, src + at + begin, end - begin);
            } else {
              out = copy_run(out, src + at + begin, end - begin);
            }
            out = fill_short_run(out, n - end, 0.0f);
          }
          fill_run(out, width - (last - first), 0.0f);
        }
  }
}

}  // namespace smelt
