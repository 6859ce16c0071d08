// Transposed convolutions of images with channels last.
#include <algorithm>

#include "formats/tflite/writer/image.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// A filter whose output channels run along `groups` blocks of input channels, cut into one filter a group.
int group_part(SubgraphWriter& s, int x, int axis, int64_t group, int64_t groups) {
  const FileTensor from = s.at(x);
  std::vector<int64_t> begin(static_cast<size_t>(from.shape.rank()), 0), size(begin.size(), -1);
  const int64_t each = from.shape[axis] / groups;
  begin[static_cast<size_t>(axis)] = group * each;
  size[static_cast<size_t>(axis)] = each;
  const int y = s.add(Code::SLICE, {x, s.i32(begin), s.i32(size)}, from.dtype, {}, from.quant);
  s.at(y).ranked = true;
  s.at(y).shape = from.shape;
  s.at(y).shape[axis] = each;
  return y;
}

/// Where the result of a transposed convolution lies in the one without padding, or with padding SAME.
struct Placement {
  std::vector<int64_t> full;         ///< shape before the cut, but for the channels; -1: batch known at run time
  std::vector<int64_t> begin, size;  ///< part that the node keeps
  int dynamic_size = -1;             ///< a tensor in place of `size`; -1: none
  bool cut = false;                  ///< true if it is not all
  bool same = false;                 ///< true if padding SAME gives the part that the node keeps
};

/// Nothing if sizes are unknown or lie beyond the windows.
std::optional<Placement> place_result(OpWriter& w, const ConvTransposeAttrs& a, const Image& image,
                                      const std::vector<int64_t>& kernel) {
  const ValueType& result = w.out_type(0);
  const auto open_batch = [](const ValueType& t) {
    return t.ranked && std::ranges::count(t.shape.dims(), -1) == (t.shape[0] < 0 ? 1 : 0);
  };
  if (!open_batch(result) || !open_batch(w.in_type(0)) || (w.in_type(0).shape[0] < 0 && a.groups > 1))
    return std::nullopt;
  const int spatial = image.spatial, flat = spatial == 1 ? 1 : 0;
  const int first = (a.layout == Layout::kChannelsFirst ? 2 : 1) - flat;
  const auto stride = window_list(a.strides, spatial, 1);
  const auto pads = window_list(a.pads.empty() ? std::vector<int64_t>(static_cast<size_t>(spatial), 0)
                                               : std::vector<int64_t>(a.pads.begin(), a.pads.begin() + spatial),
                                spatial, 0);
  Placement p{.full = {w.in_type(0).shape[0]}, .begin = {0}, .size = {-1}, .same = true};
  if (flat) {
    p.full.push_back(1);
    p.begin.push_back(0);
    p.size.push_back(1);
  }
  const bool sized = a.auto_pad == AutoPad::kSameUpper || a.auto_pad == AutoPad::kSameLower || !a.output_shape.empty();
  for (auto d = static_cast<size_t>(flat); d < image.size.size(); ++d) {
    const int64_t out = result.shape[first + static_cast<int>(d)];
    const int64_t whole = (image.size[d] - 1) * stride[d] + kernel[d];
    int64_t front = pads[d];
    if (sized) {
      const int64_t total =
          whole - out + (a.output_padding.empty() ? 0 : a.output_padding[d - static_cast<size_t>(flat)]);
      if (total < 0) return std::nullopt;
      front = a.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
    }
    // Output padding may reach beyond the last window: VALID takes any size that its windows fit in.
    p.full.push_back(std::max(whole, front + out));
    p.begin.push_back(front);
    p.size.push_back(out);
    p.cut |= front != 0 || p.full.back() != out;
    p.same &= (out + stride[d] - 1) / stride[d] == image.size[d] && front == std::max<int64_t>(whole - out, 0) / 2;
    if (p.full.back() >= whole + stride[d]) return std::nullopt;
  }
  p.begin.push_back(0);
  p.size.push_back(-1);
  if (p.cut && p.same) {
    for (size_t d = 1; d < p.full.size(); ++d) p.full[d] = p.size[d];
    p.cut = false;
  } else {
    p.same = false;
  }
  return p;
}

/// The output shape that TRANSPOSE_CONV takes, its batch that of the image.
int output_shape(SubgraphWriter& s, const Image& image, const std::vector<int64_t>& shape) {
  if (shape[0] >= 0) return s.i32(shape);
  const int dims =
      s.add(Code::SHAPE, {image.tensor}, DType::kI32,
            options_of<tfl::ShapeOptions>([](auto& b) { return tfl::CreateShapeOptions(b, tfl::TensorType::INT32); }));
  const int batch = s.add(Code::SLICE, {dims, s.i32({0}), s.i32({1})}, DType::kI32);
  return s.add(Code::CONCATENATION, {batch, s.i32(Int64List(shape.begin() + 1, shape.end()))}, DType::kI32,
               concat_options(0));
}

Code transposed_code(const Image& image) { return image.spatial == 3 ? Code::CONV_3D_TRANSPOSE : Code::TRANSPOSE_CONV; }

OperatorOptions transposed_options(const std::vector<int64_t>& stride, tfl::Padding padding,
                                   tfl::ActivationFunctionType act) {
  if (stride.size() == 3) {
    const auto by = as_i32(stride);
    return options_of<tfl::Conv3DOptions>(
        [=](auto& b) { return tfl::CreateConv3DOptions(b, padding, by[0], by[2], by[1], act); });
  }
  const auto steps = as_i32(stride);
  return options_of<tfl::TransposeConvOptions>(
      [=](auto& b) { return tfl::CreateTransposeConvOptions(b, padding, steps[1], steps[0], act); });
}

/// The placement of a result whose pads are given but whose image has its size at run time; `sizes` becomes the shape
/// without padding.
std::optional<Placement> dynamic_placement(OpWriter& w, const ConvTransposeAttrs& a, const Image& image,
                                           const std::vector<int64_t>& kernel, int64_t channels, int& sizes) {
  SubgraphWriter& s = w.subgraph();
  if (a.auto_pad != AutoPad::kExplicit || !a.output_shape.empty() || a.groups != 1) return std::nullopt;
  const auto stride = window_list(a.strides, image.spatial, 1);
  const auto n = stride.size();
  const size_t flat = image.spatial == 1 ? 1 : 0;
  // full = in * stride + (kernel - stride), what is kept = full - pads + output padding; each behind the batch.
  std::vector<int64_t> factor{1}, term{0}, lost{0};
  Placement p{.full = {}, .begin = {0}, .size = {}, .cut = false};
  for (size_t d = 0; d < n; ++d) {
    const size_t i = d - flat;
    const bool pads = d >= flat && !a.pads.empty();
    const int64_t front = pads ? a.pads[i] : 0, back = pads ? a.pads[i + n - flat] : 0;
    const int64_t extra = d >= flat && !a.output_padding.empty() ? a.output_padding[i] : 0;
    factor.push_back(stride[d]);
    term.push_back(kernel[d] - stride[d] + std::max<int64_t>(extra - back, 0));
    lost.push_back(front + std::max<int64_t>(back - extra, 0));
    p.begin.push_back(front);
    p.cut |= lost.back() != 0;
  }
  factor.push_back(0);
  term.push_back(channels);
  lost.push_back(0);
  p.begin.push_back(0);
  sizes = w.add({w.mul({dims_of(s, image.tensor), s.i32(factor)}), s.i32(term)});
  if (p.cut) p.dynamic_size = w.sub(sizes, s.i32(lost));
  return p;
}

/// A transposed convolution of float32 of each group, joined, and the bias. The filter is [O of a group, spatial, all
/// I].
int grouped(OpWriter& w, const Image& image, int filter, int sizes, int64_t groups, const OperatorOptions& options) {
  SubgraphWriter& s = w.subgraph();
  const Shape filters = s.at(filter).shape;
  const int x = s.dequantize(image.tensor), real_filter = s.dequantize(filter);
  if (groups == 1) {
    std::vector<int> in{sizes, real_filter, x};
    if (w.has(2)) in.push_back(w.real(2));
    return s.add(transposed_code(image), in, DType::kF32, options);
  }
  const auto set_shape = [&](int tensor, const Shape& shape) {
    s.at(tensor).ranked = true;
    s.at(tensor).shape = shape;
  };
  Shape image_shape{w.in_type(0).shape[0]};
  for (const int64_t d : image.size) image_shape.push_back(d);
  image_shape.push_back(image.channels);
  set_shape(x, image_shape);
  set_shape(real_filter, filters);
  std::vector<int> parts;
  for (int64_t g = 0; g < groups; ++g) {
    const int f = group_part(s, real_filter, filters.rank() - 1, g, groups);
    const int part = group_part(s, x, image_shape.rank() - 1, g, groups);
    parts.push_back(s.add(transposed_code(image), {sizes, f, part}, DType::kF32, options));
  }
  const int y = s.add(Code::CONCATENATION, parts, DType::kF32, concat_options(image_shape.rank() - 1));
  return w.has(2) ? w.add(y, w.real(2)) : y;
}

/// TRANSPOSE_CONV as the format says it: padding by a mode, the output's shape by an operand.
bool of_given_shape(OpWriter& w, const ConvTransposeAttrs& a, const Image& image, int filter) {
  SubgraphWriter& s = w.subgraph();
  const auto fused = fused_activation(a.act);
  const Weighted v = weighted_operands(w, image.tensor, filter, 2, a.dynamic_quant);
  std::vector<int> in{w.in_i32(3), v.filter, v.x};
  if (v.bias >= 0) in.push_back(v.bias);
  const auto options = transposed_options(window_list(a.strides, image.spatial, 1),
                                          a.auto_pad == AutoPad::kValid ? tfl::Padding::VALID : tfl::Padding::SAME,
                                          fused.value_or(tfl::ActivationFunctionType::NONE));
  const int y = s.add(Code::TRANSPOSE_CONV, in, v.dtype, options, v.quant);
  return finish_image(w, y, fused.has_value(), a.act, a.layout, image.spatial);
}

}  // namespace

bool write_conv_transpose(OpWriter& w) {
  const auto& a = w.attrs<ConvTransposeAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (w.rank(0) < 3 || w.rank(0) > 5 || w.rank(1) != w.rank(0)) return false;
  if (std::ranges::any_of(a.dilations, [](int64_t d) { return d != 1; })) return false;
  const Shape& shape = w.in_type(1).shape;
  if (!shape.is_static()) return false;
  const Image image = image_of(w, 0, a.layout);
  const int spatial = image.spatial;
  std::optional<int> filter = s.transpose(w.in(1), filter_perm(a.filter, FilterLayout::kOSI, spatial + 2));
  if (spatial == 1) filter = with_height(s, *filter);
  if (!filter) return false;
  if (w.has(3)) {
    if (spatial == 3) return false;
    const bool given = a.groups == 1 && a.auto_pad != AutoPad::kExplicit && a.auto_pad != AutoPad::kSameLower;
    return given && of_given_shape(w, a, image, *filter);
  }
  // Where padding SAME is another, without padding first; the pads then cut the result.
  const int64_t out_channels = s.at(*filter).shape[0];
  auto p = place_result(w, a, image, filter_sizes(shape, a.filter, spatial));
  int sizes = -1;
  if (p) {
    p->full.push_back(out_channels);
    sizes = output_shape(s, image, p->full);
  } else {
    p = dynamic_placement(w, a, image, filter_sizes(shape, a.filter, spatial), out_channels, sizes);
    if (!p) return false;
  }
  if (spatial == 3) {
    // [O, D, H, W, I] becomes [D, H, W, O, I].
    filter = s.transpose(*filter, {1, 2, 3, 0, 4});
    if (a.groups != 1) return false;
  }
  const auto options =
      transposed_options(window_list(a.strides, spatial, 1), p->same ? tfl::Padding::SAME : tfl::Padding::VALID,
                         tfl::ActivationFunctionType::NONE);
  const auto cut = [&](int v, DType dtype, const QuantPtr& quant) {
    if (!p->full.empty()) {
      s.at(v).ranked = true;
      s.at(v).shape = Shape(std::span<const int64_t>(p->full));
    }
    if (!p->cut) return v;
    const int size = p->dynamic_size >= 0 ? p->dynamic_size : s.i32(p->size);
    return s.add(Code::SLICE, {v, s.i32(p->begin), size}, dtype, {}, quant);
  };
  const bool integer_bias = !w.has(2) || is_integer(w.in_type(2).dtype);
  // LiteRT's delegate rounds once, but takes constant sizes alone: where they are computed, float32 rounds once.
  const bool rounds_once = s.at(sizes).contents || !s.file().prefer_int8;
  if (a.groups == 1 && rounds_once && integer_bias && integer_operands(w, image.tensor, *filter)) {
    const auto [dtype, quant] = s.file_type(w.out_type(0));
    std::vector<int> in{sizes, *filter, image.tensor};
    if (w.has(2)) in.push_back(scaled_bias(s, w.in(2), image.tensor, *filter));
    int y = s.add(Code::TRANSPOSE_CONV, in, dtype, options, quant);
    y = cut(y, dtype, quant);
    return finish_image(w, y, false, a.act, a.layout, spatial);
  }
  int y = grouped(w, image, *filter, sizes, a.groups, options);
  y = cut(y, DType::kF32, nullptr);
  return finish_image(w, y, false, a.act, a.layout, spatial);
}

}  // namespace smelt::tflite
