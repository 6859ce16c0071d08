#pragma once

#include <optional>

#include "ops/conv/conv_shape.h"
#include "ops/matmul/matmul.h"
#include "vulkan/kernels/integer.h"

namespace smelt::vulkan {

/// Output channels of an invocation of shaders/conv_packed.comp.
inline constexpr int64_t kPackedTile = 16;

/// Of convolutions with packed filters: the layout of shaders/conv_packed.comp and dot.comp.
struct PackedGeometry {
  int32_t x_size[2], y_size[2], kernel[2], stride[2], dilation[2], pad[2];
  int32_t c_in, c_out, groups, tiles;
  int32_t x_pixel, x_channel, y_pixel, y_channel;
};
PackedGeometry packed_geometry(const ConvShape& s);

/// A convolution of two spatial dimensions at most. `bias`: input 2 is one.
std::optional<ConvShape> plane_conv(const KernelSpec& spec, bool bias = true);
/// A product of rows and one constant matrix, as a convolution of a line of pixels. `addend`: input 2 is one.
std::optional<ConvShape> rows_as_pixels(const KernelSpec& spec, const MatMulAttrs& attrs, bool addend = true);

/// The 8-bit product of a convolution with the shape of plane_conv(), if its zero points fit.
std::optional<IntegerProduct> exact_product(const KernelSpec& spec, const ConvShape& s);
/// The same of a product with the shape of rows_as_pixels().
std::optional<IntegerProduct> exact_product(const KernelSpec& spec, const MatMulAttrs& attrs, const ConvShape& s);

}  // namespace smelt::vulkan
