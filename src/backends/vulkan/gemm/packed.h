#pragma once

#include <optional>
#include <string>

#include "backends/vulkan/gemm/quantized_gemm.h"
#include "ops/conv/conv_shape.h"
#include "ops/matmul/matmul.h"
#include "shaders/packed_geometry.h"

namespace smelt::vulkan {

/// Output channels that an invocation of conv_packed.comp computes.
inline constexpr int64_t kPackedTile = 16;

/// The sizes of a convolution with a packed filter.
shaders::PackedGeometry packed_geometry(const ConvShape& s);

/// Where a filter of the shape has its elements, for keys of what is made of one: nodes may read a constant in
/// different orders.
std::string filter_order(const ConvShape& s);

/// 32-bit words of a filter as pack_by_4() lays out int8 values.
inline int64_t filter_words(const ConvShape& s) { return s.all_out() * s.taps() * ((s.c_in + 3) / 4); }
/// Packs a filter as [output channel of all groups][tap][input channel], input channels padded with zeros to a multiple
/// of 4. `value(i)` is element i of the filter.
template <class T, class Value>
void pack_by_4(const ConvShape& s, const Value& value, T* to) {
  for (int64_t o = 0; o < s.all_out(); ++o)
    for (int64_t tap = 0; tap < s.taps(); ++tap)
      for (int64_t i = 0; i < (s.c_in + 3) / 4 * 4; ++i)
        *to++ = i < s.c_in ? value(static_cast<size_t>(o * s.filter_o + i * s.filter_i + tap * s.filter_s)) : T{0};
}

/// The shape of a Conv or ConvInteger node of at most two spatial dimensions, within the shaders' limits; else nullopt.
/// `bias`: input 2 is the bias.
std::optional<ConvShape> conv_2d_shape(const KernelSpec& spec, bool bias = true);
/// A product with a constant matrix as a 1x1 convolution whose pixels are the rows; nullopt for other products.
/// `addend`: input 2 is the addend.
std::optional<ConvShape> matmul_as_conv(const KernelSpec& spec, const MatMulAttrs& attrs, bool addend = true);

/// The quantized gemm of a convolution with the shape of conv_2d_shape(), if its zero points fit.
std::optional<QuantizedGemm> exact_quantized_gemm(const KernelSpec& spec, const ConvShape& s);
/// The quantized gemm of a product with the shape of matmul_as_conv(), if its zero points fit.
std::optional<QuantizedGemm> exact_quantized_gemm(const KernelSpec& spec, const MatMulAttrs& attrs, const ConvShape& s);

}  // namespace smelt::vulkan
