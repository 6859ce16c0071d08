#pragma once

#include <cstdint>

#include "ops/conv/conv_shape.h"

namespace smelt {

/// Copies the patches of output pixels [first, last) of one image into rows of k() elements in the order
/// (tap, channel). x: channels-last image, at the group's first channel; rows: `row_stride` elements apart. `fill`
/// stands in the padding. Up to kPatchSlack elements behind the last row are overwritten.
inline constexpr int64_t kPatchSlack = 16;
template <class T>
void im2col_rows(const ConvShape& g, const T* x, int64_t first, int64_t last, T fill, T* rows, int64_t row_stride);

/// True if im2col_column() copies less than im2col_rows() does: many output lines of few pixels each.
bool has_short_lines(const ConvShape& g);
/// Elements from one row that im2col_column() makes to the next.
int64_t column_stride(const ConvShape& g);
/// Copies the patches of the output pixels of column ox, one image line after the other: rows of k() elements that
/// overlap, column_stride() apart. Else as im2col_rows().
/// Precondition: has_short_lines().
template <class T>
void im2col_column(const ConvShape& g, const T* x, int64_t ox, T fill, T* rows);

/// Copies the patches of output pixels [first, last) as columns: dst[k * width + j], k in the order (channel, tap), j
/// the pixel; columns up to `width` are zero. x: channels-first image, at the group's first channel. Up to kPatchSlack
/// elements behind the panel are overwritten.
void im2col_panel(const ConvShape& g, const float* x, int64_t first, int64_t last, int64_t width, float* dst);

}  // namespace smelt
