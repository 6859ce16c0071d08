#include "backends/cpu/matmul/matmul_row_f16.h"
#include "ops/conv/conv_shape.h"
#include "tensor/pages.h"

namespace smelt {

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_row_f16(const KernelSpec& spec) {
  if (!float16_source(*spec.constant(1))) return nullptr;
  const auto g = ConvShape::in_lines(spec);
  if (!g || !g->pointwise() || g->batch * g->out_pixels() != 1 || g->groups != 1 || g->filter_o != g->c_in ||
      g->filter_i != 1)
    return spec.refuse("the image is more than a pixel");
  return make_row_times_f16(spec, g->c_in, g->c_out, spec.attrs<ConvAttrs>().act);
}

}  // namespace smelt
