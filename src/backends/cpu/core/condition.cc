#include "backends/cpu/core/condition.h"

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
  const auto fails = [&](const auto&... parts) {
    if (why) *why = Cat(parts...);
    return false;
  };
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!spec.has(i)) continue;
    const ValueType& t = spec.inputs[i];
    if (!every_in.has(t)) return fails("input ", i, " is ", type_name(t), ", ", every_in.str(), " expected");
    if (i < in.size() && !in[i].has(t)) return fails("input ", i, " is ", type_name(t), ", ", in[i].str(), " expected");
    if (constants.has(i) && !spec.constant(i)) return fails("input ", i, " is no constant");
  }
  if (!spec.outputs.empty() && !out.has(spec.outputs[0]))
    return fails("output 0 is ", type_name(spec.outputs[0]), ", ", out.str(), " expected");
  if (layout && layout_of(spec) != layout) return fails("the layout is not ", to_string(*layout));
  return true;
}

}  // namespace smelt
