#include "formats/executorch/aten/aten.h"

namespace smelt::aten {
namespace {

constexpr struct {
  int64_t number;
  DType dtype;
} kScalarTypes[] = {
    {0, DType::kU8},      {1, DType::kI8},        {2, DType::kI16},         {3, DType::kI32},
    {4, DType::kI64},     {5, DType::kF16},       {6, DType::kF32},         {7, DType::kF64},
    {9, DType::kC64},     {10, DType::kC128},     {11, DType::kBool},       {15, DType::kBF16},
    {23, DType::kF8E5M2}, {24, DType::kF8E4M3FN}, {25, DType::kF8E5M2FNUZ}, {26, DType::kF8E4M3FNUZ},
    {27, DType::kU16},    {28, DType::kU32},      {29, DType::kU64},
};

/// 0 bool, 1 integer, 2 real, 3 complex.
int category(DType d) { return d == DType::kBool ? 0 : is_complex(d) ? 3 : is_float(d) ? 2 : 1; }

}  // namespace

DType scalar_type(int64_t number) {
  for (const auto& s : kScalarTypes)
    if (s.number == number) return s.dtype;
  return DType::kInvalid;
}

int64_t scalar_type_number(DType dtype) {
  for (const auto& s : kScalarTypes)
    if (s.dtype == dtype) return s.number;
  return -1;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const int ca = category(a), cb = category(b);
  if (ca == 3 || cb == 3) {
    const bool wide = a == DType::kC128 || b == DType::kC128 || a == DType::kF64 || b == DType::kF64;
    return wide ? DType::kC128 : DType::kC64;
  }
  if (ca != cb) return ca > cb ? a : b;
  if (ca == 2) {
    if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
    if (a == DType::kF32 || b == DType::kF32 || bit_width(a) == bit_width(b)) return DType::kF32;
    return bit_width(a) > bit_width(b) ? a : b;
  }
  const int wa = bit_width(a), wb = bit_width(b);
  if (is_signed_integer(a) == is_signed_integer(b)) return wa > wb ? a : b;
  const DType s = is_signed_integer(a) ? a : b;
  const int ws = is_signed_integer(a) ? wa : wb, wu = is_signed_integer(a) ? wb : wa;
  if (ws > wu) return s;
  return wu == 8 ? DType::kI16 : wu == 16 ? DType::kI32 : DType::kI64;
}

std::pair<std::string, std::string> split_name(std::string_view text) {
  std::string name(text), overload;
  if (auto at = name.find("::"); at != std::string::npos) {
    if (auto dot = name.find('.', at); dot != std::string::npos) {
      overload = name.substr(dot + 1);
      name.resize(dot);
    }
    return {name, overload};
  }
  const auto first = name.find('.'), last = name.rfind('.');
  if (first == std::string::npos) return {"aten::" + name, ""};
  overload = name.substr(last + 1);
  if (first == last) return {"aten::" + name.substr(0, first), overload};
  return {name.substr(0, first) + "::" + name.substr(first + 1, last - first - 1), overload};
}

}  // namespace smelt::aten
