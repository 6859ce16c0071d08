#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

enum class PoolKind : uint8_t { kMax, kAverage, kLp };
inline SMELT_ENUM_NAMES(PoolKind, "max", "average", "lp");

/// Sliding-window pooling, spatial rank >= 1.
struct PoolAttrs : Attrs {
  PoolKind kind = PoolKind::kMax;
  std::vector<int64_t> kernel, strides, dilations, pads;
  AutoPad auto_pad = AutoPad::kExplicit;
  bool ceil_mode = false;
  bool torch_ceil = false;         ///< PyTorch's rule; ONNX drops windows that start in the end padding as well
  bool count_include_pad = false;  ///< kAverage
  int64_t divisor_override = 0;    ///< kAverage; 0: none
  double p = 2;                    ///< kLp
  bool mean_square = false;        ///< kLp as TFLite's L2_POOL_2D: sqrt(mean(x^2))
  bool global = false;             ///< the window is the whole image
  Layout layout = Layout::kChannelsFirst;
  Activation act;
  Rounding rounding = Rounding::kFloatHalfEven;
  /// Meaning of output 1 of kMax: index into the flattened tensor (ONNX row- or column-major), into the image plane
  /// (PyTorch), or into the window (XNNPACK ArgMaxPooling2d: kx * height + ky).
  enum class Index : uint8_t { kTensorRow, kTensorColumn, kPlane, kWindowColumn } index = Index::kTensorRow;
  friend SMELT_ENUM_NAMES(Index, "tensor_row_major", "tensor_column_major", "plane", "window_column_major");
  DType index_dtype = DType::kI64;
  SMELT_FIELDS(kind, kernel, strides, dilations, pads, auto_pad, ceil_mode, torch_ceil, count_include_pad,
               divisor_override, p, mean_square, global, layout, act, rounding, index, index_dtype)
};

struct AdaptivePoolAttrs : Attrs {
  PoolKind kind = PoolKind::kAverage;
  std::vector<int64_t> output;  ///< spatial sizes
  Layout layout = Layout::kChannelsFirst;
  SMELT_FIELDS(kind, output, layout)
};

struct MaxUnpoolAttrs : Attrs {
  std::vector<int64_t> kernel, strides, pads;
  /// MediaPipe's MaxUnpooling2D: x [N, H, W, C] -> y [N, H * kernel, W * kernel, C]. The indices are reals that count
  /// row by row within the window; those that lead out of y have no effect. `pads` is empty: SAME's rule gives them.
  bool in_window = false;
  SMELT_FIELDS(kernel, strides, pads, in_window)
};

/// The shape that pooled to x: what the indices of unpooling refer to. -1 where x's is.
Result<Shape> unpooled_shape(const MaxUnpoolAttrs& a, const Shape& x);

struct RoiAttrs : Attrs {
  bool max = false;        ///< else average
  bool legacy = false;     ///< MaxRoiPool: integer bins; else RoiAlign
  bool half_pixel = true;  ///< RoiAlign coordinate_transformation_mode
  int64_t height = 1, width = 1, sampling_ratio = 0;
  double scale = 1;
  bool crop_and_resize =
      false;  ///< com.microsoft.CropAndResize: boxes [n, 4] normalised y1 x1 y2 x2, bilinear or nearest
  bool nearest = false;
  double extrapolation = 0;
  SMELT_FIELDS(max, legacy, half_pixel, height, width, sampling_ratio, scale, crop_and_resize, nearest, extrapolation)
};

/// Samples of RoiAlign along one side of a bin of `bin` pixels; without a ratio a box turned inside out has none, as in
/// ONNX Runtime. A box far larger than the image reads mostly outside of it: `size`, of the image, bounds the samples,
/// so that no box stalls a kernel.
int64_t roi_samples(int64_t ratio, float bin, int64_t size);

}  // namespace smelt
