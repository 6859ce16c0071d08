#pragma once

#include "ops/signal/image_codecs.h"

namespace smelt::image {

/// PNG, BMP and JPEG through stb_image.
Result<Size> stb_size(Bytes bytes);
Status stb_decode(Bytes bytes, Size size, uint8_t* rgb);

}  // namespace smelt::image
