// Conversions of 8-bit values by a table of 256 entries.
#include "backends/cpu/elementwise/lookup_table.h"
#include "backends/cpu/quantize/dynamic_quant.h"

namespace smelt {

std::unique_ptr<Kernel> make_quantize_lookup_table(const KernelSpec& spec) { return make_unary_lookup_table(spec); }
std::unique_ptr<Kernel> make_dequantize_lookup_table(const KernelSpec& spec) { return make_unary_lookup_table(spec); }

[[gnu::cold]] std::unique_ptr<Kernel> make_dequantize_linear_lookup_table(const KernelSpec& spec) {
  return has_constant_per_tensor_params(spec) ? make_unary_lookup_table(spec) : nullptr;
}

}  // namespace smelt
