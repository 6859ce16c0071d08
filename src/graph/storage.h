#pragma once

#include <cstdint>

namespace smelt {

/// Memory of a tensor on a GPU: a buffer of its elements, or an image whose texels hold four of them.
enum class Storage : uint8_t { kAny, kBuffer, kTexture3D, kTexture2D };

/// The dimension that the four elements of a texel come from: width is the last one, channels the third-last.
enum class Packing : uint8_t { kAny, kWidth, kHeight, kChannels };

/// Storage that a model asks for a value; kAny: the layout pass chooses.
struct StorageHint {
  Storage storage = Storage::kAny;
  Packing packing = Packing::kAny;
};

}  // namespace smelt
