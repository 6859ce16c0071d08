#pragma once

#include "ops/common/window.h"
#include "ops/conv/conv.h"

namespace smelt {

/// Sizes of one convolution, derived from operands and attributes. Unknown sizes are -1.
struct ConvGeometry {
  int64_t batch = -1;
  int64_t groups = 1;
  int64_t in_channels = -1, out_channels = -1;  ///< of all groups
  Window window;                                ///< for transposed convolution `out` is the larger image
  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  Shape output_shape(Layout layout) const;
};

/// Positions of a filter's dimensions.
struct FilterDims {
  int output, input, spatial;  ///< `spatial` is the first of them
};
FilterDims filter_dims(FilterLayout layout, int rank);

/// The permutation of a filter's dimensions from one layout to another: dimension perm[i] of the filter becomes
/// dimension i.
std::vector<int64_t> filter_perm(FilterLayout from, FilterLayout to, int rank);

Result<ConvGeometry> conv_geometry(const ConvAttrs& a, const Shape& x, const Shape& filter);

/// `output_shape` holds spatial sizes that were asked for (empty: none).
Result<ConvGeometry> conv_transpose_geometry(const ConvTransposeAttrs& a, const Shape& x, const Shape& filter,
                                             const std::vector<int64_t>& output_shape);

/// Spatial part of a full output shape given as a tensor's contents.
Result<std::vector<int64_t>> spatial_part(const std::vector<int64_t>& full, Layout layout, int rank);

}  // namespace smelt
