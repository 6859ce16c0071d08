#include <utility>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/rules.h"
#include "ops/signal/image_codecs.h"
#include "ops/signal/signal.h"

namespace smelt {

Status infer_ImageDecode(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& format = ctx.attrs<ImageDecodeAttrs>().pixel_format;
  if (format != "RGB" && format != "BGR" && format != "Grayscale") return Unsupported("pixel format '", format, "'");
  const ValueType& x = ctx.input(0);
  if (x.dtype != DType::kU8 && x.dtype != DType::kInvalid)
    return InvalidModel("the encoded image is ", to_string(x.dtype), ", uint8 expected");
  ctx.set(0, ValueType::tensor(DType::kU8, Shape{-1, -1, format == "Grayscale" ? 1 : 3}));
  return Ok();
}

Status reference_ImageDecode(KernelContext& ctx) {
  const auto& format = ctx.attrs<ImageDecodeAttrs>().pixel_format;
  const Tensor& x = ctx.input(0);
  const image::Bytes bytes(x.data<uint8_t>(), static_cast<size_t>(x.elements()));
  const image::Codec* const codec = image::codec_of(bytes);
  if (!codec) return InvalidInput("the image is not a JPEG, JPEG 2000, PNG, BMP, TIFF, WebP or PNM file");
  SMELT_ASSIGN(const image::Size size, codec->size(bytes));
  if (size.width < 1 || size.height < 1 || size.width > image::kMaxPixels / size.height)
    return LimitReached("an image of ", size.width, " x ", size.height);
  const bool gray = format == "Grayscale";
  const int64_t n = size.width * size.height;
  // The pixels are charged against the memory limit before anything is decoded.
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kU8, Shape{size.height, size.width, gray ? 1 : 3}));
  auto* out = y->data<uint8_t>();
  Tensor colors;
  if (gray) {
    SMELT_ASSIGN(colors, Tensor::allocate(DType::kU8, Shape{n, 3}, false));
  }
  uint8_t* rgb = gray ? colors.data<uint8_t>() : out;
  SMELT_TRY(codec->decode(bytes, size, rgb));
  if (format == "BGR")
    for (int64_t i = 0; i < n; ++i) std::swap(out[3 * i], out[3 * i + 2]);
  // ITU-R 601 luma in 16-bit fixed point, rounded.
  for (int64_t i = 0; gray && i < n; ++i)
    out[i] = static_cast<uint8_t>((rgb[3 * i] * 19595 + rgb[3 * i + 1] * 38470 + rgb[3 * i + 2] * 7471 + 0x8000) >> 16);
  return Ok();
}

}  // namespace smelt
