#pragma once

#include <vector>

#include "ops/resize/resize.h"
#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// Parameters of one resized dimension.
struct ResizeAxis {
  int axis = 0;
  int64_t in = -1, out = -1;
  double scale = 1;       ///< out / in as given or derived
  bool has_scale = true;  ///< false: sizes alone were given
  double roi_begin = 0, roi_end = 1;
};

/// The contents of Resize's optional inputs; empty: absent.
struct ResizeRequest {
  std::vector<double> roi, scales;
  std::vector<int64_t> sizes;
};

/// The request in Resize's optional inputs; null: absent, or contents unknown.
ResizeRequest resize_request(const Tensor* roi, const Tensor* scales, const Tensor* sizes);

/// Output sizes and scales of every dimension that is resized (all of attrs.axes), in order. Unknown inputs give
/// unknown outputs.
Result<std::vector<ResizeAxis>> plan_resize(const ResizeAttrs& a, const Shape& x, const ResizeRequest& r);

/// Inputs of one output index along one axis: taps[begin..end).
struct AxisTaps {
  std::vector<int64_t> begin;  ///< out + 1 entries into the lists
  std::vector<int64_t> index;
  std::vector<double> weight;
  std::vector<char> outside;  ///< kTfCropAndResize: the coordinate is outside the image
  bool identity = true;
};
Result<AxisTaps> axis_taps(const ResizeAttrs& a, const ResizeAxis& axis);

}  // namespace smelt
