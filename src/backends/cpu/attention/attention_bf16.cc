#include "backends/cpu/attention/attention_f32.h"

namespace smelt {

[[gnu::cold]] std::unique_ptr<Kernel> make_attention_bf16(const KernelSpec& spec) {
  return make_attention_by(gemm_bf16(spec.isa), spec);
}

}  // namespace smelt
