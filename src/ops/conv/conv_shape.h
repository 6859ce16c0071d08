#pragma once

#include <cstdint>
#include <optional>

#include "ops/conv/geometry.h"
#include "ops/core/node_spec.h"

namespace smelt {

/// Sizes of a convolution whose shapes are all known, brought to three spatial dimensions (missing ones come first,
/// with size 1).
struct ConvShape {
  int64_t batch = 1, groups = 1;
  int64_t c_in = 1, c_out = 1;  ///< channels of one group
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};  ///< pad: before the first element
  bool channels_last = false;
  int64_t filter_o = 0, filter_i = 0, filter_s = 0;  ///< strides of the filter, in elements; o counts over all groups

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  int64_t all_in() const { return groups * c_in; }
  int64_t all_out() const { return groups * c_out; }
  int64_t k() const { return taps() * c_in; }  ///< K, the reduction extent of one output element
  /// True if output pixel i depends on input pixel i alone: a matrix product of pixels and the filter.
  bool pointwise() const {
    for (int d = 0; d < 3; ++d)
      if (stride[d] != 1 || pad[d] != 0 || in[d] != out[d]) return false;
    return taps() == 1;
  }
  bool depthwise() const { return c_in == 1 && groups > 1; }
  /// Columns become lines, the elements stay where they are: of images of one pixel's width that the windows keep, the
  /// width comes before the height. Formats spell signals so; kernels work on the pixels of a line at once. Where the
  /// windows of a volume are one pixel of each slice, the slices become the lines of an image; where they lie in one
  /// slice, channels last, the slices become a batch of images.
  ConvShape turned() const;
  /// True if the convolution has at most two spatial dimensions.
  bool planar() const { return in[0] == 1 && out[0] == 1 && kernel[0] == 1 && pad[0] == 0; }

  static constexpr int64_t kMaxStride = 4096;  ///< kernels size their workspace by the stride
  /// Geometry of a Conv node; `bias`: input 2 is a bias. nullopt for what kernels don't support: more than three
  /// spatial dimensions, strides above kMaxStride, a bias or output shape that does not fit.
  static std::optional<ConvShape> make(const NodeSpec& spec, bool bias = true);
  /// make(), turned().
  static std::optional<ConvShape> in_lines(const NodeSpec& spec);
  /// Geometry of a direct or transposed convolution from checked sizes; nullopt as for make(). For a transposed one
  /// filter_i and filter_o are the strides of that convolution's own input and output channels.
  static std::optional<ConvShape> of(const ConvGeometry& geometry, const ConvAttrs& attrs, const Shape& filter);
};

/// The dimension of output channels in filters of `rank` dimensions.
int filter_output_axis(const ConvAttrs& attrs, int rank);

}  // namespace smelt
