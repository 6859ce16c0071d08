#include "backends/cpu/conv/conv_i16.h"
#include "backends/cpu/gemm/quantized_weights.h"

namespace smelt {

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = matmul_by_constant(spec);
  if (!s || attrs.alpha != 1 || attrs.beta != 1 || spec.inputs[1].shape.rank() != 2 ||
      (spec.has(2) && !s->is_row(spec.inputs[2].shape)))
    return nullptr;
  return make_i16_kernel(spec, pixels(*s), attrs.transpose_b ? 0 : 1, attrs.rescale_rule());
}

}  // namespace smelt
