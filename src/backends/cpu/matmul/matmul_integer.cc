#include "backends/cpu/conv/conv_integer.h"
#include "backends/cpu/gemm/quantized_weights.h"

namespace smelt {

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_integer(const KernelSpec& spec) {
  const auto s = matmul_by_matrix(spec);
  return s ? make_integer_kernel(spec, pixels(*s)) : nullptr;
}

}  // namespace smelt
