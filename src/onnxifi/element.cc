#include "onnxifi/element.h"

#include <algorithm>
#include <utility>

namespace smelt::onnxifi {
namespace {
// ONNX TensorProto.DataType numbers by DType.
constexpr std::pair<onnxEnum, DType> kTypes[] = {
    {1, DType::kF32},         {2, DType::kU8},      {3, DType::kI8},          {4, DType::kU16},
    {5, DType::kI16},         {6, DType::kI32},     {7, DType::kI64},         {9, DType::kBool},
    {10, DType::kF16},        {11, DType::kF64},    {12, DType::kU32},        {13, DType::kU64},
    {14, DType::kC64},        {15, DType::kC128},   {16, DType::kBF16},       {17, DType::kF8E4M3FN},
    {18, DType::kF8E4M3FNUZ}, {19, DType::kF8E5M2}, {20, DType::kF8E5M2FNUZ}, {21, DType::kU4},
    {22, DType::kI4},         {23, DType::kF4E2M1}, {24, DType::kF8E8M0},     {25, DType::kU2},
    {26, DType::kI2}};
}  // namespace

DType element_type(onnxEnum type) {
  for (const auto& [number, dtype] : kTypes)
    if (number == type) return dtype;
  return DType::kInvalid;
}

onnxEnum element_number(DType dtype) {
  for (const auto& [number, d] : kTypes)
    if (d == dtype) return number;
  return ONNXIFI_DATATYPE_UNDEFINED;
}

size_t element_alignment(DType dtype) {
  const int bits = is_complex(dtype) ? bit_width(dtype) / 2 : bit_width(dtype);
  return static_cast<size_t>(std::max(1, bits / 8));
}

}  // namespace smelt::onnxifi
