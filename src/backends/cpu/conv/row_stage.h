#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "backends/cpu/core/epilogue.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// Rows of a channels-last image, of which memory holds `held` neighbours at a time: row y begins
/// (y - first) % held rows behind `data`.
struct ImageRows {
  const std::byte* data;
  int64_t first, held;

  /// All rows of an image; of a volume those of its slices, one behind the other.
  static ImageRows of(const void* image, const ConvShape& g) {
    return {static_cast<const std::byte*>(image), 0, g.in[0] * g.in[1]};
  }
  const float* floats() const { return reinterpret_cast<const float*>(data); }
};

/// What a kernel of a channels-last convolution of images, of float32 or of bytes, offers to one that runs several of
/// them by bands of rows. Rows have the bits that the kernel gives them when it runs alone.
class RowStage {
 public:
  /// What must be there of the input's rows to make some rows of the output.
  enum class Reads : uint8_t {
    kImage,  ///< all
    kBand,   ///< those under them but not under rows made before, one behind the other
    kRing,   ///< those under them
  };
  virtual Reads reads() const = 0;
  virtual const ConvShape& shape() const = 0;
  /// Of an element of the input and the output.
  virtual int64_t element_bytes() const { return sizeof(float); }
  virtual const EpilogueF32& row_epilogue() const {
    static const EpilogueF32 none;
    return none;
  }
  /// True if rows() can write words of two bfloat16, for a stage that takes them.
  virtual bool can_make_words() const { return false; }
  /// Rows are words from now on, half as long. Precondition: can_make_words(), and rows() writes them all at once.
  virtual void make_words() {}
  /// True if rows() makes words of the input's rows: it can take them as such.
  virtual bool can_take_words() const { return false; }
  /// The input's rows are words from now on. Precondition: can_take_words().
  virtual void take_words() {}
  /// Bytes of the scratch that rows() gets, a thread's own, aligned to 64 bytes.
  virtual int64_t row_scratch() const { return 0; }
  /// Before the first rows of an image's output or of a part of it: others follow from above to below.
  virtual void begin_rows(std::byte* /*scratch*/) const {}
  /// Makes rows [first, last) of an image's output from y on. epilogue: computed on them; null: none.
  virtual void rows(const ImageRows& x, int64_t first, int64_t last, const EpilogueRun* epilogue, std::byte* scratch,
                    std::byte* y) const = 0;

  /// The rows of the input that rows [first, last) of the output see.
  std::pair<int64_t, int64_t> under(int64_t first, int64_t last) const {
    const ConvShape& g = shape();
    const int64_t begin = std::clamp<int64_t>(first * g.stride[1] - g.pad[1], 0, g.in[1]);
    const int64_t end = (last - 1) * g.stride[1] - g.pad[1] + (g.kernel[1] - 1) * g.dilation[1] + 1;
    return {begin, std::clamp(end, begin, g.in[1])};
  }

 protected:
  ~RowStage() = default;
};

}  // namespace smelt
