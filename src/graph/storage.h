#pragma once

#include <cstdint>

namespace smelt {

/// What a tensor is on a GPU: elements in a row, or an image whose texels hold four of them.
enum class Storage : uint8_t { kAny, kBuffer, kTexture3D, kTexture2D };

/// The dimension along which a texel's elements lie, of the last three: width is the last one.
enum class Packing : uint8_t { kAny, kWidth, kHeight, kChannels };

/// What a model would have a value be; kAny: the layout pass chooses.
struct StorageHint {
  Storage storage = Storage::kAny;
  Packing packing = Packing::kAny;
};

}  // namespace smelt
