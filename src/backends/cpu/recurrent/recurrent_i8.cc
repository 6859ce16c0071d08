#include "backends/cpu/core/kernel.h"
#include "ops/recurrent/recurrent.h"
#include "tensor/quant_params.h"

namespace smelt {

std::unique_ptr<Kernel> make_recurrent_f32(const KernelSpec& spec);  // of real weights or quantized ones

[[gnu::cold]] std::unique_ptr<Kernel> make_recurrent_i8(const KernelSpec& spec) {
  const auto& a = spec.attrs<RecurrentAttrs>();
  if (!a.dynamic_quantization || a.cell != RecurrentAttrs::Cell::kLstm)
    return spec.refuse("not an LSTM that rounds its states");
  for (const size_t i : {1, 2}) {
    const Quantization& q = *spec.inputs[i].quant;
    if (!is_per_tensor(spec.inputs[i].quant) && (q.kind != Quantization::Kind::kPerAxis || q.axis != 0))
      return spec.refuse("weights with other scales than one for all or one a row");
  }
  for (size_t i = 4; i < spec.inputs.size(); ++i)
    if (spec.has(static_cast<int>(i)) && (spec.inputs[i].dtype != DType::kF32 || spec.inputs[i].quant))
      return spec.refuse("lengths of sequences, or states that are not float32");
  return make_recurrent_f32(spec);
}

}  // namespace smelt
