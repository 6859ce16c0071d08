#include "ops/signal/image_codecs.h"

#include <algorithm>

namespace smelt::image {

bool starts_with(Bytes bytes, Bytes magic, size_t at) {
  return bytes.size() >= at + magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
}

const Codec* codec_of(Bytes bytes) {
  static const Codec* const codecs[] = {&kJpeg, &kJpeg2000, &kPng, &kBmp, &kTiff, &kWebp, &kPnm};
  for (const Codec* c : codecs)
    if (c->recognises(bytes)) return c;
  return nullptr;
}

}  // namespace smelt::image
