#include "backends/vulkan/quantize/dynamic_quantize.h"

#include "backends/vulkan/matmul/per_token.h"
#include "ops/matmul/matmul.h"

namespace smelt::vulkan {
namespace {

/// A product of TFLite's hybrid operators by integer dot products of quantized rows.
class DynamicQuantDotProduct final : public Kernel {
 public:
  DynamicQuantDotProduct(const DynamicQuant& rows, PerTokenDotProduct product)
      : rows_{rows}, product_(std::move(product)) {}
  size_t scratch_bytes() const override { return rows_.bytes(); }
  bool reads(size_t i) const override { return i == 0; }
  Status record(KernelRecorder& r) const override {
    SMELT_TRY(rows_.record(r));
    const auto p = rows_.bindings(r, false);
    return product_.record(r, {p[0], p[1], p[2]});
  }

 private:
  QuantizedRows rows_;
  PerTokenDotProduct product_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_dynamic_quant(const KernelSpec& spec) {
  MatMulAttrs a = spec.attrs<MatMulAttrs>();
  const Tensor& b = *spec.constant(1);
  if (!a.dynamic_quant || b.rank() < 2 || a.transpose_a || a.trans_batch_a) return nullptr;
  a.dynamic_quant = false;
  return dynamic_quant_product(spec, make_attrs<MatMulAttrs>(a), b.dim(b.rank() - (a.transpose_b ? 1 : 2)),
                               a.asymmetric_inputs);
}

std::unique_ptr<Kernel> make_matmul_dynamic_quant_dot_product(const KernelSpec& spec) {
  MatMulAttrs a = spec.attrs<MatMulAttrs>();
  if (!a.dynamic_quant) return nullptr;
  a.dynamic_quant = false;
  const Node node = with_attrs(spec.node, make_attrs<MatMulAttrs>(a));
  auto product = PerTokenDotProduct::make(spec.part({node, spec.inputs, spec.constants, spec.outputs}));
  if (!product) return nullptr;
  const auto rows = dynamic_quant_rows(spec, shaders::dynamic_quantize_i8, product->row(), a.asymmetric_inputs);
  return rows ? std::make_unique<DynamicQuantDotProduct>(*rows, std::move(*product)) : nullptr;
}

}  // namespace smelt::vulkan
