// Convolutions of images with channels last.
#include <algorithm>

#include "formats/tflite/writer/image.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

OperatorOptions conv3d_options(const Windows& win, tfl::Padding padding, tfl::ActivationFunctionType act) {
  const auto stride = as_i32(win.stride), dilation = as_i32(win.dilation);
  return options_of<tfl::Conv3DOptions>([=](auto& b) {
    return tfl::CreateConv3DOptions(b, padding, stride[0], stride[2], stride[1], act, dilation[0], dilation[2],
                                    dilation[1]);
  });
}

/// A bias for kernels that take a convolution only with one.
int zero_bias(SubgraphWriter& s, const Weighted& v, int64_t channels) {
  const DType integer = v.dtype == DType::kI16 ? DType::kI64 : DType::kI32;
  Tensor t(v.quant ? integer : DType::kF32, Shape{channels});
  for (int64_t i = 0; i < channels; ++i) set_double(t, i, 0);
  const int bias = s.constant(std::move(t));
  return v.quant ? scaled_bias(s, bias, v.x, v.filter) : bias;
}

/// An operand of integers without its zero points, as float32. Zero points of a filter run along its output channels
/// and are constants; that of an image is one number. Nothing if they are others.
std::optional<int> without_zero_point(OpWriter& w, int x, int input, int filter_axis) {
  SubgraphWriter& s = w.subgraph();
  x = s.cast(x, DType::kF32);
  if (!w.has(input)) return x;
  const Tensor* zero = w.constant(input);
  if (filter_axis < 0) {
    const ValueType& t = w.in_type(input);
    if (!t.is_static() || t.shape.elements() != 1) return std::nullopt;
    return w.sub(x, s.reshape(s.cast(w.in(input), DType::kF32), {}));
  }
  if (!zero) return std::nullopt;
  std::vector<int64_t> dims(static_cast<size_t>(w.rank(1)), 1);
  dims[static_cast<size_t>(filter_axis)] = zero->elements();
  const Tensor values = retyped(*zero, DType::kF32, nullptr).reshaped(Shape(std::span<const int64_t>(dims)));
  const auto& contents = s.at(x).contents;
  if (!contents) return w.sub(x, s.constant(values));
  Tensor real(DType::kF32, contents->shape());
  const Shape strides = real.shape().strides();
  for (int64_t i = 0; i < real.elements(); ++i) {
    const int64_t c = zero->elements() == 1 ? 0 : i / strides[filter_axis] % real.dim(filter_axis);
    real.data<float>()[i] = contents->data<float>()[i] - values.data<float>()[c];
  }
  return s.constant(std::move(real));
}

/// x and filter of a ConvInteger as float32, whose products and sums are exact up to 2^24.
std::optional<Weighted> real_operands(OpWriter& w, int x, FilterLayout layout, int spatial) {
  const auto image = without_zero_point(w, x, 2, -1);
  const auto axis = static_cast<int>(filter_perm(layout, FilterLayout::kOSI, spatial + 2)[0]);
  const auto filter = without_zero_point(w, w.in(1), 3, axis);
  if (!image || !filter || !w.unquantized()) return std::nullopt;
  return Weighted{*image, *filter};
}

}  // namespace

bool write_conv_integer(OpWriter& w) { return write_conv(w); }

bool write_conv(OpWriter& w) {
  const auto& a = w.attrs<ConvAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (w.rank(0) < 3 || w.rank(0) > 5 || w.rank(1) != w.rank(0)) return false;
  const Shape& shape = w.in_type(1).shape;
  if (!shape.is_static()) return false;
  Image image = image_of(w, 0, a.layout);
  const int spatial = image.spatial;
  Windows win = windows_of(filter_sizes(shape, a.filter, spatial), a.strides, a.dilations, a.pads, spatial);
  const auto padding = choose_padding(a.auto_pad, image, win);
  if (!padding) return false;
  const bool integers = w.node().op == Op::kConvInteger;
  int filter = w.in(1);
  if (integers) {
    const auto real = real_operands(w, image.tensor, a.filter, spatial);
    if (!real) return false;
    image.tensor = real->x;
    filter = real->filter;
  }
  if (padding->pad) image.tensor = pad_image(w, image, win);
  const auto perm = filter_perm(a.filter, FilterLayout::kOSI, spatial + 2);
  const int64_t out_channels = shape[static_cast<int>(perm[0])], in_channels = shape[static_cast<int>(perm.back())];
  const bool depthwise = a.groups > 1 && in_channels == 1 && spatial < 3 && out_channels % a.groups == 0;
  if (spatial == 3) {
    filter = s.transpose(filter, filter_perm(a.filter, FilterLayout::kSIO, 5));
  } else {
    filter = s.transpose(filter, depthwise ? filter_perm(a.filter, FilterLayout::kISO, spatial + 2) : perm);
    if (spatial == 1) {
      const auto wide = with_height(s, filter);
      if (!wide) return false;
      filter = *wide;
    }
  }
  const Weighted v =
      integers ? Weighted{image.tensor, filter} : weighted_operands(w, image.tensor, filter, 2, a.dynamic_quant);
  const auto fused = fused_activation(a.act);
  const auto act = fused.value_or(tfl::ActivationFunctionType::NONE);
  std::vector<int> in{v.x, v.filter};
  in.push_back(v.bias >= 0 ? v.bias : zero_bias(s, v, out_channels));
  const auto stride = as_i32(win.stride), dilation = as_i32(win.dilation);
  const tfl::Padding pad = padding->padding;
  int y = -1;
  if (spatial == 3) {
    if (a.groups != 1 || v.quant) return false;
    y = s.add(Code::CONV_3D, in, v.dtype, conv3d_options(win, pad, act));
  } else if (depthwise) {
    const auto multiplier = static_cast<int32_t>(out_channels / a.groups);
    y = s.add(Code::DEPTHWISE_CONV_2D, in, v.dtype, options_of<tfl::DepthwiseConv2DOptions>([=](auto& b) {
                return tfl::CreateDepthwiseConv2DOptions(b, pad, stride[1], stride[0], multiplier, act, dilation[1],
                                                         dilation[0]);
              }),
              v.quant);
  } else {
    y = s.add(Code::CONV_2D, in, v.dtype, options_of<tfl::Conv2DOptions>([=](auto& b) {
                return tfl::CreateConv2DOptions(b, pad, stride[1], stride[0], act, dilation[1], dilation[0]);
              }),
              v.quant);
  }
  if (integers) y = s.cast(y, DType::kI32);
  return finish_image(w, y, fused.has_value(), a.act, a.layout, spatial);
}

}  // namespace smelt::tflite
