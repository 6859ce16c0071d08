#include "formats/onnx/stated_attributes.h"

#include "formats/onnx/tensor.h"

namespace smelt::onnx {
namespace {

std::string type_text(const TensorProto& t) {
  std::string dims;
  for (const int64_t d : t.dims) dims += Cat(dims.empty() ? "" : ",", d);
  const DType dtype = dtype_of(t.data_type);
  return json_text(std::string_view(Cat(dtype == DType::kInvalid ? "tensor" : to_string(dtype), "[", dims, "]")));
}

std::string value_text(const AttributeProto& a) {
  switch (a.type) {
    case AttributeProto::kFloat:
      return json_text(a.f);
    case AttributeProto::kInt:
      return json_text(a.i);
    case AttributeProto::kString:
      return json_text(a.s);
    case AttributeProto::kFloats:
      return json_list(a.floats.size(), [&](size_t i) { return json_text(a.floats[i]); });
    case AttributeProto::kInts:
      return json_list(a.ints.size(), [&](size_t i) { return json_text(a.ints[i]); });
    case AttributeProto::kStrings:
      return json_list(a.strings.size(), [&](size_t i) { return json_text(a.strings[i]); });
    case AttributeProto::kTensor:
      return a.tensor ? type_text(*a.tensor) : "null";
    case AttributeProto::kTensors:
      return json_list(a.tensors.size(), [&](size_t i) { return type_text(a.tensors[i]); });
    case AttributeProto::kGraph:
      return a.graph ? json_text(std::string_view(Cat(a.graph->name, ", ", a.graph->nodes.size(), " nodes"))) : "null";
    case AttributeProto::kSparseTensor:
      return json_text(std::string_view("a sparse tensor"));
    case AttributeProto::kTypeProto: {
      if (!a.type_proto) return "null";
      const auto type = value_type(*a.type_proto);
      return json_text(std::string_view(type.ok() ? type->str() : "a type"));
    }
    default:
      return "null";
  }
}

}  // namespace

StatedAttributes stated_attributes(const NodeContext& context, const NodeProto& node) {
  StatedAttributes out;
  for (const AttributeProto& a : node.attributes)
    if (const AttributeProto* value = a.ref.empty() ? &a : context.find_attr(a.name))
      out.emplace_back(std::string(a.name), value_text(*value));
  return out;
}

}  // namespace smelt::onnx
