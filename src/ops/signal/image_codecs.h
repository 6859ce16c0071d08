#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"

namespace smelt::image {

using Bytes = std::span<const uint8_t>;

/// Width times height is at most this.
constexpr int64_t kMaxPixels = int64_t{1} << 27;

struct Size {
  int64_t width = 0, height = 0;
};

/// A file format. Bytes are untrusted: decoders neither abort nor print, whatever they read.
struct Codec {
  const char* name;
  bool (*recognises)(Bytes);
  /// From the header, before anything large is allocated.
  Result<Size> (*size)(Bytes);
  /// Writes height x width pixels of red, green and blue; `size` is what size() gave and within kMaxPixels.
  Status (*decode)(Bytes, Size, uint8_t* rgb);
};

/// Null: no format recognises the bytes.
const Codec* codec_of(Bytes bytes);

bool starts_with(Bytes bytes, Bytes magic, size_t at = 0);

extern const Codec kJpeg, kJpeg2000, kPng, kBmp, kPnm, kTiff, kWebp;

}  // namespace smelt::image
