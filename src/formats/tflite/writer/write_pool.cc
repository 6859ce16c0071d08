// Pools of images with channels last.
#include <algorithm>
#include <cmath>

#include "formats/tflite/writer/image.h"
#include "ops/pool/pool.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// 1 / number of elements of x in each window of an image whose outermost sizes are known.
Tensor window_counts(const Image& image, const Windows& win, const std::vector<int64_t>& out, bool padding_counts) {
  const int64_t h = out[0], wide = out[1];
  Tensor t(DType::kF32, Shape{1, h, wide, 1});
  const auto count = [&](size_t d, int64_t at) {
    int64_t n = 0;
    for (int64_t k = 0; k < win.kernel[d]; ++k) {
      const int64_t p = at * win.stride[d] - win.before[d] + k * win.dilation[d];
      const int64_t front = padding_counts ? -win.before[d] : 0;
      const int64_t end = image.size[d] + (padding_counts ? win.after[d] : 0);
      n += p >= front && p < end ? 1 : 0;
    }
    return n;
  };
  for (int64_t i = 0; i < h; ++i)
    for (int64_t j = 0; j < wide; ++j)
      t.data<float>()[i * wide + j] = 1.0f / static_cast<float>(std::max<int64_t>(1, count(0, i) * count(1, j)));
  return t;
}

OperatorOptions pool_options(const Windows& win, tfl::Padding padding, tfl::ActivationFunctionType act) {
  const auto kernel = as_i32(win.kernel), stride = as_i32(win.stride);
  return options_of<tfl::Pool2DOptions>(
      [=](auto& b) { return tfl::CreatePool2DOptions(b, padding, stride[1], stride[0], kernel[1], kernel[0], act); });
}

/// A pool over the whole image as a reduction with kept dimensions.
bool write_global_pool(OpWriter& w, const PoolAttrs& a) {
  SubgraphWriter& s = w.subgraph();
  const bool first = a.layout == Layout::kChannelsFirst;
  const int rank = w.rank(0);
  if (rank < 3 || a.kind == PoolKind::kLp) return false;
  const bool last = first && s.is_channels_last(w.id(0));
  const int x = last ? w.in_last(0) : w.in(0);
  std::vector<int64_t> axes;
  for (int d = 1; d + 1 < rank; ++d) axes.push_back(first && !last ? d + 1 : d);
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  const Code code = a.kind == PoolKind::kAverage ? Code::MEAN : Code::REDUCE_MAX;
  if (a.kind == PoolKind::kMax && !same_quant_params(w.in_type(0).quant, w.out_type(0).quant)) return false;
  const int y =
      s.add(code, {x, s.i32(axes)}, dtype,
            options_of<tfl::ReducerOptions>([](auto& b) { return tfl::CreateReducerOptions(b, true); }), quant);
  last ? w.out_last(0, y) : w.out(0, y);
  return true;
}

/// Windows of a pool, and the sizes of its result.
struct PoolWindows {
  Windows win;
  Windows padded;            ///< windows with the padding that the last of them reach
  std::vector<int64_t> out;  ///< -1: unknown
  bool extended = false;     ///< true if `padded` has more padding than `win`

  bool padless() const {
    const auto none = [](int64_t p) { return p == 0; };
    return std::ranges::all_of(padded.before, none) && std::ranges::all_of(padded.after, none);
  }
};

/// Sets `padded`. Where sizes round up, windows may end behind the image, as if its end were padded more. False if
/// sizes are unknown.
bool round_up(const PoolAttrs& a, const Image& image, PoolWindows& p) {
  p.padded = p.win;
  if (!a.ceil_mode) return true;
  for (size_t d = 0; d < p.win.kernel.size(); ++d) {
    if (image.size[d] < 0 || p.out[d] < 0) return false;
    const int64_t need = (p.out[d] - 1) * p.win.stride[d] + p.win.kernel[d] - image.size[d] - p.win.before[d];
    p.extended |= need > p.win.after[d];
    p.padded.after[d] = std::max(p.win.after[d], need);
  }
  return true;
}

/// The sums of windows over an image padded with zeros, times the reciprocal of what each window counts, as float32.
/// Nothing if sizes are unknown.
std::optional<int> counted_average(OpWriter& w, const PoolAttrs& a, const Image& image, PoolWindows& p,
                                   tfl::Padding padding) {
  SubgraphWriter& s = w.subgraph();
  for (size_t d = 0; d < p.win.kernel.size(); ++d) {
    if (image.size[d] < 0 || p.out[d] < 0) return std::nullopt;
    if (padding != tfl::Padding::SAME) continue;
    const int64_t total = std::max<int64_t>(0, (p.out[d] - 1) * p.win.stride[d] + p.win.kernel[d] - image.size[d]);
    p.padded.before[d] = total / 2;
    p.padded.after[d] = total - total / 2;
  }
  Image real = image;
  real.tensor = s.dequantize(image.tensor);
  const int x = p.padless() ? real.tensor : pad_image(w, real, p.padded);
  const auto area = static_cast<double>(p.win.kernel[0] * p.win.kernel[1]);
  const int y = s.add(Code::AVERAGE_POOL_2D, {x}, DType::kF32, pool_options(p.win, tfl::Padding::VALID, {}));
  if (a.divisor_override != 0) return w.mul(y, s.f32(area / static_cast<double>(a.divisor_override)));
  Windows counted = p.win;
  counted.before = p.padded.before;
  counted.after = p.extended ? p.win.after : p.padded.after;
  Tensor scale = window_counts(image, counted, p.out, a.count_include_pad);
  float* const factors = scale.data<float>();
  for (int64_t i = 0; i < scale.elements(); ++i) factors[i] *= static_cast<float>(area);
  if (std::ranges::all_of(factors, factors + scale.elements(), [](float f) { return f == 1; })) return y;
  return w.mul(y, s.constant(std::move(scale)));
}

/// A pool as one of the format's 2-D operators, with a height of 1 for one dimension.
bool write_pool_2d(OpWriter& w, const PoolAttrs& a) {
  SubgraphWriter& s = w.subgraph();
  if (w.rank(0) < 3 || w.rank(0) > 4 || !w.in_type(0).ranked || (a.kind == PoolKind::kLp && !a.mean_square))
    return false;
  Image image = image_of(w, 0, a.layout);
  const int spatial = image.spatial;
  std::vector<int64_t> kernel = a.kernel;
  if (spatial == 1) kernel.insert(kernel.begin(), 1);
  PoolWindows p;
  p.win = windows_of(kernel, a.strides, a.dilations, a.pads, spatial);
  if (std::ranges::any_of(p.win.dilation, [](int64_t d) { return d != 1; })) return false;
  const ValueType& result = w.out_type(0);
  if (spatial == 1) p.out.push_back(1);
  for (int d = 0; d < spatial; ++d)
    p.out.push_back(result.ranked ? result.shape[(a.layout == Layout::kChannelsFirst ? 2 : 1) + d] : -1);
  if (!round_up(a, image, p)) return false;
  const auto padding = choose_padding(a.auto_pad, image, p.padded);
  if (!padding) return false;
  const auto fused = fused_activation(a.act);
  const auto [dtype, quant] = s.file_type(result);
  const bool max = a.kind == PoolKind::kMax, same = same_quant_params(w.in_type(0).quant, result.quant);
  const Code code = max ? Code::MAX_POOL_2D : a.kind == PoolKind::kAverage ? Code::AVERAGE_POOL_2D : Code::L2_POOL_2D;
  const bool counts_differ =
      !max && (a.divisor_override != 0 || (a.count_include_pad && !p.padless()) || padding->pad || p.extended);
  int y = -1;
  if (!counts_differ && same && (max || a.kind == PoolKind::kAverage || !quant)) {
    const auto act = fused.value_or(tfl::ActivationFunctionType::NONE);
    const int x = padding->pad ? pad_image(w, image, p.padded, -INFINITY) : image.tensor;
    // Integers of an unquantized value may have a scale in the file; the maxima of such have it too.
    y = s.add(code, {x}, dtype, pool_options(p.win, padding->padding, act), quant ? quant : s.at(x).quant);
    if (fused) {
      bind_image(w, y, a.layout, spatial);
      return true;
    }
  } else {
    if (a.kind != PoolKind::kAverage) return false;
    const auto average = counted_average(w, a, image, p, padding->padding);
    if (!average) return false;
    y = *average;
  }
  const auto after = w.activated(y, a.act);
  if (!after) return false;
  y = quant && !s.at(*after).quant ? s.quantize(*after, dtype, quant) : *after;
  bind_image(w, y, a.layout, spatial);
  return true;
}

}  // namespace

bool write_pool(OpWriter& w) {
  const auto& a = w.attrs<PoolAttrs>();
  if (w.wants(1) && w.subgraph().uses(w.out_id(1)) > 0) return write_pool_windows(w);
  const bool written = w.subgraph().attempt([&] { return a.global ? write_global_pool(w, a) : write_pool_2d(w, a); });
  return written || write_pool_windows(w);
}

/// Windows of one size for all outputs where the output divides the input; the mean of all for an output of 1.
bool write_adaptive_pool(OpWriter& w) {
  const auto& a = w.attrs<AdaptivePoolAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (w.wants(1) || w.rank(0) < 3 || w.rank(0) > 4 || a.kind == PoolKind::kLp || !w.unquantized()) return false;
  const Image image = image_of(w, 0, a.layout);
  std::vector<int64_t> out = a.output;
  if (image.spatial == 1) out.insert(out.begin(), 1);
  Windows win;
  for (size_t d = 0; d < out.size(); ++d) {
    if (image.size[d] < 1 || out[d] < 1 || image.size[d] % out[d] != 0) return false;
    win.kernel.push_back(image.size[d] / out[d]);
    win.stride.push_back(win.kernel.back());
  }
  const Code code = a.kind == PoolKind::kMax ? Code::MAX_POOL_2D : Code::AVERAGE_POOL_2D;
  const int y = s.add(code, {image.tensor}, s.at(image.tensor).dtype, pool_options(win, tfl::Padding::VALID, {}));
  bind_image(w, y, a.layout, image.spatial);
  return true;
}

}  // namespace smelt::tflite
