#include "backends/cpu/conv/conv_nhwc_f32.h"

namespace smelt {

std::unique_ptr<Kernel> make_conv_nhwc_bf16(const KernelSpec& spec) { return make_conv_by(gemm_bf16(spec.isa), spec); }

}  // namespace smelt
