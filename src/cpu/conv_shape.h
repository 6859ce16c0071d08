#pragma once

#include <cstdint>
#include <optional>

#include "cpu/kernel.h"
#include "ops/conv/geometry.h"

namespace smelt {

/// A convolution with everything known, as one of three spatial dimensions (missing ones in front are of size 1).
struct ConvShape {
  int64_t batch = 1, groups = 1;
  int64_t c_in = 1, c_out = 1;  ///< of one group
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};  ///< pad: before the first element
  bool channels_last = false;
  int64_t filter_o = 0, filter_i = 0, filter_s = 0;  ///< strides of the filter, in elements; o counts over all groups

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  int64_t all_in() const { return groups * c_in; }
  int64_t all_out() const { return groups * c_out; }
  int64_t depth() const { return taps() * c_in; }  ///< length of one dot product
  /// Every output element sees exactly the input element at its place.
  bool pointwise() const {
    return taps() == 1 && stride[0] == 1 && stride[1] == 1 && stride[2] == 1 && pad[0] == 0 && pad[1] == 0 &&
           pad[2] == 0;
  }
  bool depthwise() const { return c_in == 1 && groups > 1; }
  /// The first of the three dimensions does nothing.
  bool planar() const { return in[0] == 1 && out[0] == 1 && kernel[0] == 1 && pad[0] == 0; }

  static constexpr int64_t kMaxStride = 4096;  ///< room for work grows with it
  /// Geometry of a Conv node whose bias fits; nullopt where the kernels do not go (more than three spatial dimensions).
  static std::optional<ConvShape> make(const KernelSpec& spec);
  /// The same from sizes that are known, direct or transposed (then filter_i and filter_o belong to the roles that
  /// the channels play in it).
  static std::optional<ConvShape> of(const ConvGeometry& geometry, const ConvAttrs& attrs, const Shape& filter);
};

/// Copies the patches of output pixels [first, last) of one image into rows of depth() elements in the order
/// (tap, channel). x: channels-last image, at the group's first channel; rows: `row_stride` elements apart. `fill`
/// stands in the padding. Up to kPatchSlack elements behind the last row are overwritten.
inline constexpr int64_t kPatchSlack = 16;
template <class T>
void im2col_rows(const ConvShape& g, const T* x, int64_t first, int64_t last, T fill, T* rows, int64_t row_stride);

/// Copies the patches of output pixels [first, last) as columns: dst[k * width + j], k in the order (channel, tap), j
/// the pixel; columns up to `width` are zero. x: channels-first image, at the group's first channel.
void im2col_panel(const ConvShape& g, const float* x, int64_t first, int64_t last, int64_t width, float* dst);

}  // namespace smelt
