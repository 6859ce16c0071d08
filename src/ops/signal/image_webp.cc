#include "ops/signal/image_codecs.h"
#ifdef SMELT_IMAGE_WEBP
#include <webp/decode.h>

#include "base/shared_library.h"
#endif

namespace smelt::image {
namespace {

bool is_webp(Bytes b) {
  return starts_with(b, Bytes{{'R', 'I', 'F', 'F'}}) && starts_with(b, Bytes{{'W', 'E', 'B', 'P'}}, 8);
}

#ifdef SMELT_IMAGE_WEBP

struct Library {
  SharedLibrary library{SMELT_IMAGE_WEBP};
  decltype(&WebPGetInfo) info = library.get<decltype(&WebPGetInfo)>("WebPGetInfo");
  decltype(&WebPDecodeRGBInto) decode = library.get<decltype(&WebPDecodeRGBInto)>("WebPDecodeRGBInto");
};
const Library& webp() {
  static const Library library;
  return library;
}

Result<Size> size_of(Bytes bytes) {
  if (!webp().library.complete()) return Unsupported("a WebP image: ", SMELT_IMAGE_WEBP, " is not installed");
  int width = 0, height = 0;
  if (!webp().info(bytes.data(), bytes.size(), &width, &height)) return InvalidInput("not a valid WebP image");
  return Size{width, height};
}

Status decode(Bytes bytes, Size size, uint8_t* rgb) {
  const size_t stride = 3 * static_cast<size_t>(size.width);
  if (!webp().decode(bytes.data(), bytes.size(), rgb, stride * static_cast<size_t>(size.height),
                     static_cast<int>(stride)))
    return InvalidInput("a WebP image that cannot be decoded");
  return Ok();
}

#else

Result<Size> size_of(Bytes) { return Unsupported("WebP images: built without libwebp"); }
Status decode(Bytes bytes, Size, uint8_t*) { return size_of(bytes).error(); }

#endif

}  // namespace

const Codec kWebp = {"WebP", is_webp, size_of, decode};

}  // namespace smelt::image
