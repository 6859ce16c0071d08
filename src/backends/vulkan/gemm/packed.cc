#include "backends/vulkan/gemm/packed.h"

#include <cstdlib>

#include "backends/vulkan/gemm/operand.h"
#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt::vulkan {
namespace {
std::optional<QuantizedGemm> if_zeros_fit(std::optional<QuantizedGemm> product) {
  if (product && !product->zeros_fit()) return std::nullopt;
  return product;
}
}  // namespace

shaders::PackedGeometry packed_geometry(const ConvShape& s) {
  shaders::PackedGeometry p{};
  for (int d = 0; d < 2; ++d) {
    p.x_size[d] = i32(s.in[d + 1]);
    p.y_size[d] = i32(s.out[d + 1]);
    p.kernel[d] = i32(s.kernel[d + 1]);
    p.stride[d] = i32(s.stride[d + 1]);
    p.dilation[d] = i32(s.dilation[d + 1]);
    p.pad[d] = i32(s.pad[d + 1]);
  }
  p.c_in = i32(s.c_in);
  p.c_out = i32(s.c_out);
  p.groups = i32(s.groups);
  p.tiles = i32((s.c_out + kPackedTile - 1) / kPackedTile);
  p.x_pixel = s.channels_last ? i32(s.all_in()) : 1;
  p.x_channel = s.channels_last ? 1 : i32(s.in_pixels());
  p.y_pixel = s.channels_last ? i32(s.all_out()) : 1;
  p.y_channel = s.channels_last ? 1 : i32(s.out_pixels());
  return p;
}

std::string filter_order(const ConvShape& s) {
  std::string order;
  for (const int64_t n : {s.groups, s.c_out, s.c_in, s.taps(), s.filter_o, s.filter_i, s.filter_s})
    order += Cat(' ', n);
  return order;
}

std::optional<ConvShape> conv_2d_shape(const KernelSpec& spec, bool bias) {
  const auto shape = ConvShape::make(spec, bias);
  if (!shape || !shape->planar()) return std::nullopt;
  for (int d = 1; d < 3; ++d)
    if (shape->dilation[d] > 1 << 16 || shape->kernel[d] > 1 << 10 || std::abs(shape->pad[d]) > 1 << 20)
      return std::nullopt;
  return shape;
}

std::optional<ConvShape> matmul_as_conv(const KernelSpec& spec, const MatMulAttrs& attrs, bool addend) {
  if (!spec.constant(1) || attrs.dynamic_quant || spec.inputs[1].shape.rank() != 2) return std::nullopt;
  const auto m = MatMulShape::make(spec);
  if (!m || m->batches != 1 || m->g.a.column_stride != 1 || (m->m > 1 && m->g.a.row_stride != m->k) || m->k == 0)
    return std::nullopt;
  if (addend && spec.has(2) && !m->is_row(spec.inputs[2].shape)) return std::nullopt;
  ConvShape s;
  s.c_in = m->k;
  s.c_out = m->n;
  s.in[2] = s.out[2] = m->m;
  s.channels_last = true;
  s.filter_o = m->g.b.column_stride;
  s.filter_i = m->g.b.row_stride;
  return s;
}

std::optional<QuantizedGemm> exact_quantized_gemm(const KernelSpec& spec, const ConvShape& s) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const int w_axis = filter_output_axis(attrs, spec.inputs[1].shape.rank());
  return if_zeros_fit(QuantizedGemm::make(spec, w_axis, s.all_out(), attrs.rescale_rule()));
}

std::optional<QuantizedGemm> exact_quantized_gemm(const KernelSpec& spec, const MatMulAttrs& attrs,
                                                  const ConvShape& s) {
  const int w_axis = attrs.transpose_b ? 0 : 1;
  return if_zeros_fit(QuantizedGemm::make(spec, w_axis, s.c_out, attrs.rescale_rule()));
}

}  // namespace smelt::vulkan
