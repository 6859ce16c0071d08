#include "ops/core/kernel_condition.h"

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/pool/pool.h"

namespace smelt {
namespace {

/// The layout that a node's attributes say; nullopt: its operator has none.
std::optional<Layout> layout_of(const NodeSpec& spec) {
  switch (spec.node.op) {
    case Op::kConv:
    case Op::kConvInteger:
      return spec.attrs<ConvAttrs>().layout;
    case Op::kConvTranspose:
      return spec.attrs<ConvTransposeAttrs>().layout;
    case Op::kPool:
      return spec.attrs<PoolAttrs>().layout;
    default:
      return std::nullopt;
  }
}

std::string type_name(const ValueType& t) { return Cat(t.quant ? "quantized " : "", to_string(t.dtype)); }

}  // namespace

std::string OperandTypes::str() const {
  std::string names;
  for (int i = 0; i < 2 * kTypes; ++i)
    if (i % kTypes <= static_cast<int>(DType::kC128) && (bits_ >> i & 1) != 0)
      names +=
          Cat(names.empty() ? "" : " or ", i < kTypes ? "" : "quantized ", to_string(static_cast<DType>(i % kTypes)));
  return names;
}

bool KernelCondition::met(const NodeSpec& spec, std::string* why) const {
  // Planning asks for every kernel of every node: texts are made only where somebody reads them.
  const auto fails = [&](const auto& text) {
    if (why) *why = text();
    return false;
  };
  const auto has_type = [&](const char* operand, size_t i, const ValueType& t, const OperandTypes& expected) {
    return expected.has(t) ||
           fails([&] { return Cat(operand, i, " is ", type_name(t), ", ", expected.str(), " expected"); });
  };
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!spec.has(i)) continue;
    const ValueType& t = spec.inputs[i];
    if (!has_type("input ", i, t, every_in) || (i < in.size() && !has_type("input ", i, t, in[i]))) return false;
    if (constants.has(i) && !spec.constant(i)) return fails([&] { return Cat("input ", i, " is no constant"); });
    if (dynamic.has(i) && spec.constant(i)) return fails([&] { return Cat("input ", i, " is a constant"); });
    const ValueType* y = like_out.has(i) ? &spec.outputs[0] : nullptr;
    if (y && (t.dtype != y->dtype || (t.quant && !y->quant)))
      return fails([&] { return Cat("input ", i, " is ", type_name(t), ", output 0 ", type_name(*y)); });
  }
  if (!spec.outputs.empty() && !has_type("output ", 0, spec.outputs[0], out)) return false;
  return !layout || layout_of(spec) == layout || fails([&] { return Cat("the layout is not ", to_string(*layout)); });
}

}  // namespace smelt
