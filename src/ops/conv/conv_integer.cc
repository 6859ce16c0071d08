#include "ops/conv/conv_integer.h"

#include <algorithm>
#include <cstring>

#include "ops/common/activated.h"
#include "ops/common/gemm.h"

namespace smelt {
namespace {

/// Channels-last image of x, copied only when it is not already.
template <class T>
Result<const T*> channels_last(KernelContext& ctx, const ConvGeometry& g, Layout layout, const T* x) {
  const int64_t positions = g.window.in_positions();
  if (layout == Layout::kChannelsLast || positions == 1 || g.in_channels == 1) return x;
  SMELT_ASSIGN(T* const copy, scratch_array<T>(ctx, g.batch * positions * g.in_channels));
  to_channels_last(x, g.batch, positions, g.in_channels, copy);
  return static_cast<const T*>(copy);
}

/// Strides of a filter by role, in elements.
struct FilterStrides {
  int64_t output = 0, input = 0, tap = 0;  ///< spatial dimensions are adjacent: one stride for the flattened taps
};

FilterStrides filter_strides(FilterLayout layout, int64_t out, int64_t in, int64_t taps) {
  switch (layout) {
    case FilterLayout::kOSI:
      return {taps * in, 1, in};
    case FilterLayout::kISO:
      return {1, taps * out, out};
    case FilterLayout::kSIO:
      return {1, out, in * out};
    case FilterLayout::kSOI:
      return {in, 1, in * out};
    case FilterLayout::kIOS:
      return {taps, out * taps, 1};
    default:
      return {in * taps, taps, 1};
  }
}

/// Start of an odometer over spatial positions.
struct Position {
  std::array<int64_t, Shape::kMaxRank> at{};
  void set(const Window& w, int64_t index, int64_t WindowDim::*size) {
    for (int i = w.rank - 1; i >= 0; --i) {
      const int64_t n = w.dims[static_cast<size_t>(i)].*size;
      at[static_cast<size_t>(i)] = index % n;
      index /= n;
    }
  }
  void next(const Window& w, int64_t WindowDim::*size) {
    for (int i = w.rank - 1; i >= 0; --i) {
      if (++at[static_cast<size_t>(i)] < w.dims[static_cast<size_t>(i)].*size) return;
      at[static_cast<size_t>(i)] = 0;
    }
  }
};

/// Flattened input position of tap `tap` of the window at `out`, or -1 in the padding.
int64_t tapped(const Window& w, const Position& out, const Position& tap) {
  int64_t index = 0;
  for (int i = 0; i < w.rank; ++i) {
    const auto d = static_cast<size_t>(i);
    const WindowDim& dim = w.dims[d];
    const int64_t p = out.at[d] * dim.stride - dim.pad_begin + tap.at[d] * dim.dilation;
    if (p < 0 || p >= dim.in) return -1;
    index = index * dim.in + p;
  }
  return index;
}

/// Index of every tap of the window at one output position.
void tap_indices(const Window& w, const Position& out, int64_t taps, int64_t* indices) {
  Position tap;
  for (int64_t t = 0; t < taps; ++t, tap.next(w, &WindowDim::kernel)) indices[t] = tapped(w, out, tap);
}

constexpr int64_t kPatchRows = 32;

/// Groups of one input channel each: every tap scales whole rows of channels.
template <class T>
void depthwise_rows(const ConvGeometry& g, const T* image, const T* packed, int64_t begin, int64_t end,
                    int64_t* indices, T* accumulators) {
  const Window& w = g.window;
  const int64_t taps = w.taps(), channels = g.in_channels, multiplier = g.group_out(), out = g.out_channels;
  Position p;
  p.set(w, begin, &WindowDim::out);
  for (int64_t o = begin; o < end; ++o, p.next(w, &WindowDim::out)) {
    tap_indices(w, p, taps, indices);
    T* acc = accumulators + o * out;
    for (int64_t t = 0; t < taps; ++t) {
      if (indices[t] < 0) continue;
      const T* x = image + indices[t] * channels;
      const T* f = packed + t * out;
      if (multiplier == 1) {
        for (int64_t c = 0; c < channels; ++c) acc[c] += x[c] * f[c];
      } else {
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t m = 0; m < multiplier; ++m) acc[c * multiplier + m] += x[c] * f[c * multiplier + m];
      }
    }
  }
}

/// General groups: patches of a few output positions times the group's filter matrix.
template <class T>
void patch_rows(const ConvGeometry& g, const T* image, const T* packed, int64_t begin, int64_t end, int64_t* indices,
                T* patch, T* accumulators) {
  const Window& w = g.window;
  const int64_t taps = w.taps(), in = g.group_in(), out = g.group_out(), depth = taps * in;
  for (int64_t first = begin; first < end; first += kPatchRows) {
    const int64_t rows = std::min(kPatchRows, end - first);
    Position p;
    p.set(w, first, &WindowDim::out);
    for (int64_t r = 0; r < rows; ++r, p.next(w, &WindowDim::out)) tap_indices(w, p, taps, indices + r * taps);
    for (int64_t group = 0; group < g.groups; ++group) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t t = 0; t < taps; ++t) {
          T* to = patch + r * depth + t * in;
          const int64_t index = indices[r * taps + t];
          if (index < 0)
            std::fill_n(to, in, T{});
          else
            std::copy_n(image + index * g.in_channels + group * in, in, to);
        }
      gemm_accumulate(rows, out, depth, patch, depth, packed + group * depth * out, out,
                      accumulators + first * g.out_channels + group * out, g.out_channels);
    }
  }
}

}  // namespace

template <class T>
Result<T*> convolve(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, const T* x, const T* filter) {
  const int64_t taps = g.window.taps(), in = g.group_in(), out = g.group_out(), depth = taps * in;
  const int64_t in_positions = g.window.in_positions(), out_positions = g.window.out_positions();
  SMELT_ASSIGN(T* const accumulators, scratch_array<T>(ctx, g.batch * out_positions * g.out_channels));
  std::fill_n(accumulators, g.batch * out_positions * g.out_channels, T{});
  if (g.batch * out_positions * g.out_channels == 0) return accumulators;
  SMELT_ASSIGN(const T* const image, channels_last(ctx, g, a.layout, x));
  const bool depthwise = in == 1 && g.groups > 1;
  // Packed filter: [groups, taps, in, out], or for depthwise [taps, all out channels].
  SMELT_ASSIGN(T* const packed, scratch_array<T>(ctx, g.groups * depth * out));
  const FilterStrides s = filter_strides(a.filter, g.out_channels, in, taps);
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t i = 0; i < in; ++i) {
        const T* from = filter + group * out * s.output + i * s.input + t * s.tap;
        T* to = depthwise ? packed + t * g.out_channels + group * out : packed + (group * depth + t * in + i) * out;
        for (int64_t o = 0; o < out; ++o) to[o] = from[o * s.output];
      }
  const int64_t tasks = std::max(1, ctx.threads().threads());
  SMELT_ASSIGN(int64_t* const indices, scratch_array<int64_t>(ctx, tasks * kPatchRows * taps));
  T* patch = nullptr;
  if (!depthwise) {
    SMELT_ASSIGN(patch, scratch_array<T>(ctx, tasks * kPatchRows * depth));
  }
  for (int64_t n = 0; n < g.batch; ++n) {
    SMELT_TRY(ctx.tick());
    const T* one = image + n * in_positions * g.in_channels;
    T* result = accumulators + n * out_positions * g.out_channels;
    ctx.threads().parallel_for(tasks, 1, [&](int64_t b, int64_t e) {
      for (int64_t task = b; task < e; ++task) {
        const int64_t begin = out_positions * task / tasks, end = out_positions * (task + 1) / tasks;
        int64_t* my_indices = indices + task * kPatchRows * taps;
        if (depthwise)
          depthwise_rows(g, one, packed, begin, end, my_indices, result);
        else
          patch_rows(g, one, packed, begin, end, my_indices, patch + task * kPatchRows * depth, result);
      }
    });
  }
  return accumulators;
}

template <class T>
Result<T*> convolve_transposed(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, const T* x,
                               const T* filter) {
  const Window& w = g.window;
  const int64_t taps = w.taps(), in = g.group_in(), out = g.group_out();
  const int64_t in_positions = w.in_positions(), out_positions = w.out_positions();
  SMELT_ASSIGN(T* const accumulators, scratch_array<T>(ctx, g.batch * out_positions * g.out_channels));
  std::fill_n(accumulators, g.batch * out_positions * g.out_channels, T{});
  if (g.batch * out_positions * g.out_channels == 0) return accumulators;
  SMELT_ASSIGN(const T* const image, channels_last(ctx, g, a.layout, x));
  // Packed filter: [groups, in, taps, out].
  SMELT_ASSIGN(T* const packed, scratch_array<T>(ctx, g.groups * in * taps * out));
  const bool inputs_first = a.filter == FilterLayout::kIOS;  // all inputs, outputs of one group
  const FilterStrides s =
      filter_strides(a.filter, inputs_first ? out : g.out_channels, inputs_first ? g.in_channels : in, taps);
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t i = 0; i < in; ++i)
      for (int64_t t = 0; t < taps; ++t) {
        const T* from =
            filter + (inputs_first ? group * in * s.input : group * out * s.output) + i * s.input + t * s.tap;
        T* to = packed + ((group * in + i) * taps + t) * out;
        for (int64_t o = 0; o < out; ++o) to[o] = from[o * s.output];
      }
  SMELT_ASSIGN(T* const spread, scratch_array<T>(ctx, kPatchRows * taps * out));
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t group = 0; group < g.groups; ++group) {
      SMELT_TRY(ctx.tick());
      for (int64_t first = 0; first < in_positions; first += kPatchRows) {
        const int64_t rows = std::min(kPatchRows, in_positions - first);
        std::fill_n(spread, rows * taps * out, T{});
        gemm_accumulate(rows, taps * out, in, image + (n * in_positions + first) * g.in_channels + group * in,
                        g.in_channels, packed + group * in * taps * out, taps * out, spread, taps * out);
        Position p;
        p.set(w, first, &WindowDim::in);
        for (int64_t r = 0; r < rows; ++r, p.next(w, &WindowDim::in)) {
          Position tap;
          for (int64_t t = 0; t < taps; ++t, tap.next(w, &WindowDim::kernel)) {
            int64_t index = 0;
            for (int i = 0; i < w.rank && index >= 0; ++i) {
              const auto d = static_cast<size_t>(i);
              const int64_t at = p.at[d] * w.dims[d].stride - w.dims[d].pad_begin + tap.at[d] * w.dims[d].dilation;
              index = at < 0 || at >= w.dims[d].out ? -1 : index * w.dims[d].out + at;
            }
            if (index < 0) continue;
            const T* from = spread + (r * taps + t) * out;
            T* to = accumulators + (n * out_positions + index) * g.out_channels + group * out;
            for (int64_t o = 0; o < out; ++o) to[o] += from[o];
          }
        }
      }
    }
  return accumulators;
}

template <class T>
void add_bias_activate(T* accumulators, int64_t positions, int64_t channels, const T* bias, const Activation& act) {
  for (int64_t p = 0; p < positions; ++p) {
    T* row = accumulators + p * channels;
    if (bias)
      for (int64_t c = 0; c < channels; ++c) row[c] += bias[c];
    if constexpr (std::is_floating_point_v<T>) {
      activate_all(act, channels, row);
    } else if (act.kind == ActKind::kRelu) {
      for (int64_t c = 0; c < channels; ++c)
        if (static_cast<std::make_signed_t<T>>(row[c]) < 0) row[c] = 0;
    }
  }
}

template <class T>
Status store_image(KernelContext& ctx, const T* values, int64_t batch, int64_t positions, int64_t channels,
                   Layout layout, Tensor& out) {
  if (layout == Layout::kChannelsFirst && positions > 1 && channels > 1) {
    SMELT_ASSIGN(T* const turned, scratch_array<T>(ctx, batch * positions * channels));
    to_channels_first(values, batch, positions, channels, turned);
    values = turned;
  }
  store(values, out);
  return Ok();
}

#define SMELT_INSTANTIATE(T)                                                                                  \
  template Result<T*> convolve<T>(KernelContext&, const ConvGeometry&, const ConvAttrs&, const T*, const T*); \
  template Result<T*> convolve_transposed<T>(KernelContext&, const ConvGeometry&, const ConvAttrs&, const T*, \
                                             const T*);                                                       \
  template void add_bias_activate<T>(T*, int64_t, int64_t, const T*, const Activation&);
SMELT_INSTANTIATE(float)
SMELT_INSTANTIATE(double)
SMELT_INSTANTIATE(uint32_t)
SMELT_INSTANTIATE(uint64_t)
#undef SMELT_INSTANTIATE
template Status store_image<float>(KernelContext&, const float*, int64_t, int64_t, int64_t, Layout, Tensor&);
template Status store_image<double>(KernelContext&, const double*, int64_t, int64_t, int64_t, Layout, Tensor&);
template Status store_image<uint64_t>(KernelContext&, const uint64_t*, int64_t, int64_t, int64_t, Layout, Tensor&);

}  // namespace smelt
