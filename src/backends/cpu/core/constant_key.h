#pragma once

#include <compare>

#include "smelt/tensor.h"

namespace smelt {

/// A constant as a part of the key of what is packed from it: where its elements lie and what they mean. Tensors of one
/// file may lie in the same bytes.
struct ConstantKey {
  const void* storage = nullptr;
  const void* quant = nullptr;  ///< the object that holds its parameters, which lives as long as the constant
  DType dtype = DType::kInvalid;

  ConstantKey() = default;
  explicit ConstantKey(const Tensor& t) : storage(t.identity()), quant(t.quant().get()), dtype(t.dtype()) {}
  auto operator<=>(const ConstantKey&) const = default;
};

}  // namespace smelt
