#include "backends/cpu/conv/conv_transpose_f32.h"

namespace smelt {

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_transpose_bf16(const KernelSpec& spec) {
  auto kernel = make_conv_transpose_tiles_by(gemm_bf16(spec.isa), spec);
  return kernel ? std::move(kernel) : spec.refuse("filters overlap");
}

}  // namespace smelt
