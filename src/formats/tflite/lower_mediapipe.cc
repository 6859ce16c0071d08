// MediaPipe's custom operators and TensorFlow's audio operators, which LiteRT's wheel has.
#include <array>

#include "base/little_endian.h"
#include "formats/tflite/custom.h"
#include "ops/conv/conv.h"
#include "ops/detection/detection.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/signal/signal.h"

namespace smelt::tflite {
namespace {

Status need_operands(OperatorContext& c, int inputs, int outputs) {
  if (c.inputs() != inputs || c.outputs() != outputs)
    return InvalidModel(c.inputs(), " inputs and ", c.outputs(), " outputs, ", inputs, " and ", outputs, " expected");
  for (int i = 0; i < inputs; ++i)
    if (!c.has(i)) return InvalidModel("input ", i, " is absent, but required");
  return Ok();
}

/// An error unless the input is float32 of the rank; `sized`: with its height and width known at load.
Status need_image(OperatorContext& c, int input, int rank, bool sized = false) {
  const ValueType& t = c.in_type(input);
  if (t.dtype != DType::kF32) return Unsupported("input ", input, " is ", to_string(t.dtype), ", float32 expected");
  if (!t.ranked) return Unsupported("the rank of input ", input, " must be known at load");
  if (t.shape.rank() != rank)
    return InvalidModel("input ", input, " has rank ", t.shape.rank(), ", ", rank, " expected");
  if (sized && (t.shape[1] < 1 || t.shape[2] < 1))
    return Unsupported("the size of an image of shape ", t.shape.str(), " must be known at load");
  return Ok();
}

/// The version of the operator that the file asks for.
int version_of(OperatorContext& c) {
  return c.reader().model().operator_codes()->Get(c.op().opcode_index())->version();
}

/// The C struct of a builtin operator's options in the custom options: a row of int32.
template <size_t n>
Result<std::array<int32_t, n>> raw_options(OperatorContext& c) {
  SMELT_ASSIGN(const auto bytes, custom_bytes(c));
  if (bytes.size() < n * sizeof(int32_t))
    return InvalidModel("custom options of ", bytes.size(), " bytes, at least ", n * sizeof(int32_t), " expected");
  std::array<int32_t, n> out;
  for (size_t i = 0; i < n; ++i) out[i] = read_le<int32_t>(std::as_bytes(bytes), i * sizeof(int32_t));
  return out;
}

/// TfLitePadding counts from an unknown padding on.
Result<AutoPad> raw_padding(int32_t padding) {
  if (padding == 1) return AutoPad::kSameUpper;
  if (padding == 2) return AutoPad::kValid;
  return InvalidModel("padding ", padding, ", 1 or 2 expected");
}

/// TfLitePoolParams.
struct PoolOptions {
  AutoPad padding;
  std::vector<int64_t> strides, kernel;  ///< rows, columns
  Activation act;
};
Result<PoolOptions> pool_options(OperatorContext& c) {
  SMELT_ASSIGN(const auto raw, raw_options<6>(c));
  PoolOptions o;
  SMELT_ASSIGN(o.padding, raw_padding(raw[0]));
  o.strides = {raw[2], raw[1]};
  o.kernel = {raw[4], raw[3]};
  for (const int64_t v : {raw[1], raw[2], raw[3], raw[4]})
    if (v < 1 || v > (1 << 15)) return InvalidModel("stride or window ", v, ", 1 to 32768 expected");
  SMELT_ASSIGN(o.act, clamp_of(static_cast<tfl::ActivationFunctionType>(raw[5])));
  return o;
}

/// The first row, and the first column, of each window [height, width, 1], row by row within the image.
ValueId window_origins(OperatorContext& c, const PoolOptions& o, const Shape& x) {
  int64_t out[2], first[2];
  for (size_t i = 0; i < 2; ++i) {
    const int64_t in = x[static_cast<int>(i) + 1];
    const bool same = o.padding == AutoPad::kSameUpper;
    out[i] = same ? (in + o.strides[i] - 1) / o.strides[i]
                  : std::max<int64_t>(in - o.kernel[i] + o.strides[i], 0) / o.strides[i];
    first[i] = same ? -std::max<int64_t>((out[i] - 1) * o.strides[i] + o.kernel[i] - in, 0) / 2 : 0;
  }
  Tensor t(DType::kI64, Shape{out[0], out[1], 1});
  for (int64_t i = 0; i < out[0]; ++i)
    for (int64_t j = 0; j < out[1]; ++j)
      t.data<int64_t>()[i * out[1] + j] = (first[0] + i * o.strides[0]) * o.kernel[1] + first[1] + j * o.strides[1];
  return c.constant(std::move(t));
}

}  // namespace

Status lower_transpose_conv_bias(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 3, 1));
  SMELT_TRY(need_image(c, 0, 4, true));
  SMELT_TRY(need_image(c, 1, 4, true));
  SMELT_TRY(need_image(c, 2, 1));
  SMELT_ASSIGN(const auto raw, raw_options<3>(c));  // TfLiteTransposeConvParams
  SMELT_ASSIGN(const AutoPad padding, raw_padding(raw[0]));
  ConvTransposeAttrs a;
  a.strides = {raw[2], raw[1]};
  a.dilations = {1, 1};
  a.pads = {0, 0, 0, 0};
  a.output_padding = {0, 0};
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  for (size_t i = 0; i < 2; ++i) {
    if (a.strides[i] < 1 || a.strides[i] > (1 << 15)) return InvalidModel("stride ", a.strides[i]);
    if (padding != AutoPad::kSameUpper) continue;
    const int axis = static_cast<int>(i) + 1;
    const int64_t in = c.in_type(0).shape[axis], kernel = c.in_type(1).shape[axis];
    // The result has the size that the file declares, as LiteRT's delegate gives it; else MediaPipe's rule holds.
    const Shape& declared = c.out_slot(0).shape;
    const int64_t out = declared.rank() == 4 ? declared[axis] : -1;
    const int64_t pad =
        out > 0 ? a.strides[i] * (in - 1) + kernel - out : std::max<int64_t>(0, kernel - (in - 1) % a.strides[i] - 1);
    a.pads[i] = std::max<int64_t>(pad, 0) / 2;
    a.pads[i + 2] = std::max<int64_t>(pad, 0) - a.pads[i];
    a.output_padding[i] = std::max<int64_t>(-pad, 0);
  }
  return c.emit(Op::kConvTranspose, std::move(a), {c.in(0), c.in(1), c.in(2)});
}

/// Output 1 is the place of each maximum within its window, row by row, plus 0.1.
Status lower_max_pool_argmax(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 1, 2));
  SMELT_TRY(need_image(c, 0, 4, true));
  SMELT_ASSIGN(const PoolOptions o, pool_options(c));
  PoolAttrs a;
  a.kernel = o.kernel;
  a.strides = o.strides;
  a.dilations = {1, 1};
  a.auto_pad = o.padding;
  a.act = o.act;
  a.layout = Layout::kChannelsLast;
  a.index = PoolAttrs::Index::kPlane;
  const ValueId plane = c.builder().value("", ValueType{});
  SMELT_TRY(c.emit_to(Op::kPool, a, {c.in(0)}, {c.out(0), plane}));
  // index = row * kernel width + column, both counted from the window's origin.
  const int64_t width = c.in_type(0).shape[2];
  const ValueId row = c.binary(Binary::kDiv, plane, c.scalar(DType::kI64, static_cast<double>(width)));
  const auto step = static_cast<double>(o.kernel[1] - width);
  ValueId index = c.binary(Binary::kAdd, plane, c.binary(Binary::kMul, row, c.scalar(DType::kI64, step)));
  index = c.binary(Binary::kSub, index, window_origins(c, o, c.in_type(0).shape));
  return c.emit_to(Op::kBinary, BinaryAttrs(Binary::kAdd), {c.cast(index, DType::kF32), c.scalar(DType::kF32, 0.1f)},
                   {c.out(1)});
}

Status lower_max_unpool(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 2, 1));
  for (const int i : {0, 1}) SMELT_TRY(need_image(c, i, 4));
  SMELT_ASSIGN(const PoolOptions o, pool_options(c));
  MaxUnpoolAttrs a;
  a.in_window = true;
  a.kernel = o.kernel;
  a.strides = o.strides;
  return c.emit(Op::kMaxUnpool, a, c.ins());
}

Status lower_resampler(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 2, 1));
  for (const int i : {0, 1}) SMELT_TRY(need_image(c, i, 4));
  return c.emit(Op::kSamplePixels, SamplePixelsAttrs(), c.ins());
}

Status lower_transform_tensor(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 2, 1));
  SMELT_TRY(need_image(c, 0, 4));
  SMELT_ASSIGN(const auto options, CustomOptions::of(c));
  SamplePixelsAttrs a;
  a.affine = true;
  a.half_pixel = version_of(c) >= 2;
  if (a.half_pixel) {
    a.height = options.whole("output_height", 0);
    a.width = options.whole("output_width", 0);
  } else {
    if (const std::string mode = options.text("mode"); !mode.empty() && mode != "bilinear")
      return Unsupported("mode '", mode, "', bilinear expected");
    const auto size = options.wholes("output_size");
    if (size.size() != 2) return InvalidModel("output_size has ", size.size(), " numbers, 2 expected");
    a.height = size[0];
    a.width = size[1];
  }
  if (a.height < 1 || a.width < 1 || a.height > (1 << 20) || a.width > (1 << 20))
    return InvalidModel("a result of ", a.height, " x ", a.width, " pixels");
  return c.emit(Op::kSamplePixels, a, c.ins());
}

/// Moves the x and y of landmarks by an affine map; their z stays.
Status lower_transform_landmarks(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 2, 1));
  const bool first = version_of(c) < 2;
  SMELT_TRY(need_image(c, 0, first ? 4 : 3));
  const Shape shape = c.in_type(0).shape;
  int64_t dimensions = shape.back();
  double scale = 1;
  if (first) {
    SMELT_ASSIGN(const auto options, CustomOptions::of(c));
    dimensions = options.whole("dimensions", 3);
    scale = options.real("scale", 1);
    if (scale == 0) return InvalidModel("scale 0");
  } else if (shape[0] != 1) {
    return Unsupported("a batch of ", shape[0], " groups of landmarks, 1 expected");
  }
  if ((dimensions != 2 && dimensions != 3) || shape.back() % dimensions != 0)
    return InvalidModel("landmarks of ", dimensions, " dimensions in shape ", shape.str());
  const ValueType& map = c.in_type(1);
  if (map.dtype != DType::kF32 || !map.ranked || !map.shape.is_static() || map.shape.elements() < 8)
    return InvalidModel("the affine map is ", map.str(), ", 16 numbers expected");
  const ValueId points = c.reshape(c.in(0), {-1, dimensions}), flat = c.reshape(c.in(1), {-1});
  const ValueId x = c.slice(points, 1, 0, 1), y = c.slice(points, 1, 1, 2);
  std::vector<ValueId> moved;
  for (int64_t row = 0; row < 8; row += 4) {
    const auto entry = [&](int64_t i) { return c.slice(flat, 0, row + i, row + i + 1); };
    ValueId shift = entry(3);
    if (scale != 1) shift = c.binary(Binary::kMul, shift, c.scalar(DType::kF32, scale));
    const ValueId sum =
        c.binary(Binary::kAdd, c.binary(Binary::kMul, entry(0), x), c.binary(Binary::kMul, entry(1), y));
    moved.push_back(c.binary(Binary::kAdd, sum, shift));
  }
  if (dimensions == 3) moved.push_back(c.slice(points, 1, 2, 3));
  return c.emit(Op::kReshape, ReshapeAttrs(), {c.concat(moved, 1), c.dims_of(c.in(0))});
}

Status lower_landmarks_matrix(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 1, 1));
  LandmarksMatrixAttrs a;
  a.version2 = version_of(c) >= 2;
  SMELT_TRY(need_image(c, 0, a.version2 ? 3 : 4));
  SMELT_ASSIGN(const auto options, CustomOptions::of(c));
  a.left = options.whole("left_rotation_idx", 0);
  a.right = options.whole("right_rotation_idx", 0);
  if (a.version2) {
    a.subset = options.wholes("subset_idxs");
    a.crop_height = options.whole("output_height", 0);
    a.crop_width = options.whole("output_width", 0);
    a.scale_x = options.real("scale_x", 0);
    a.scale_y = options.real("scale_y", 0);
    a.rotation = options.real("target_rotation_radians", 0);
  } else {
    const auto crop = options.wholes("output_hw"), image = options.wholes("input_hw");
    if (crop.size() != 2 || image.size() != 2)
      return InvalidModel("output_hw and input_hw have ", crop.size(), " and ", image.size(), " numbers, 2 expected");
    if (const int64_t n = options.whole("dimensions", 0); n != 3)
      return Unsupported("landmarks of ", n, " dimensions, 3 expected");
    a.subset = options.wholes("subset");
    a.crop_height = crop[0];
    a.crop_width = crop[1];
    a.image_height = image[0];
    a.image_width = image[1];
    a.scale_x = a.scale_y = options.real("bbox_size_multiplier", 0);
    a.range = options.whole("landmarks_range", 0);
  }
  if (a.scale_x == 0 || a.scale_y == 0) return InvalidModel("the crop has a scale of 0");
  return c.emit(Op::kLandmarksMatrix, std::move(a), c.ins());
}

Status lower_audio_spectrogram(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 1, 1));
  SMELT_ASSIGN(const auto options, CustomOptions::of(c));
  SpectrogramAttrs a;
  a.window = options.whole("window_size", 0);
  a.stride = options.whole("stride", 0);
  a.squared = options.flag("magnitude_squared");
  return c.emit(Op::kSpectrogram, a, c.ins());
}

Status lower_mfcc(OperatorContext& c) {
  SMELT_TRY(need_operands(c, 2, 1));
  SMELT_ASSIGN(const auto options, CustomOptions::of(c));
  MfccAttrs a;
  a.lower = static_cast<double>(options.whole("lower_frequency_limit", 0));
  a.upper = static_cast<double>(options.whole("upper_frequency_limit", 0));
  a.channels = options.whole("filterbank_channel_count", 0);
  a.coefficients = options.whole("dct_coefficient_count", 0);
  return c.emit(Op::kMfcc, a, c.ins());
}

}  // namespace smelt::tflite
