#include "formats/tflite/writer/image.h"

#include <algorithm>

#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

}  // namespace

Image image_of(OpWriter& w, int i, Layout layout) {
  SubgraphWriter& s = w.subgraph();
  const Shape& shape = w.in_type(i).shape;
  Image image;
  image.spatial = shape.rank() - 2;
  image.tensor = layout == Layout::kChannelsFirst ? w.in_last(i) : w.in(i);
  const int first = layout == Layout::kChannelsFirst ? 2 : 1;
  for (int d = 0; d < image.spatial; ++d) image.size.push_back(shape[first + d]);
  image.channels = shape[layout == Layout::kChannelsFirst ? 1 : shape.rank() - 1];
  if (image.spatial == 1) {
    const FileTensor from = s.at(image.tensor);
    image.tensor = s.add(Code::EXPAND_DIMS, {image.tensor, s.i32_scalar(1)}, from.dtype, {}, from.quant);
    image.size.insert(image.size.begin(), 1);
  }
  return image;
}

void bind_image(OpWriter& w, int y, Layout layout, int spatial) {
  SubgraphWriter& s = w.subgraph();
  if (spatial == 1) {
    const FileTensor from = s.at(y);
    y = s.add(Code::SQUEEZE, {y}, from.dtype, options_of<tfl::SqueezeOptions>([](auto& b) {
                const std::vector<int32_t> dims{1};
                return tfl::CreateSqueezeOptionsDirect(b, &dims);
              }),
              from.quant);
  }
  layout == Layout::kChannelsFirst ? w.out_last(0, y) : w.out(0, y);
}

std::vector<int64_t> window_list(const std::vector<int64_t>& list, int spatial, int64_t fill) {
  std::vector<int64_t> out = list;
  if (out.empty()) out.assign(static_cast<size_t>(spatial), fill);
  if (spatial == 1) out.insert(out.begin(), 1);
  return out;
}

Windows windows_of(std::vector<int64_t> kernel, const std::vector<int64_t>& strides,
                   const std::vector<int64_t>& dilations, const std::vector<int64_t>& pads, int spatial) {
  Windows out;
  out.kernel = std::move(kernel);
  out.stride = window_list(strides, spatial, 1);
  out.dilation = window_list(dilations, spatial, 1);
  std::vector<int64_t> before(static_cast<size_t>(spatial), 0), after = before;
  for (size_t d = 0; d < before.size() && pads.size() == 2 * before.size(); ++d) {
    before[d] = pads[d];
    after[d] = pads[d + before.size()];
  }
  if (spatial == 1) {
    before.insert(before.begin(), 0);
    after.insert(after.begin(), 0);
  }
  out.before = before;
  out.after = after;
  return out;
}

std::optional<PaddingChoice> choose_padding(AutoPad mode, const Image& image, Windows& win) {
  if (mode == AutoPad::kSameUpper) return PaddingChoice{tfl::Padding::SAME, false};
  const size_t n = win.kernel.size();
  if (mode == AutoPad::kValid) {
    std::ranges::fill(win.before, 0);
    std::ranges::fill(win.after, 0);
    return PaddingChoice{};
  }
  bool same = true, none = true;
  for (size_t d = 0; d < n; ++d) {
    const int64_t in = image.size[d], extent = (win.kernel[d] - 1) * win.dilation[d] + 1;
    if (in < 0 && (mode == AutoPad::kSameLower || win.stride[d] != 1)) {
      if (mode == AutoPad::kSameLower) return std::nullopt;
      same = false;
    }
    const int64_t out = in < 0 ? 0 : (in + win.stride[d] - 1) / win.stride[d];
    const int64_t total = in < 0 ? extent - 1 : std::max<int64_t>(0, (out - 1) * win.stride[d] + extent - in);
    if (mode == AutoPad::kSameLower) {
      win.after[d] = total / 2;
      win.before[d] = total - total / 2;
    }
    same &= win.before[d] == total / 2 && win.after[d] == total - total / 2;
    none &= win.before[d] == 0 && win.after[d] == 0;
  }
  if (none) return PaddingChoice{};
  if (same) return PaddingChoice{tfl::Padding::SAME, false};
  return PaddingChoice{tfl::Padding::VALID, true};
}

int pad_image(OpWriter& w, const Image& image, const Windows& win, std::optional<double> value) {
  SubgraphWriter& s = w.subgraph();
  const auto n = static_cast<int64_t>(win.kernel.size());
  const FileTensor from = s.at(image.tensor);
  Tensor rows(DType::kI32, Shape{n + 2, 2});
  std::vector<int64_t> begins(static_cast<size_t>(n + 2), 0), sizes(static_cast<size_t>(n + 2), -1);
  bool crops = false;
  for (int64_t d = 0; d < n; ++d) {
    const auto i = static_cast<size_t>(d);
    rows.data<int32_t>()[2 * (d + 1)] = static_cast<int32_t>(std::max<int64_t>(win.before[i], 0));
    rows.data<int32_t>()[2 * (d + 1) + 1] = static_cast<int32_t>(std::max<int64_t>(win.after[i], 0));
    const int64_t front = std::max<int64_t>(-win.before[i], 0), back = std::max<int64_t>(-win.after[i], 0);
    begins[i + 1] = front;
    if (back > 0 && image.size[i] >= 0) sizes[i + 1] = image.size[i] - front - back;
    crops |= front > 0 || back > 0;
  }
  int x = image.tensor;
  if (crops) x = s.add(Code::SLICE, {x, s.i32(begins), s.i32(sizes)}, from.dtype, {}, from.quant);
  const int widths = s.constant(std::move(rows));
  if (!value) return s.add(Code::PAD, {x, widths}, from.dtype, {}, from.quant);
  Tensor fill(from.dtype, Shape{});
  fill.set_quant(from.quant);
  if (from.quant)
    set_int(fill, 0, int_min(from.dtype));
  else
    set_double(fill, 0, *value);
  return s.add(Code::PADV2, {x, widths, s.constant(std::move(fill))}, from.dtype, {}, from.quant);
}

std::vector<int64_t> filter_sizes(const Shape& shape, FilterLayout layout, int spatial) {
  const auto perm = filter_perm(layout, FilterLayout::kOSI, spatial + 2);
  std::vector<int64_t> out;
  for (int d = 0; d < spatial; ++d) out.push_back(shape[static_cast<int>(perm[static_cast<size_t>(d) + 1])]);
  if (spatial == 1) out.insert(out.begin(), 1);
  return out;
}

std::optional<int> with_height(SubgraphWriter& s, int filter) {
  const FileTensor from = s.at(filter);
  if (!from.ranked) return std::nullopt;
  Shape wide = from.shape;
  wide.insert(1, 1);
  if (!from.contents) return s.reshape(filter, {wide.begin(), wide.end()});
  Tensor t = from.contents->reshaped(wide);
  QuantPtr quant = from.quant;
  if (quant && quant->kind == Quantization::Kind::kPerAxis && quant->axis > 0) {
    auto moved = std::make_shared<Quantization>(*quant);
    ++moved->axis;
    quant = moved;
  }
  t.set_quant(quant);
  return s.constant(std::move(t));
}

bool integer_operands(OpWriter& w, int x, int filter) {
  SubgraphWriter& s = w.subgraph();
  const FileTensor &a = s.at(x), &f = s.at(filter);
  if (!a.quant || !f.quant || !is_per_tensor(a.quant) || !w.out_type(0).quant) return false;
  if (a.dtype == DType::kU8) return f.dtype == DType::kU8 && is_per_tensor(f.quant);
  if ((a.dtype != DType::kI8 && a.dtype != DType::kI16) || (f.dtype != DType::kI8 && f.dtype != DType::kI4))
    return false;
  return std::ranges::all_of(f.quant->zero_points, [](int32_t z) { return z == 0; });
}

Weighted weighted_operands(OpWriter& w, int x, int filter, int bias_input, bool dynamic_quant) {
  SubgraphWriter& s = w.subgraph();
  Weighted out{x, filter, w.has(bias_input) ? w.in(bias_input) : -1};
  if (integer_operands(w, x, filter)) {
    const bool integer_bias = out.bias < 0 || is_integer(s.at(out.bias).dtype);
    if (integer_bias) {
      if (out.bias >= 0) out.bias = scaled_bias(s, out.bias, x, filter);
      std::tie(out.dtype, out.quant) = s.file_type(w.out_type(0));
      return out;
    }
  }
  out.x = s.dequantize(x);
  if (!dynamic_quant) out.filter = s.dequantize(filter);
  if (out.bias >= 0) out.bias = s.dequantize(out.bias);
  return out;
}

bool finish_image(OpWriter& w, int y, bool fused, const Activation& act, Layout layout, int spatial) {
  if (!fused) {
    const auto after = w.activated(y, act);
    if (!after) return false;
    y = *after;
  }
  bind_image(w, y, layout, spatial);
  return true;
}

}  // namespace smelt::tflite
