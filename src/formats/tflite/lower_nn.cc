// Convolutions, matrix products, pooling, normalization and resizing.
#include "base/checked.h"
#include "formats/tflite/lowering.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

Status need_rank(OperatorContext& c, int input, const char* what, int rank) {
  const ValueType& t = c.in_type(input);
  if (t.ranked && t.shape.rank() != rank)
    return InvalidModel(what, " has rank ", t.shape.rank(), ", ", rank, " expected");
  return Ok();
}

Status need_positive(std::initializer_list<int64_t> values, const char* what) {
  for (const int64_t v : values)
    if (v < 1) return InvalidModel(what, " ", v, ", at least 1 expected");
  return Ok();
}

/// Float activations with 8-bit weights: the kernel quantizes the activations itself.
bool hybrid(OperatorContext& c, int x, int filter) {
  return c.in_type(x).dtype == DType::kF32 && is_integer(c.in_type(filter).dtype) && c.in_type(filter).quant;
}

Status need_scales(OperatorContext& c, int x, int filter) {
  if (is_float(c.in_type(x).dtype)) return Ok();
  for (const int i : {x, filter}) {
    const ValueType& t = c.in_type(i);
    if (!t.quant) return InvalidModel("input ", i, " is ", to_string(t.dtype), " without quantization parameters");
    const bool of_channels = i == filter && t.quant->scales.size() > 1;  // a scale of 0: of a channel of zeros
    for (const float s : t.quant->scales)
      if (!(s > 0 || (s == 0 && of_channels))) return InvalidModel("input ", i, " has a quantization scale of ", s);
  }
  const QuantPtr& y = c.out_type(0).quant;
  if (is_integer(c.out_type(0).dtype) && keeps_quantization(c.out_type(0).dtype) && (!y || !(y->scale() > 0)))
    return InvalidModel("the output has no positive quantization scale");
  return Ok();
}

/// The optional bias, or nothing.
std::vector<ValueId> with_bias(OperatorContext& c, ValueId x, ValueId filter, int bias) {
  if (!c.has(bias)) return {x, filter};
  return {x, filter, c.in(bias)};
}

template <class O>
Status conv_common(const O& o, ConvAttrs& a) {
  SMELT_TRY(need_positive({o.stride_h(), o.stride_w()}, "stride"));
  SMELT_ASSIGN(a.auto_pad, padding_of(o.padding()));
  SMELT_ASSIGN(a.act, clamp_of(o.fused_activation_function()));
  a.layout = Layout::kChannelsLast;
  a.rounding = Rounding::kFixedDouble;
  return Ok();
}

template <class O>
Status conv2d_common(const O& o, ConvAttrs& a) {
  SMELT_TRY(conv_common(o, a));
  SMELT_TRY(need_positive({o.dilation_h_factor(), o.dilation_w_factor()}, "dilation"));
  a.strides = {o.stride_h(), o.stride_w()};
  a.dilations = {o.dilation_h_factor(), o.dilation_w_factor()};
  return Ok();
}

Status conv3d_common(const tfl::Conv3DOptions& o, ConvAttrs& a) {
  SMELT_TRY(conv_common(o, a));
  SMELT_TRY(need_positive({o.stride_d(), o.dilation_d_factor(), o.dilation_h_factor(), o.dilation_w_factor()},
                          "stride or dilation"));
  a.strides = {o.stride_d(), o.stride_h(), o.stride_w()};
  a.dilations = {o.dilation_d_factor(), o.dilation_h_factor(), o.dilation_w_factor()};
  return Ok();
}

Status conv2d(OperatorContext& c, ConvAttrs a) {
  SMELT_TRY(need_rank(c, 0, "the input", 4));
  SMELT_TRY(need_rank(c, 1, "the filter", 4));
  SMELT_TRY(need_scales(c, 0, 1));
  a.float_scale_product = c.in_type(0).dtype == DType::kU8;
  a.dynamic_quant = hybrid(c, 0, 1);
  a.asymmetric_inputs = a.dynamic_quant && c.in_type(1).quant->kind == Quantization::Kind::kPerAxis;
  return c.emit(Op::kConv, std::move(a), with_bias(c, c.in(0), c.in(1), 2));
}

}  // namespace

Status lower_conv2d(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::Conv2DOptions>());
  ConvAttrs a;
  SMELT_TRY(conv2d_common(*o, a));
  a.filter = FilterLayout::kOSI;
  const ValueType &x = c.in_type(0), &w = c.in_type(1);
  if (x.ranked && w.ranked && x.shape.rank() == 4 && w.shape.rank() == 4 && x.shape[3] > 0 && w.shape[3] > 0) {
    if (x.shape[3] % w.shape[3] != 0)
      return InvalidModel("the input has ", x.shape[3], " channels, the filter ", w.shape[3]);
    a.groups = x.shape[3] / w.shape[3];
  }
  return conv2d(c, std::move(a));
}

Status lower_depthwise(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::DepthwiseConv2DOptions>());
  ConvAttrs a;
  SMELT_TRY(conv2d_common(*o, a));
  a.filter = FilterLayout::kISO;
  SMELT_TRY(need_rank(c, 0, "the input", 4));
  SMELT_TRY(need_rank(c, 1, "the filter", 4));
  const ValueType &x = c.in_type(0), &w = c.in_type(1);
  if (!w.ranked || w.shape[3] < 1) return Unsupported("a filter whose channels are not known");
  // The number of channels follows from the operands: depth_multiplier is redundant and not always right.
  a.groups = x.ranked && x.shape[3] > 0 ? x.shape[3] : w.shape[3] / std::max(1, o->depth_multiplier());
  if (a.groups < 1 || w.shape[3] % a.groups != 0)
    return InvalidModel("the input has ", a.groups, " channels, the filter ", w.shape[3]);
  return conv2d(c, std::move(a));
}

Status lower_conv3d(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::Conv3DOptions>());
  ConvAttrs a;
  SMELT_TRY(conv3d_common(*o, a));
  a.filter = FilterLayout::kSIO;
  SMELT_TRY(need_rank(c, 0, "the input", 5));
  SMELT_TRY(need_rank(c, 1, "the filter", 5));
  return c.emit(Op::kConv, std::move(a), with_bias(c, c.in(0), c.in(1), 2));
}

Status lower_transpose_conv(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::TransposeConvOptions>());
  ConvTransposeAttrs a;
  SMELT_TRY(conv_common(*o, a));
  a.strides = {o->stride_h(), o->stride_w()};
  a.dilations = {1, 1};
  a.filter = FilterLayout::kOSI;
  SMELT_TRY(need_rank(c, 1, "the filter", 4));
  SMELT_TRY(need_rank(c, 2, "the input", 4));
  SMELT_TRY(need_scales(c, 2, 1));
  a.float_scale_product = c.in_type(2).dtype == DType::kU8;
  a.dynamic_quant = a.asymmetric_inputs = hybrid(c, 2, 1);
  return c.emit(Op::kConvTranspose, std::move(a), {c.in(2), c.in(1), c.in(3), c.in(0)});
}

Status lower_conv3d_transpose(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::Conv3DOptions>());
  ConvTransposeAttrs a;
  SMELT_TRY(conv3d_common(*o, a));
  a.filter = FilterLayout::kOSI;
  SMELT_TRY(need_rank(c, 1, "the filter", 5));
  SMELT_TRY(need_rank(c, 2, "the input", 5));
  // The format's filter is [depth, height, width, out, in].
  const ValueId filter = c.transpose(c.in(1), {3, 0, 1, 2, 4});
  return c.emit(Op::kConvTranspose, std::move(a), {c.in(2), filter, c.in(3), c.in(0)});
}

namespace {

/// Weights in blocks of 4 rows by 16 columns with the sign bit flipped, back in row order.
Result<ValueId> unshuffle(OperatorContext& c, int input) {
  const Tensor* w = c.const_tensor(input);
  if (!w || w->rank() != 2 || bit_width(w->dtype()) != 8)
    return InvalidModel("shuffled weights must be an 8-bit matrix constant");
  const int64_t rows = w->dim(0), columns = w->dim(1);
  if (rows % 4 != 0 || columns % 16 != 0)
    return InvalidModel("shuffled weights of shape ", w->shape().str(), ", multiples of 4 and 16 expected");
  SMELT_ASSIGN(Tensor out, Tensor::allocate(w->dtype(), w->shape(), false));
  const uint8_t* from = w->data<uint8_t>();
  const uint8_t flip = w->dtype() == DType::kU8 ? 0x80 : 0;
  for (int64_t r = 0; r < rows; r += 4)
    for (int64_t k = 0; k < columns; k += 16)
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 16; ++j)
          out.data<uint8_t>()[(r + i) * columns + k + j] = static_cast<uint8_t>(*from++ ^ flip);
  out.set_quant(w->quant());
  return c.constant(std::move(out));
}

/// Output 1 of the shuffled form: the input with its sign bits flipped, four rows interleaved by 16 columns.
Status emit_shuffled_input(OperatorContext& c) {
  ValueId x = c.unquantized(c.in(0));
  const ValueType t = c.type(x);
  if (!t.ranked || !t.shape.is_static() || t.dtype != DType::kU8 || t.shape.rank() < 1)
    return Unsupported("shuffled weights with an input of type ", t.str());
  const int64_t columns = t.shape.back();
  const int64_t rows = columns > 0 ? t.shape.elements() / columns : 0;
  Tensor bit(DType::kU8, Shape{});
  bit.data<uint8_t>()[0] = 0x80;
  x = c.binary(Binary::kBitXor, x, c.constant(std::move(bit)));
  if (rows == 4 && columns % 16 == 0) {
    x = c.reshape(x, {4, columns / 16, 16});
    x = c.transpose(x, {1, 0, 2});
  }
  return c.emit_to(Op::kReshape, ReshapeAttrs(), {x, c.i64(t.shape.dims())}, {c.out(1)});
}

}  // namespace

Status lower_fully_connected(OperatorContext& c) {
  const auto* o = c.options<tfl::FullyConnectedOptions>();
  MatMulAttrs a;
  a.transpose_b = true;
  a.flatten_a = !(o && o->keep_num_dims());
  a.rounding = Rounding::kDoubleHalfAway;
  a.asymmetric_inputs = o && o->asymmetric_quantize_inputs();
  a.dynamic_quant = hybrid(c, 0, 1);
  if (o) {
    // Only the hybrid kernel takes activations that are no clamps.
    SMELT_ASSIGN(a.act, a.dynamic_quant ? activation_of(o->fused_activation_function())
                                        : clamp_of(o->fused_activation_function()));
  }
  SMELT_TRY(need_rank(c, 1, "the weights", 2));
  SMELT_TRY(need_scales(c, 0, 1));
  ValueId weights = c.in(1);
  if (o && o->weights_format() == tfl::FullyConnectedOptionsWeightsFormat::SHUFFLED4x16INT8) {
    SMELT_ASSIGN(weights, unshuffle(c, 1));
    a.rounding = Rounding::kFixedDouble;
  } else if (o && o->weights_format() != tfl::FullyConnectedOptionsWeightsFormat::DEFAULT) {
    return InvalidModel("weights format ", static_cast<int>(o->weights_format()));
  }
  if (c.outputs() > 1) SMELT_TRY(emit_shuffled_input(c));
  return c.emit(Op::kMatMul, std::move(a), with_bias(c, c.in(0), weights, 2));
}

Status lower_batch_matmul(OperatorContext& c) {
  const auto* o = c.options<tfl::BatchMatMulOptions>();
  MatMulAttrs a;
  a.transpose_a = o && o->adj_x();
  a.transpose_b = o && o->adj_y();
  a.asymmetric_inputs = o && o->asymmetric_quantize_inputs();
  a.dynamic_quant = hybrid(c, 0, 1);
  a.rounding = Rounding::kFixedDouble;
  a.float_scale_product = true;
  return c.emit(Op::kMatMul, std::move(a), {c.in(0), c.in(1)});
}

Status lower_pool(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::Pool2DOptions>());
  SMELT_TRY(need_positive({o->stride_h(), o->stride_w(), o->filter_height(), o->filter_width()}, "stride or window"));
  SMELT_TRY(need_rank(c, 0, "the input", 4));
  PoolAttrs a;
  a.kind = c.code() == Code::MAX_POOL_2D       ? PoolKind::kMax
           : c.code() == Code::AVERAGE_POOL_2D ? PoolKind::kAverage
                                               : PoolKind::kLp;
  a.mean_square = a.kind == PoolKind::kLp;
  a.kernel = {o->filter_height(), o->filter_width()};
  a.strides = {o->stride_h(), o->stride_w()};
  a.dilations = {1, 1};
  a.layout = Layout::kChannelsLast;
  a.rounding = Rounding::kFixedDouble;
  SMELT_ASSIGN(a.auto_pad, padding_of(o->padding()));
  SMELT_ASSIGN(a.act, clamp_of(o->fused_activation_function()));
  return c.emit(Op::kPool, std::move(a), {c.in(0)});
}

Status lower_softmax(OperatorContext& c) {
  SoftmaxAttrs a;
  a.axis = -1;
  a.rounding = Rounding::kFixedDouble;
  if (c.code() == Code::LOG_SOFTMAX) {
    a.kind = SoftmaxAttrs::Kind::kLogSoftmax;
  } else {
    const auto* o = c.options<tfl::SoftmaxOptions>();
    a.beta = o ? o->beta() : 1;
  }
  if (c.in_type(0).ranked && c.in_type(0).shape.rank() == 0) return InvalidModel("a scalar input");
  return c.emit(Op::kSoftmax, a, {c.in(0)});
}

Status lower_l2_normalization(OperatorContext& c) {
  LpNormAttrs a;
  a.axis = -1;
  a.p = 2;
  a.epsilon = 1e-6;
  a.epsilon_max = true;
  a.rounding = Rounding::kFixedDouble;
  return c.emit(Op::kLpNorm, a, {c.in(0)});
}

Status lower_lrn(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::LocalResponseNormalizationOptions>());
  if (o->radius() < 0) return InvalidModel("radius ", o->radius());
  LrnAttrs a;
  a.size = 2 * static_cast<int64_t>(o->radius()) + 1;
  a.alpha = o->alpha();
  a.beta = o->beta();
  a.bias = o->bias();
  a.layout = Layout::kChannelsLast;
  return c.emit(Op::kLRN, a, {c.in(0)});
}

Status lower_resize(OperatorContext& c) {
  bool align = false, half = false;
  if (const auto* o = c.options<tfl::ResizeBilinearOptions>()) {
    align = o->align_corners();
    half = o->half_pixel_centers();
  } else if (const auto* n = c.options<tfl::ResizeNearestNeighborOptions>()) {
    align = n->align_corners();
    half = n->half_pixel_centers();
  }
  if (align && half) return InvalidModel("align_corners and half_pixel_centers together");
  SMELT_TRY(need_rank(c, 0, "the input", 4));
  ResizeAttrs a;
  a.axes = {1, 2};
  a.tflite = true;
  a.rounding = Rounding::kFixedDouble;
  if (c.code() == Code::RESIZE_BILINEAR) {
    a.mode = ResizeAttrs::Mode::kLinear;
    a.coord = align  ? ResizeAttrs::Coord::kAlignCorners
              : half ? ResizeAttrs::Coord::kHalfPixel
                     : ResizeAttrs::Coord::kAsymmetric;
  } else {
    a.mode = ResizeAttrs::Mode::kNearest;
    a.coord = align  ? ResizeAttrs::Coord::kAlignCorners
              : half ? ResizeAttrs::Coord::kTfHalfPixelNn
                     : ResizeAttrs::Coord::kAsymmetric;
    a.nearest = align ? ResizeAttrs::Nearest::kRoundPreferCeil : ResizeAttrs::Nearest::kFloor;
  }
  return c.emit(Op::kResize, std::move(a), {c.in(0), kNoValue, kNoValue, c.in(1)});
}

}  // namespace smelt::tflite
