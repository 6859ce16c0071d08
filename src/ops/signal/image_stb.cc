#include "ops/signal/image_stb.h"

#include <algorithm>
#include <cstring>

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_MAX_DIMENSIONS (1 << 16)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace smelt::image {

Result<Size> stb_size(Bytes bytes) {
  if (bytes.size() > INT32_MAX) return LimitReached("an encoded image of ", bytes.size(), " bytes");
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &channels))
    return InvalidInput("an image that cannot be decoded");
  return Size{width, height};
}

Status stb_decode(Bytes bytes, Size size, uint8_t* rgb) {
  int width = 0, height = 0;
  uint8_t* pixels = stb_pixels(bytes, 3, width, height);
  if (!pixels) return InvalidInput("an image that cannot be decoded");
  const bool same = width == size.width && height == size.height;
  if (same) std::memcpy(rgb, pixels, static_cast<size_t>(3 * size.width * size.height));
  stbi_image_free(pixels);
  if (!same) return InvalidInput("the image changes its size while it is read");
  return Ok();
}

bool stb_recognises(Bytes bytes) {
  stbi__context context;
  stbi__start_mem(&context, bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX)));
  return stbi__png_test(&context) || stbi__bmp_test(&context) || stbi__jpeg_test(&context);
}

uint8_t* stb_pixels(Bytes bytes, int channels, int& width, int& height) {
  int stored = 0;
  return stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &stored, channels);
}

const char* stb_failure() { return stbi_failure_reason(); }

const Codec kPng = {"PNG", [](Bytes b) { return starts_with(b, Bytes{{0x89, 'P', 'N', 'G'}}); }, stb_size, stb_decode};
const Codec kBmp = {"BMP", [](Bytes b) { return starts_with(b, Bytes{{'B', 'M'}}); }, stb_size, stb_decode};

}  // namespace smelt::image
