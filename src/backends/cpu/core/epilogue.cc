#include "backends/cpu/core/epilogue.h"

#include "base/selection.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"

namespace smelt {

EpilogueF32 EpilogueF32::make(const NodeSpec& node, size_t operand, int input, Isa isa) {
  switch (node.node.op) {
    case Op::kBinary:
      return builds_op("Binary") ? of_binary(node, operand, input, isa) : EpilogueF32{};
    case Op::kUnary:
      return builds_op("Unary") ? of_unary(node, isa) : EpilogueF32{};
    default:
      return {};
  }
}

}  // namespace smelt
