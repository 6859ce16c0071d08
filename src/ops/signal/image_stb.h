#pragma once

#include "ops/signal/image_codecs.h"

namespace smelt::image {

/// PNG, BMP and JPEG through stb_image.
Result<Size> stb_size(Bytes bytes);
Status stb_decode(Bytes bytes, Size size, uint8_t* rgb);

/// True for a file of these formats by its first bytes.
bool stb_recognises(Bytes bytes);
/// Interleaved 8-bit pixels of `channels` (1 to 4), to be freed by free(); nullptr: stb_failure() says why. At most 2
/// GiB.
uint8_t* stb_pixels(Bytes bytes, int channels, int& width, int& height);
const char* stb_failure();

}  // namespace smelt::image
