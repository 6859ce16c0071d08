#pragma once

#include <optional>

#include "backends/vulkan/gemm/integer_product.h"
#include "ops/conv/conv_shape.h"
#include "ops/matmul/matmul.h"

namespace smelt::vulkan {

/// Output channels of an invocation of conv_packed.comp.
inline constexpr int64_t kPackedTile = 16;

/// Of convolutions with packed filters: the layout of conv_packed.comp and dot.comp.
struct PackedGeometry {
  int32_t x_size[2], y_size[2], kernel[2], stride[2], dilation[2], pad[2];
  int32_t c_in, c_out, groups, tiles;
  int32_t x_pixel, x_channel, y_pixel, y_channel;
};
PackedGeometry packed_geometry(const ConvShape& s);

/// Words of four input channels of a filter in dot.comp and matrix.comp.
inline int64_t filter_chunks(const ConvShape& s) { return s.all_out() * s.taps() * ((s.c_in + 3) / 4); }
/// A filter as they read it: [output channel of all groups][tap][input channel], those in fours, zero where there is
/// none. `value`: of an element of the filter, by its place.
template <class T, class Value>
void pack_in_fours(const ConvShape& s, const Value& value, T* to) {
  for (int64_t o = 0; o < s.all_out(); ++o)
    for (int64_t tap = 0; tap < s.taps(); ++tap)
      for (int64_t i = 0; i < (s.c_in + 3) / 4 * 4; ++i)
        *to++ = i < s.c_in ? value(static_cast<size_t>(o * s.filter_o + i * s.filter_i + tap * s.filter_s)) : T{0};
}

/// A convolution of two spatial dimensions at most. `bias`: input 2 is one.
std::optional<ConvShape> plane_conv(const KernelSpec& spec, bool bias = true);
/// A product of rows and one constant matrix, as a convolution of a line of pixels. `addend`: input 2 is one.
std::optional<ConvShape> rows_as_pixels(const KernelSpec& spec, const MatMulAttrs& attrs, bool addend = true);

/// The 8-bit product of a convolution with the shape of plane_conv(), if its zero points fit.
std::optional<IntegerProduct> exact_product(const KernelSpec& spec, const ConvShape& s);
/// The same of a product with the shape of rows_as_pixels().
std::optional<IntegerProduct> exact_product(const KernelSpec& spec, const MatMulAttrs& attrs, const ConvShape& s);

}  // namespace smelt::vulkan
