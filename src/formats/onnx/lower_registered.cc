// Operators that the caller registered.
#include "formats/onnx/ops.h"
#include "ops/control/control.h"
#include "smelt/custom_operator.h"

namespace smelt::onnx {

const std::shared_ptr<CustomOperator>* registered_operator(const Source& source, const NodeProto& node) {
  if (!source.options || source.options->custom_operators.empty()) return nullptr;
  const std::string_view domain = canonical(node.domain);
  const std::string name = Cat(domain.empty() ? "ai.onnx" : domain, "::", node.op_type);
  for (const auto& op : source.options->custom_operators)
    if (op && op->name() == name) return &op;
  return nullptr;
}

void lower_registered(NodeContext& n, const std::shared_ptr<CustomOperator>& op) {
  const NodeProto& node = n.proto();
  if (node.message.empty() && !node.attributes.empty())
    return n.fail("attributes of a registered operator are read from .onnx files only");
  std::vector<CustomOperator::TensorType> in, out(static_cast<size_t>(n.outputs()));
  const std::vector<ValueId> inputs = n.all_inputs();
  for (const ValueId id : inputs) {
    if (id == kNoValue) {
      in.emplace_back();
      continue;
    }
    const ValueType& t = n.type(id);
    in.push_back({t.dtype, t.ranked, t.shape, t.quant});
  }
  auto prepared = op->prepare({reinterpret_cast<const std::byte*>(node.message.data()), node.message.size()}, in, out);
  if (!prepared.ok()) return n.fail(prepared.error().message());
  CustomAttrs attrs;
  attrs.op = op;
  attrs.name = op->name();
  attrs.prepared = std::move(prepared).value();
  n.emit(Op::kCustom, std::move(attrs), inputs, n.outputs());
}

}  // namespace smelt::onnx
