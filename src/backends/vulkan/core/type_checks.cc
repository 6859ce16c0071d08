#include "backends/vulkan/core/type_checks.h"

#include <cstdlib>

#include "backends/vulkan/device/device.h"

namespace smelt::vulkan {

bool unquantized_floats(const KernelSpec& spec, std::initializer_list<size_t> inputs,
                        std::initializer_list<size_t> outputs) {
  const DType dtype = spec.outputs[*outputs.begin()].dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16) return false;
  for (size_t i : inputs)
    if (!spec.has(i) || spec.inputs[i].dtype != dtype || spec.inputs[i].quant) return false;
  for (size_t i : outputs)
    if (spec.outputs[i].dtype != dtype || spec.outputs[i].quant) return false;
  return true;
}

std::optional<size_t> element_variant(const KernelSpec& spec, std::initializer_list<size_t> inputs, bool to_bool,
                                      DType first) {
  const DType dtype = spec.inputs[*inputs.begin()].dtype;
  const DType second = first == DType::kF32 ? DType::kF16 : DType::kI64;
  if (dtype != first && dtype != second) return std::nullopt;
  if (dtype == DType::kI64 && !spec.device.info().int64) return std::nullopt;
  for (size_t i : inputs)
    if (!spec.has(i) || spec.inputs[i].dtype != dtype || spec.inputs[i].quant) return std::nullopt;
  const ValueType& y = spec.outputs[0];
  if (y.dtype != (to_bool ? DType::kBool : dtype) || y.quant) return std::nullopt;
  return (dtype == first ? 0 : 1) + (to_bool ? 2 : 0);
}

std::optional<bool> environment_switch(const char* name) {
  const char* e = std::getenv(name);
  if (!e || (*e != '0' && *e != '1')) return std::nullopt;
  return *e == '1';
}

std::string type_suffix(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI16:
      return "i16";
    case DType::kU16:
      return "u16";
    case DType::kI32:
      return "i32";
    case DType::kU32:
      return "u32";
    case DType::kI64:
      return "i64";
    case DType::kBool:
      return "bool";
    default:
      return "";
  }
}

int element_width_index(DType dtype) {
  switch (bit_width(dtype)) {
    case 8:
      return 0;
    case 16:
      return 1;
    case 32:
      return 2;
    case 64:
      return 3;
    default:
      return -1;
  }
}

}  // namespace smelt::vulkan
