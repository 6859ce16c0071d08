// Products of two matrices in textures. conv/conv_texture.cc runs those with constant weights.
#include "ops/matmul/matmul.h"

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt::vulkan {
namespace {

/// The layout of matmul_texture.comp.
struct MatMulTexturePush {
  GpuSize a, b, y;
  int32_t depth;
  uint32_t n;
  float alpha;
  GpuActivation act;
};

class MatMulTexture final : public TextureKernel {
 public:
  MatMulTexture(const ImageLayout& a, const ImageLayout& b, const ImageLayout& y, const MatMulAttrs& attrs,
                int32_t depth, bool fp16_multiply)
      : TextureKernel({a, b}, y),
        turn_a_(attrs.transpose_a),
        turn_b_(attrs.transpose_b),
        fp16_multiply_(fp16_multiply),
        push_{a.size, b.size, y.size, depth, 0, static_cast<float>(attrs.alpha), gpu_activation(attrs.act)} {
    const auto t = y.texels();
    push_.n = t[0] * ((t[1] + 3) / 4) * t[2];
  }
  void set_row(const FloatOperand& row) { row_ = row; }
  bool prefers_textures() const override { return true; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding a, r.input(0));
    SMELT_ASSIGN(const Binding b, r.input(1));
    SMELT_ASSIGN(const Binding row, row_ ? row_->bind(r) : no_buffer(r));
    return dispatch(r, fp16_multiply_ ? "matmul_fp16_multiply" : "matmul",
                    {turn_a_ ? 1u : 0u, turn_b_ ? 1u : 0u, row_ ? 1u : 0u}, {a, b, row, r.output(0)}, push_.n, push_);
  }

 private:
  bool turn_a_, turn_b_, fp16_multiply_;
  MatMulTexturePush push_;
  std::optional<FloatOperand> row_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (spec.form.packing != Packing::kWidth || attrs.hybrid || attrs.flatten_a || attrs.trans_batch_a ||
      attrs.trans_batch_b || (spec.has(2) && attrs.beta != 1) || !unquantized_floats(spec, {0, 1}, {0}))
    return nullptr;
  const Shape &a = spec.inputs[0].shape, &b = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  if (a.rank() < 2 || b.rank() < 2 || y.rank() != std::max(a.rank(), b.rank())) return nullptr;
  const auto m = MatMulShape::make(spec);
  if (!m || m->k == 0 || m->k > kMaxLoopIterations || (spec.has(2) && !m->is_row(spec.inputs[2].shape))) return nullptr;
  const auto a_image = image_of(spec, spec.inputs[0]), b_image = image_of(spec, spec.inputs[1]),
             y_image = image_of(spec, spec.outputs[0]);
  if (!a_image || !b_image || !y_image) return nullptr;
  auto kernel =
      std::make_unique<MatMulTexture>(*a_image, *b_image, *y_image, attrs, static_cast<int32_t>(m->k), spec.fp16);
  if (spec.has(2)) {
    FloatOperand row;
    if (!make_f32_operand(spec, 2, row) || !row.fits(spec.device)) return nullptr;
    kernel->set_row(row);
  }
  return kernel;
}

}  // namespace smelt::vulkan
