#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "backends/cpu/pool/pool_shape.h"

namespace smelt {

/// What sums of windows are multiplied by, and the bounds of the means.
struct MeanScales {
  const float* const* lines;  ///< of each line of output: one a pixel
  float lo, hi;
};

/// Elements of a line of a channels-last image with its padding, and of what may be read behind it.
int64_t plane_line_elements(const PoolShape& s);

/// Lines that are made together, of elements of so many bytes: a load that spans two vectors waits until these are no
/// longer on their way to memory.
int64_t plane_lines(const PoolShape& s, int64_t bytes);

/// Pooling of a channels-last image x into y.
template <class T>
struct PlaneRun {
  const T* x;
  const T* x_end;  ///< of what may be read, behind the image too
  T* y;
  const T* y_end;       ///< of what may be overwritten, behind the lines that are made too
  const T** taps;       ///< one for each line under a window
  T* lines;             ///< plane_lines() of plane_line_elements()
  int64_t first, last;  ///< lines of the output that are made
};

/// The lines of the image under a window become one, and windows of this one a line of the output.
struct PlanePools {
  void (*max_f32)(const PoolShape& s, const PlaneRun<float>& run);                  ///< no element is NaN
  void (*max_i8)(const PoolShape& s, bool is_signed, const PlaneRun<int8_t>& run);  ///< else the bytes are uint8
  void (*mean_f32)(const PoolShape& s, const MeanScales& scales, const PlaneRun<float>& run);
  bool (*has_nan)(const float* x, int64_t n);
};
const PlanePools& plane_pools(Isa isa);

}  // namespace smelt
