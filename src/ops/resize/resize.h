#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct ResizeAttrs : Attrs {
  enum class Mode : uint8_t { kNearest, kLinear, kCubic } mode = Mode::kNearest;
  enum class Coord : uint8_t {
    kHalfPixel,
    kHalfPixelSymmetric,
    kPytorchHalfPixel,
    kAlignCorners,
    kAsymmetric,
    kTfCropAndResize,
    kTfHalfPixelNn,
    kCornersHalfPixel  ///< half pixels of steps (in - 1) / (out - 1): PyTorch's antialiased corners
  } coord = Coord::kHalfPixel;
  enum class Nearest : uint8_t {
    kRoundPreferFloor,
    kRoundPreferCeil,
    kFloor,
    kCeil,
    kFloorOrCeil  ///< kCeil along dimensions that shrink, else kFloor
  } nearest = Nearest::kRoundPreferFloor;
  enum class Keep : uint8_t { kStretch, kNotLarger, kNotSmaller } keep = Keep::kStretch;
  double cubic_a = -0.75, extrapolation = 0;
  bool antialias = false, exclude_outside = false;
  std::vector<int64_t> axes;  ///< that scales, sizes and roi refer to; empty: all
  /// Sizes give the coordinates' scale as in/out computed in float32, as TFLite and PyTorch do (ONNX: given scales).
  bool tflite = false;
  Rounding rounding = Rounding::kFloatHalfEven;
  friend SMELT_ENUM_NAMES(Mode, "nearest", "linear", "cubic");
  friend SMELT_ENUM_NAMES(Coord, "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                          "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn", "corners_half_pixel");
  friend SMELT_ENUM_NAMES(Nearest, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "floor_or_ceil");
  friend SMELT_ENUM_NAMES(Keep, "stretch", "not_larger", "not_smaller");
  SMELT_FIELDS(mode, coord, nearest, keep, cubic_a, extrapolation, antialias, exclude_outside, axes, tflite, rounding)
};

struct GridSampleAttrs : Attrs {
  enum class Mode : uint8_t { kLinear, kNearest, kCubic } mode = Mode::kLinear;
  enum class Padding : uint8_t { kZeros, kBorder, kReflection } padding = Padding::kZeros;
  bool align_corners = false;
  friend SMELT_ENUM_NAMES(Mode, "linear", "nearest", "cubic");
  friend SMELT_ENUM_NAMES(Padding, "zeros", "border", "reflection");
  SMELT_FIELDS(mode, padding, align_corners)
};

/// Resampling of x [N, H, W, C] at points that are given in pixels, bilinear.
struct SamplePixelsAttrs : Attrs {
  /// True: `points` is an affine map (16 numbers, rows x and y of a 4 x 4 matrix count) from the pixels of the result
  /// to those of x, and a point beyond x's outermost pixels gives 0. False: `points` [N, height, width, 2] holds x and
  /// y of each pixel of the result, and only the neighbours outside x count as 0.
  bool affine = false;
  int64_t height = 0, width = 0;  ///< of the result; affine
  bool half_pixel = false;        ///< affine: the map is between pixel centres at 0.5, 1.5, ...
  SMELT_FIELDS(affine, height, width, half_pixel)
};

struct AffineGridAttrs : Attrs {
  bool align_corners = false;
  SMELT_FIELDS(align_corners)
};

}  // namespace smelt
