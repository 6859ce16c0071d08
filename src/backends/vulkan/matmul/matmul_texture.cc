// Products of matrices in textures; those with constant weights run as convolutions.
#include "ops/matmul/matmul.h"

#include "backends/vulkan/conv/conv_texture.h"
#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/matmul/matmul_shape.h"
#include "shaders/matmul_texture.h"

namespace smelt::vulkan {
std::unique_ptr<Kernel> make_matmul_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (spec.form.packing != Packing::kWidth || attrs.dynamic_quant || attrs.flatten_a || attrs.trans_batch_a ||
      attrs.trans_batch_b || (spec.has(2) && attrs.beta != 1))
    return nullptr;
  const Shape &a = spec.inputs[0].shape, &b = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  if (a.rank() < 2 || b.rank() < 2 || y.rank() != std::max(a.rank(), b.rank())) return nullptr;
  const auto m = MatMulShape::make(spec);
  if (!m || m->k == 0 || m->k > kMaxLoopIterations || (spec.has(2) && !m->is_row(spec.inputs[2].shape))) return nullptr;
  const auto a_image = image_of(spec, spec.inputs[0]), b_image = image_of(spec, spec.inputs[1]),
             y_image = image_of(spec, spec.outputs[0]);
  if (!a_image || !b_image || !y_image) return nullptr;
  FloatOperand row;
  if (spec.has(2) && (!make_f32_operand(spec, 2, row) || !row.fits(spec.device))) return nullptr;
  using Variants = shaders::Variant<shaders::MatmulTexture>[2];
  static constexpr Variants f32_multiply{shaders::matmul_3d, shaders::matmul_2d},
      fp16_multiply{shaders::matmul_fp16_multiply_3d, shaders::matmul_fp16_multiply_2d};
  const auto t = y_image->texels();
  const uint32_t n = t[0] * ((t[1] + 3) / 4) * t[2];
  auto kernel = texture_kernel({spec.form, {a_image, b_image}, {y_image}}, spec.fp16 ? fp16_multiply : f32_multiply,
                               {.transpose_a = attrs.transpose_a, .transpose_b = attrs.transpose_b, .row = spec.has(2)},
                               {input(0), input(1), spec.has(2) ? float_arg(row) : no_arg(), output(0)}, n,
                               {.a_size = a_image->size,
                                .b_size = b_image->size,
                                .y_size = y_image->size,
                                .depth = i32(m->k),
                                .n = n,
                                .alpha = static_cast<float>(attrs.alpha),
                                .act = gpu_activation(attrs.act)});
  kernel->gains_by_textures = true;
  return kernel;
}

/// The rows are pixels of a channels-last image, the weights a filter of one tap.
std::unique_ptr<Kernel> make_matmul_constant_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (attrs.alpha != 1 || attrs.beta != 1 || attrs.dynamic_quant || attrs.transpose_a || attrs.trans_batch_a ||
      spec.form.packing != Packing::kWidth || spec.inputs[1].shape.rank() != 2 || x.rank() != y.rank() ||
      x.rank() < 2 || x.rank() > 4)
    return nullptr;
  const auto m = MatMulShape::make(spec);
  if (!m || m->k == 0 || m->g.a.column_stride != 1 || x.back() != m->k || y.back() != m->n) return nullptr;
  for (int d = 0; d + 1 < x.rank(); ++d)
    if (x[d] != y[d]) return nullptr;
  if (spec.has(2) && !m->is_row(spec.inputs[2].shape)) return nullptr;
  ConvShape s;
  s.c_in = m->k;
  s.c_out = m->n;
  s.in[2] = s.out[2] = x[x.rank() - 2];
  if (x.rank() > 2) s.in[1] = s.out[1] = x[x.rank() - 3];
  if (x.rank() > 3) s.batch = x[0];
  s.channels_last = true;
  s.filter_o = m->g.b.column_stride;
  s.filter_i = m->g.b.row_stride;
  return conv_texture(spec, s, {.axes = 1, .act = attrs.act});
}

}  // namespace smelt::vulkan
