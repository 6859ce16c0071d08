#pragma once

#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

/// Shape is input 1. One -1 is inferred; 0 copies x's dimension unless allow_zero.
struct ReshapeAttrs : Attrs {
  bool allow_zero = true;
  SMELT_FIELDS(allow_zero)
};

struct AxisAttrs : Attrs {
  int64_t axis = 0;
  AxisAttrs() = default;
  explicit AxisAttrs(int64_t a) : axis(a) {}
  SMELT_FIELDS(axis)
};

struct TransposeAttrs : Attrs {
  std::vector<int64_t> perm;  ///< empty: reversed, unless input 1 gives it
  TransposeAttrs() = default;
  explicit TransposeAttrs(std::vector<int64_t> p) : perm(std::move(p)) {}
  SMELT_FIELDS(perm)
};

/// ONNX Shape: dimensions [start, end) of x.
struct ShapeOfAttrs : Attrs {
  int64_t start = 0, end = INT64_MAX;
  DType to = DType::kI64;
  SMELT_FIELDS(start, end, to)
};

/// TFLite STRIDED_SLICE: masks as bit sets over the entries of begin, end, strides.
struct StridedSliceAttrs : Attrs {
  int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, shrink_axis_mask = 0;
  bool offset = false;  ///< end is relative to begin
  SMELT_FIELDS(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask, offset)
};

struct PadAttrs : Attrs {
  enum class Mode : uint8_t { kConstant, kReflect, kSymmetric, kEdge, kWrap } mode = Mode::kConstant;
  friend const char* to_string(Mode m) {
    static const char* const names[] = {"constant", "reflect", "symmetric", "edge", "wrap"};
    return names[static_cast<int>(m)];
  }
  /// Pads as TFLite's [rank, 2] (begin, end) rows; else ONNX's begins then ends (of `axes`).
  bool pairs = false;
  SMELT_FIELDS(mode, pairs)
};

struct SplitAttrs : Attrs {
  int64_t axis = 0;
  int64_t count = 0;  ///< without sizes (input 1): parts of ceil(n / count), the last may be smaller
  SMELT_FIELDS(axis, count)
};

struct BlockAttrs : Attrs {
  int64_t block = 1;
  bool to_depth = false;             ///< space to depth; else depth to space
  bool channel_first_order = false;  ///< ONNX mode CRD, PyTorch pixel shuffle; else DCR
  Layout layout = Layout::kChannelsFirst;
  SMELT_FIELDS(block, to_depth, channel_first_order, layout)
};

struct TriangleAttrs : Attrs {
  bool upper = true;
  SMELT_FIELDS(upper)
};

struct AsStridedAttrs : Attrs {
  std::vector<int64_t> size, stride;  ///< strides in elements
  int64_t offset = 0;
  SMELT_FIELDS(size, stride, offset)
};

struct UnfoldAttrs : Attrs {
  int64_t axis = 0, size = 1, step = 1;
  SMELT_FIELDS(axis, size, step)
};

struct DiagonalAttrs : Attrs {
  int64_t offset = 0, axis1 = 0, axis2 = 1;
  SMELT_FIELDS(offset, axis1, axis2)
};

struct FillAttrs : Attrs {
  DType to = DType::kF32;
  double value = 0;
  int64_t offset = 0;  ///< EyeLike: which diagonal
  SMELT_FIELDS(to, value, offset)
};

}  // namespace smelt
