// Functions of 8- and 16-bit values as lookup tables that the reference kernel fills.
#include <cstring>

#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/common/run_reference.h"
#include "shaders/lookup_table.h"
#include "shaders/lookup_table_pair.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

/// By the width of the result, for indices of 8 and of 16 bits.
constexpr shaders::Variant<shaders::LookupTable> kShaders[][2] = {
    {shaders::lookup_table_u8_8, shaders::lookup_table_u16_8},
    {shaders::lookup_table_u8_16, shaders::lookup_table_u16_16},
    {shaders::lookup_table_u8_32, shaders::lookup_table_u16_32},
    {shaders::lookup_table_u8_64, shaders::lookup_table_u16_64}};

/// True for per-tensor quantization parameters or none.
bool per_tensor_or_none(const ValueType& t) { return !t.quant || is_per_tensor(t.quant); }

/// Every value of an 8- or 16-bit type, in the order of its bits as an unsigned integer.
Tensor all_values(const ValueType& type, const Shape& shape) {
  Tensor t(type.dtype, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    if (bit_width(type.dtype) == 16)
      t.data<uint16_t>()[i] = static_cast<uint16_t>(i);
    else
      t.data<uint8_t>()[i] = static_cast<uint8_t>(type.dtype == DType::kBool ? i != 0 : i);
  }
  t.set_quant(type.quant);
  return t;
}

/// The reference kernel's results for all values of the first `inputs` inputs; undefined if a later input is not a
/// constant of one element, or the kernel fails.
Tensor make_results(const KernelSpec& spec, size_t inputs) {
  const int64_t n = bit_width(spec.inputs[0].dtype) == 16 ? 65536 : 256;
  std::vector<Datum> in;
  in.emplace_back(all_values(spec.inputs[0], inputs == 2 ? Shape{n, 1} : Shape{n}));
  if (inputs == 2) in.emplace_back(all_values(spec.inputs[1], Shape{1, 256}));
  for (size_t i = inputs; i < spec.inputs.size(); ++i) {
    if (spec.has(i) && (!spec.constant(i) || spec.constant(i)->elements() != 1)) return {};
    in.push_back(spec.has(i) ? Datum(spec.constant(i)->reshaped(Shape{})) : Datum());
  }
  Tensor out(spec.outputs[0].dtype, inputs == 2 ? Shape{n, 256} : Shape{n});
  out.set_quant(spec.outputs[0].quant);
  auto results = run_reference(spec.node, std::move(in), {std::move(out)});
  return results.ok() ? std::move(results->front()) : Tensor();
}

Arg table_of(const Tensor& results) {
  const auto* bytes = static_cast<const std::byte*>(results.raw());
  return table("results", std::vector(bytes, bytes + results.bytes()));
}

}  // namespace

std::unique_ptr<Kernel> make_lookup_table(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const int width = element_width_index(y.dtype);
  if (!per_tensor_or_none(x) || !per_tensor_or_none(y) || width < 0 || x.shape != y.shape) return nullptr;
  Tensor results = make_results(spec, 1);
  if (!results.defined()) return nullptr;
  const uint32_t n = u32(y.shape.elements());
  return shader_kernel(kShaders[width][bit_width(x.dtype) == 16 ? 1 : 0], {}, {input(0), table_of(results), output(0)},
                       n, {.n = n});
}

std::unique_ptr<Kernel> make_lookup_table_pair(const KernelSpec& spec) {
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1], &y = spec.outputs[0];
  if (!per_tensor_or_none(a) || !per_tensor_or_none(b) || !per_tensor_or_none(y)) return nullptr;
  const auto walk = Walk<2>::make(y.shape, {broadcast_strides(a.shape, y.shape), broadcast_strides(b.shape, y.shape)});
  if (!walk) return nullptr;
  Tensor results = make_results(spec, 2);
  if (!results.defined()) return nullptr;
  return shader_kernel(shaders::lookup_table_pair, {}, {input(0), input(1), table_of(results), output(0)}, walk->n,
                       {.walk = *walk});
}

}  // namespace smelt::vulkan
