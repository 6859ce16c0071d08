#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "ops/pool/geometry.h"

namespace smelt {

/// Pooling as one of three spatial dimensions (missing ones in front are of size 1).
struct PoolShape {
  int64_t batch = 1, channels = 1;
  WindowDim dims[3];
  bool channels_last = false, maximum = false, count_padding = false;
  int64_t divisor = 0;  ///< 0: the elements of the window
  float lo = 0, hi = 0;

  int64_t in_pixels() const { return dims[0].in * dims[1].in * dims[2].in; }
  int64_t out_pixels() const { return dims[0].out * dims[1].out * dims[2].out; }
  bool bounded() const {
    return lo > -std::numeric_limits<float>::infinity() || hi < std::numeric_limits<float>::infinity();
  }
  int64_t taps() const { return dims[0].kernel * dims[1].kernel * dims[2].kernel; }
  /// True if the only window is the whole image.
  bool global() const {
    return std::ranges::all_of(dims, [](const WindowDim& d) {
      int64_t first, last;
      range(d, 0, first, last);
      return d.out == 1 && d.dilation == 1 && last - first == d.in;
    });
  }
  /// As channels-last: every plane of channels-first images is an image of one channel.
  PoolShape of_planes() const {
    PoolShape s = *this;
    if (channels_last) return s;
    s.batch *= channels;
    s.channels = 1;
    s.channels_last = true;
    return s;
  }

  /// nullopt: no window of up to three dimensions, or the positions of maxima are wanted and `indices` is not set, or
  /// the other way round.
  static std::optional<PoolShape> make(const KernelSpec& spec, bool indices = false) {
    const bool wanted = spec.node.outputs.size() > 1 && spec.node.outputs[1] != kNoValue;
    if (wanted != indices) return std::nullopt;
    const auto& attrs = spec.attrs<PoolAttrs>();
    if (attrs.kind == PoolKind::kLp || !clamps(attrs.act)) return std::nullopt;
    const auto g = pool_geometry(attrs, spec.inputs[0].shape);
    if (!g.ok() || g->window.rank > 3 || g->window.rank < 1 || g->output != spec.outputs[0].shape ||
        g->output.elements() == 0)
      return std::nullopt;
    PoolShape s;
    s.batch = g->batch;
    s.channels = g->channels;
    for (WindowDim& d : s.dims) d.in = d.out = 1;
    for (int i = 0; i < g->window.rank; ++i) s.dims[3 - g->window.rank + i] = g->window.dims[static_cast<size_t>(i)];
    s.channels_last = attrs.layout == Layout::kChannelsLast;
    s.maximum = attrs.kind == PoolKind::kMax;
    s.count_padding = attrs.count_include_pad;
    s.divisor = s.maximum ? 0 : attrs.divisor_override;
    if (s.taps() > (1 << 20) || s.taps() <= 0) return std::nullopt;
    for (const WindowDim& d : s.dims)  // every window has an element of the image
      for (int64_t o = 0; o < d.out; ++o) {
        int64_t first, last;
        s.range(d, o, first, last);
        if (first >= last) return std::nullopt;
      }
    const Bounds bounds = activation_bounds(attrs.act);
    s.lo = bounds.lo;
    s.hi = bounds.hi;
    return s;
  }

  /// Taps [first, last) of output o along d that lie in the image.
  static void range(const WindowDim& d, int64_t o, int64_t& first, int64_t& last) {
    const int64_t at = o * d.stride - d.pad_begin;
    const auto steps = [&](int64_t n) { return d.dilation == 1 ? n : (n + d.dilation - 1) / d.dilation; };
    first = std::min(d.kernel, at >= 0 ? 0 : steps(-at));
    last = at >= d.in ? first : std::clamp(steps(d.in - at), first, d.kernel);
  }
  /// The element of the image along d under tap k of output o.
  static int64_t at(const WindowDim& d, int64_t o, int64_t k) { return o * d.stride - d.pad_begin + k * d.dilation; }
  /// Outputs [first, second) along d whose windows lie in the image in full.
  static std::pair<int64_t, int64_t> inside(const WindowDim& d) {
    const int64_t first = std::min(d.out, (d.pad_begin + d.stride - 1) / d.stride);
    const int64_t reach = d.in + d.pad_begin - d.extent();
    return {first, std::clamp(reach < 0 ? 0 : reach / d.stride + 1, first, d.out)};
  }
  /// Taps of output o along d that count as elements of the padded image.
  static int64_t counted(const WindowDim& d, int64_t o) {
    const int64_t at = o * d.stride - d.pad_begin, end = d.in + std::max<int64_t>(d.pad_end, 0);
    return at >= end ? 0 : std::min((end - at + d.dilation - 1) / d.dilation, d.kernel);
  }
  /// What the sum over the window of an output is divided by.
  int64_t divisor_at(const int64_t out[3], int64_t inside) const {
    if (divisor) return divisor;
    if (!count_padding) return inside;
    const int64_t n = counted(dims[0], out[0]) * counted(dims[1], out[1]) * counted(dims[2], out[2]);
    return n ? n : 1;
  }
};

/// in_slots(), with scratch of its own for each: body(unit, scratch).
template <class F>
Status in_slots(KernelContext& ctx, int64_t threads, int64_t units, size_t bytes, F&& body) {
  auto* scratch = static_cast<char*>(ctx.scratch(static_cast<size_t>(threads) * bytes));
  if (!scratch) return Error(ErrorCode::kLimit, "no memory for pooling");
  in_slots(ctx.threads(), threads, units,
           [&](int64_t unit, int64_t slot) { body(unit, scratch + static_cast<size_t>(slot) * bytes); });
  return Ok();
}

inline size_t rounded(int64_t bytes) { return static_cast<size_t>(round_up(bytes, 64)); }

/// Calls body(flattened output pixel, position) for a line of output pixels: `line` counts depth and height.
template <class F>
void each_pixel(const PoolShape& s, int64_t line, F&& body) {
  int64_t out[3] = {line / s.dims[1].out, line % s.dims[1].out, 0};
  for (; out[2] < s.dims[2].out; ++out[2]) body(line * s.dims[2].out + out[2], out);
}

/// Pointers to the lines of an image, of `line` elements each, that lie under a window.
template <class T>
int64_t window_lines(const PoolShape& s, const T* image, int64_t line, const int64_t out[2], const T** taps) {
  int64_t first[2], last[2], count = 0;
  for (int i = 0; i < 2; ++i) PoolShape::range(s.dims[i], out[i], first[i], last[i]);
  for (int64_t z = first[0]; z < last[0]; ++z)
    for (int64_t y = first[1]; y < last[1]; ++y)
      taps[count++] =
          image + (PoolShape::at(s.dims[0], out[0], z) * s.dims[1].in + PoolShape::at(s.dims[1], out[1], y)) * line;
  return count;
}

/// Pointers to the channels of the pixels of a line that lie under the window of output pixel x.
template <class T>
int64_t line_pixels(const PoolShape& s, const T* line, int64_t x, const T** taps) {
  int64_t first, last, count = 0;
  PoolShape::range(s.dims[2], x, first, last);
  for (int64_t k = first; k < last; ++k) taps[count++] = line + PoolShape::at(s.dims[2], x, k) * s.channels;
  return count;
}

/// Pointers to the channels of the pixels under a window.
template <class T>
int64_t window_pixels(const PoolShape& s, const T* image, const int64_t out[3], const T** taps) {
  int64_t first[2], last[2], count = 0;
  for (int i = 0; i < 2; ++i) PoolShape::range(s.dims[i], out[i], first[i], last[i]);
  for (int64_t z = first[0]; z < last[0]; ++z)
    for (int64_t y = first[1]; y < last[1]; ++y) {
      const int64_t row = PoolShape::at(s.dims[0], out[0], z) * s.dims[1].in + PoolShape::at(s.dims[1], out[1], y);
      count += line_pixels(s, image + row * s.dims[2].in * s.channels, out[2], taps + count);
    }
  return count;
}

}  // namespace smelt
