#include <cstring>

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_MAX_DIMENSIONS (1 << 16)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

#include "base/error.h"
#include "ops/op.h"
#include "ops/shape/rules.h"
#include "ops/signal/signal.h"

namespace smelt {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 28;

}  // namespace

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
  if (x.elements() > INT32_MAX) return LimitReached("an encoded image of ", x.elements(), " bytes");
  const auto* bytes = x.data<stbi_uc>();
  const auto size = static_cast<int>(x.elements());
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(bytes, size, &width, &height, &channels))
    return InvalidInput("the image is not a JPEG, PNG, BMP or PNM file");
  if (static_cast<int64_t>(width) * height > kMaxPixels) return LimitReached("an image of ", width, " x ", height);
  const bool gray = format == "Grayscale";
  // The output is charged against the memory limit before anything is decoded.
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kU8, Shape{height, width, gray ? 1 : 3}));
  stbi_uc* pixels = stbi_load_from_memory(bytes, size, &width, &height, &channels, 3);
  if (!pixels) return InvalidInput("the image cannot be decoded: ", stbi_failure_reason());
  auto* out = y->data<uint8_t>();
  const int64_t n = y->dim(0) * y->dim(1);
  if (n != static_cast<int64_t>(width) * height) {
    stbi_image_free(pixels);
    return InvalidInput("the image changes its size while it is read");
  }
  for (int64_t i = 0; i < n; ++i) {
    const stbi_uc* p = pixels + 3 * i;
    if (gray) {
      // ITU-R 601 luma in 16-bit fixed point, rounded.
      out[i] = static_cast<uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
    } else {
      out[3 * i] = format == "BGR" ? p[2] : p[0];
      out[3 * i + 1] = p[1];
      out[3 * i + 2] = format == "BGR" ? p[0] : p[2];
    }
  }
  stbi_image_free(pixels);
  return Ok();
}

}  // namespace smelt
