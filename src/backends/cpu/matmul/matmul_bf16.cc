#include "backends/cpu/matmul/matmul_f32.h"

namespace smelt {

std::unique_ptr<Kernel> make_matmul_bf16(const KernelSpec& spec) { return make_matmul_by(gemm_bf16(spec.isa), spec); }

}  // namespace smelt
