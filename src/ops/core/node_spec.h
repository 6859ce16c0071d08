#pragma once

#include <span>

#include "graph/graph.h"

namespace smelt {

/// A node with the types and constant contents of its operands: all that the choice and geometry of a kernel depend on.
/// Views of the caller's data.
struct NodeSpec {
  const Node& node;
  std::span<const ValueType> inputs;         ///< every dimension known, quantization included; kInvalid where absent
  std::span<const Tensor* const> constants;  ///< contents of inputs; nullptr where dynamic or absent
  std::span<const ValueType> outputs;

  template <class A>
  const A& attrs() const {
    return static_cast<const A&>(*node.attrs);
  }
  bool has(size_t i) const { return i < inputs.size() && inputs[i].dtype != DType::kInvalid; }
  const Tensor* constant(size_t i) const { return i < constants.size() ? constants[i] : nullptr; }
};

/// A tensor of that type and quantization without data, for rules that read no elements.
inline Tensor type_only(const ValueType& t) {
  Tensor tensor = Tensor::view(t.dtype, t.shape, nullptr, nullptr);
  tensor.set_quant(t.quant);
  return tensor;
}

}  // namespace smelt
