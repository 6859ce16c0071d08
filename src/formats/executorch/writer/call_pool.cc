// Pooling as ATen calls on contiguous tensors with channels first.
#include <algorithm>
#include <cmath>

#include "formats/executorch/writer/call_writer.h"
#include "ops/common/quantized_pair.h"
#include "ops/pool/geometry.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

/// A pool over the whole image: a reduction with kept dimensions.
bool global_pool(CallWriter& w, const PoolAttrs& a) {
  const int rank = w.rank(0);
  if (rank < 3) return false;
  std::vector<int64_t> axes;
  for (int d = 1; d + 1 < rank; ++d) axes.push_back(a.layout == Layout::kChannelsFirst ? d + 1 : d);
  if (a.kind == PoolKind::kLp) {
    const int x = w.real(0), size = w.unary("abs", x);
    if (a.mean_square) return false;
    const auto pow = [&](int v, double to) { return w.binary("pow", v, w.number_like(v, to), "Tensor_Tensor_out"); };
    return w.out(0, pow(w.reduce("sum", pow(size, a.p), axes, true), 1 / a.p));
  }
  return w.out(0, w.reduce(a.kind == PoolKind::kMax ? "amax" : "mean", w.real(0), axes, true));
}

/// True if PyTorch's own padding gives the window: symmetric, at most half of it, no window that begins in what
/// rounding up adds.
bool own_window(const PoolAttrs& a, const Window& window) {
  if (window.rank > 2 || a.kind == PoolKind::kLp) return false;
  for (int i = 0; i < window.rank; ++i) {
    const WindowDim& d = window.dims[static_cast<size_t>(i)];
    const int64_t reach = d.in + 2 * d.pad_begin - ((d.kernel - 1) * d.dilation + 1);
    if (d.pad_begin < 0 || d.pad_begin != d.pad_end || 2 * d.pad_begin > d.kernel || d.out != reach / d.stride + 1)
      return false;
    if (a.kind == PoolKind::kAverage && d.dilation != 1) return false;
  }
  return true;
}

/// One call over the last two dimensions: largest elements and their places in the plane, means (`divisor` 0), or sums
/// divided by `divisor`. `padding`: the windows begin in PyTorch's own padding.
int pooled(CallWriter& w, const PoolAttrs& a, int x, const Window& window, bool padding, int64_t divisor,
           const Shape& result, int* places = nullptr) {
  PlanWriter& p = w.plan();
  std::vector<int64_t> kernel, strides, pads, dilations;
  for (int i = std::max(0, window.rank - 2); i < window.rank; ++i) {
    const WindowDim& d = window.dims[static_cast<size_t>(i)];
    kernel.push_back(d.kernel);
    strides.push_back(d.stride);
    pads.push_back(padding ? d.pad_begin : 0);
    dilations.push_back(d.dilation);
  }
  if (window.rank == 1) {
    for (auto* list : {&kernel, &strides, &dilations}) list->insert(list->begin(), 1);
    pads.insert(pads.begin(), 0);
  }
  const int size = p.integers(kernel), stride = p.integers(strides), pad = p.integers(pads);
  const int ceil = p.boolean(false);
  if (a.kind == PoolKind::kMax) {
    const int y = p.add_tensor(w.dtype(x), result), at = p.add_tensor(DType::kI64, result);
    p.call_to("aten::max_pool2d_with_indices", "out", {x, size, stride, pad, p.integers(dilations), ceil}, {y, at});
    if (places) *places = at;
    return y;
  }
  if (std::ranges::all_of(dilations, [](int64_t d) { return d == 1; })) {
    const int count = p.boolean(a.count_include_pad), by = divisor ? p.integer(divisor) : p.null();
    return p.call("aten::avg_pool2d", "out", {x, size, stride, pad, ceil, count, by}, w.dtype(x), result);
  }
  // Sums over dilated windows: a convolution of each channel with ones.
  const int64_t channels = w.shape(x)[1];
  Tensor ones(w.dtype(x), Shape{channels, 1, kernel[0], kernel[1]});
  for (int64_t i = 0; i < ones.elements(); ++i) set_double(ones, i, 1);
  const int filter = p.constant(ones), dilation = p.integers(dilations), no = p.boolean(false);
  const int extra = p.integers({0, 0}), groups = p.integer(channels);
  return p.call("aten::convolution", "out", {x, filter, p.null(), stride, pad, dilation, no, extra, groups}, w.dtype(x),
                result);
}

/// How many taps of each window count, [1, 1, out...].
Tensor tap_counts(const PoolAttrs& a, const Window& window, DType dtype) {
  Shape shape{1, 1};
  for (int i = 0; i < window.rank; ++i) shape.push_back(window.dims[static_cast<size_t>(i)].out);
  Tensor counts(dtype, shape);
  for (int64_t at = 0; at < counts.elements(); ++at) {
    int64_t rest = at, count = 1;
    for (int i = window.rank - 1; i >= 0; --i) {
      const WindowDim& d = window.dims[static_cast<size_t>(i)];
      const int64_t first = rest % d.out * d.stride - d.pad_begin;
      rest /= d.out;
      int64_t taps = 0;
      for (int64_t k = 0; k < d.kernel; ++k) {
        const int64_t place = first + k * d.dilation;
        taps += a.count_include_pad ? place < d.in + std::max<int64_t>(d.pad_end, 0) : place >= 0 && place < d.in;
      }
      count *= taps;
    }
    set_double(counts, at, static_cast<double>(a.divisor_override ? a.divisor_override : std::max<int64_t>(count, 1)));
  }
  return counts;
}

/// The image with what the windows reach beyond it.
int bordered(CallWriter& w, int x, const Window& window, double value) {
  std::vector<int64_t> list;
  Shape s = w.shape(x);
  for (int i = window.rank - 1; i >= 0; --i) {
    const WindowDim& d = window.dims[static_cast<size_t>(i)];
    const int64_t end = (d.out - 1) * d.stride + (d.kernel - 1) * d.dilation + 1 - d.in - d.pad_begin;
    list.push_back(d.pad_begin);
    list.push_back(std::max<int64_t>(end, 0));
    s[i + 2] += d.pad_begin + std::max<int64_t>(end, 0);
  }
  if (std::ranges::all_of(list, [](int64_t n) { return n == 0; })) return x;
  const int widths = w.plan().integers(list), fill = w.plan().real(value);
  return w.plan().call("aten::constant_pad_nd", "out", {x, widths, fill}, w.dtype(x), s);
}

/// Windows of any padding, dilation and p-norm over one to three dimensions: a border of the neutral element, calls for
/// two dimensions each, and a division by the number of taps.
int pool_by_frames(CallWriter& w, const PoolAttrs& a, int x, const Window& window) {
  PlanWriter& p = w.plan();
  const bool max = a.kind == PoolKind::kMax;
  if (a.kind == PoolKind::kLp) {
    if (a.mean_square || a.p == 2)
      x = w.mul(x, x);
    else if (a.p == 1)
      x = w.unary("abs", x);
    else
      x = w.binary("pow", {w.unary("abs", x), w.number_like(x, a.p)}, "Tensor_Tensor_out");
  }
  x = bordered(w, x, window, max ? -INFINITY : 0);
  const Shape image = w.shape(x);
  const WindowDim flat{};
  const WindowDim& depth = window.rank == 3 ? window.dims[0] : flat;
  const int64_t depths = window.rank == 3 ? depth.out : 1, taps = window.rank == 3 ? depth.kernel : 1;
  const int64_t rows = window.rank == 1 ? 1 : window.dims[static_cast<size_t>(window.rank) - 2].out;
  const Shape result{image[0], image[1] * depths, rows, window.dims[static_cast<size_t>(window.rank) - 1].out};
  int all = -1;
  for (int64_t k = 0; k < taps; ++k) {
    int part = x;
    if (window.rank == 3) {
      const int64_t begin = k * depth.dilation;
      part = sliced(w, x, 2, begin, begin + (depths - 1) * depth.stride + 1, depth.stride);
    }
    part = p.reshape(part, Shape{image[0], image[1] * depths, window.rank == 1 ? 1 : image[image.rank() - 2],
                                 image[image.rank() - 1]});
    const int y = pooled(w, a, part, window, false, 1, result);
    all = all < 0 ? y : max ? w.binary("maximum", all, y) : w.add(all, y);
  }
  Shape shape{image[0], image[1]};
  for (int i = 0; i < window.rank; ++i) shape.push_back(window.dims[static_cast<size_t>(i)].out);
  all = p.reshape(all, shape);
  if (a.kind == PoolKind::kAverage || a.mean_square) all = w.div(all, p.constant(tap_counts(a, window, w.dtype(all))));
  if (a.kind != PoolKind::kLp || (a.p == 1 && !a.mean_square)) return all;
  if (a.p == 2 || a.mean_square) return w.unary("sqrt", all);
  return w.binary("pow", all, w.number_like(all, 1 / a.p), "Tensor_Tensor_out");
}

/// Places within a plane as places within the whole tensor.
int tensor_places(CallWriter& w, int places, const Shape& image) {
  const int64_t planes = image[0] * image[1];
  Tensor first(DType::kI64, Shape{image[0], image[1]});
  for (int64_t i = 0; i < planes; ++i) set_int(first, i, i * (image.elements() / planes));
  Shape spread = w.shape(places);
  for (int d = 2; d < spread.rank(); ++d) spread[d] = 1;
  return w.add(places, w.plan().reshape(w.plan().constant(first), spread));
}

/// True if the result is the mean of the integers themselves, ties rounded away from 0, as TFLite's kernel has it.
bool averages_integers(const CallWriter& w, const PoolAttrs& a) {
  return a.kind == PoolKind::kAverage && a.rounding == Rounding::kFixedDouble && !a.count_include_pad &&
         a.divisor_override == 0 && a.act.kind == ActKind::kNone && is_8bit(w.in_type(0).dtype) &&
         w.in_type(0).dtype == w.out_type(0).dtype && same_per_tensor(w.in_type(0).quant, w.out_type(0).quant);
}

}  // namespace

bool call_pool(CallWriter& w) {
  const auto& a = w.attrs<PoolAttrs>();
  if (a.global) return !w.wants(1) && global_pool(w, a);
  using Index = PoolAttrs::Index;
  const int spatial = w.rank(0) - 2;
  if (spatial < 1 || spatial > 3) return false;
  PoolAttrs first = a;
  first.layout = Layout::kChannelsFirst;
  const bool whole = averages_integers(w, a);
  const int x = whole ? w.cast(w.quantized_image(0, a.layout), DType::kF32) : w.image(0, a.layout);
  if (x < 0) return false;
  const Shape image = w.shape(x), result = image_shape(w, a.layout);
  const auto geometry = pool_geometry(first, image);
  if (!geometry.ok() || !(geometry->output == result) || result.elements() == 0) return false;
  const Window& window = geometry->window;
  const bool own = own_window(a, window);
  if (!is_float(w.dtype(x)) && (!own || a.kind != PoolKind::kMax)) return false;
  if (w.wants(1) && (!own || (a.index != Index::kPlane && a.index != Index::kTensorRow))) return false;
  PlanWriter& p = w.plan();
  int y = -1;
  if (own) {
    const auto wide = [&](Shape s) {
      if (spatial == 1) s.insert(2, 1);
      return s;
    };
    int places = -1;
    y = p.reshape(pooled(w, a, p.reshape(x, wide(image)), window, true, a.divisor_override, wide(result), &places),
                  result);
    if (w.wants(1)) {
      places = p.reshape(places, result);
      if (a.index == Index::kTensorRow) places = tensor_places(w, places, image);
      if (!w.out_image(1, w.cast(places, a.index_dtype), a.layout)) return false;
    }
  } else {
    y = pool_by_frames(w, a, x, window);
  }
  if (whole) return w.out_image(0, w.cast(rounded_half_away(w, y), w.out_type(0).dtype), a.layout);
  const auto after = w.activated(y, a.act);
  return after && w.out_image(0, *after, a.layout);
}

bool call_adaptive_pool(CallWriter& w) {
  const auto& a = w.attrs<AdaptivePoolAttrs>();
  if (w.wants(1) || w.rank(0) != 4 || a.kind != PoolKind::kAverage) return false;
  const int x = w.image(0, a.layout);
  if (x < 0) return false;
  const int y = w.plan().call("aten::_adaptive_avg_pool2d", "out", {x, w.plan().integers(a.output)}, w.dtype(x),
                              image_shape(w, a.layout));
  return w.out_image(0, y, a.layout);
}

}  // namespace smelt::executorch
