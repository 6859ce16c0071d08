#include "backends/cpu/matmul/matmul_i8_dynamic.h"

namespace smelt {

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_integer_dynamic(const KernelSpec& spec) {
  for (const size_t zeros : {2, 3})
    if (spec.has(zeros) && spec.inputs[zeros].shape.elements() != 1)
      return spec.refuse("zero points of rows or columns");
  const auto s = MatMulShape::make(spec);
  if (!s || s->k == 0) return nullptr;
  const auto is_signed = [&](size_t i) { return spec.inputs[i].dtype == DType::kI8; };
  return make_dynamic_product(*s, QuantizedPair{is_signed(0), is_signed(1), 0, {0}}, std::nullopt, spec);
}

}  // namespace smelt
