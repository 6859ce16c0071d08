#include "formats/onnx/validity.h"

#include <algorithm>
#include <bit>
#include <set>

#include "formats/onnx/lower.h"
#include "formats/rules.h"

namespace smelt::onnx {
namespace {

/// Walks the nodes of a model with the bodies inside them.
class ModelCheck {
 public:
  ModelCheck(const Source& source, const ModelProto& model) : source_(source), model_(model) {}

  Status run() const {
    SMELT_TRY(version());
    for (size_t i = 0; i < model_.graph.inputs.size(); ++i) {
      const ValueInfo& v = model_.graph.inputs[i];
      if (auto s = input(v.type); !s.ok()) return s.error().within(Cat("input ", i, " '", v.name, "'"));
    }
    SMELT_TRY(nodes(model_.graph.nodes, false));
    for (const FunctionProto& f : model_.functions)
      if (auto s = function(f); !s.ok()) return s.error().within(Cat("function '", f.name, "'"));
    return Ok();
  }

 private:
  Status version() const {
    const int64_t ir = model_.ir_version;
    if (ir >= 1 && ir <= kNewestIr) return Ok();
    return breach(source_, Rule::kIrVersion, InvalidModel("IR version ", ir, ", 1 to ", kNewestIr, " exist"));
  }

  Status input(const TypeProto& type) const {
    const TypeProto* t = &type;
    while (t->element && t->kind != TypeProto::Kind::kMap) t = t->element.get();
    const bool tensor = t->kind == TypeProto::Kind::kTensor || t->kind == TypeProto::Kind::kSparseTensor;
    if (t->kind == TypeProto::Kind::kNone || (tensor && t->elem_type == 0))
      return breach(source_, Rule::kUntypedInput, InvalidModel("has no ", tensor ? "element type" : "type"));
    return Ok();
  }

  Status attribute(const AttributeProto& a, bool in_function) const {
    if (a.name.empty()) return InvalidModel("has no name");
    if (!a.ref.empty() && !in_function)
      return InvalidModel("refers to attribute '", a.ref, "' of a function, but stands in none");
    if (a.untyped && model_.ir_version >= 2)
      SMELT_TRY(breach(source_, Rule::kUntypedAttribute, InvalidModel("has no type")));
    if (const uint32_t others = a.fields & ~(uint32_t{1} << (a.type & 31)); others != 0)
      return InvalidModel("has type ", a.type, ", but a value of type ", std::countr_zero(others));
    return a.graph ? nodes(a.graph->nodes, in_function) : Ok();
  }

  Status nodes(const std::vector<NodeProto>& list, bool in_function) const {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < list.size(); ++i) {
      names.clear();
      for (const AttributeProto& a : list[i].attributes) {
        names.push_back(a.name);
        if (auto s = attribute(a, in_function); !s.ok())
          return s.error().within(Cat(node_label(list[i], i), ": attribute '", a.name, "'"));
      }
      std::sort(names.begin(), names.end());
      if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
        return InvalidModel(node_label(list[i], i), ": attribute '", *twice, "': is given twice");
    }
    return Ok();
  }

  Status function(const FunctionProto& f) const {
    if (f.name.empty()) return InvalidModel("has no name");
    std::set<std::string_view> attributes(f.attributes.begin(), f.attributes.end());
    bool twice = attributes.size() < f.attributes.size();
    for (const AttributeProto& a : f.default_attributes) {
      if (auto s = attribute(a, true); !s.ok()) return s.error().within(Cat("attribute '", a.name, "'"));
      twice = twice || !attributes.insert(a.name).second;
    }
    if (twice) return InvalidModel("an attribute is listed twice");
    for (const auto* list : {&f.inputs, &f.outputs})
      if (std::set<std::string_view>(list->begin(), list->end()).size() < list->size())
        return InvalidModel("an ", list == &f.inputs ? "input" : "output", " is listed twice");
    return nodes(f.nodes, true);
  }

  const Source& source_;
  const ModelProto& model_;
};

/// Inputs of one element type: quantized values and their zero point. Where `step` is not 0, the inputs of both that
/// many places on are a pair too, and so on.
struct Pair {
  std::string_view domain, op;
  int data, zero_point, step = 0;
};
constexpr Pair kPairs[] = {
    {"", "DequantizeLinear", 0, 2},
    {"", "QLinearConv", 0, 2},
    {"", "QLinearConv", 3, 5},
    {"", "QLinearMatMul", 0, 2},
    {"", "QLinearMatMul", 3, 5},
    {"", "ConvInteger", 0, 2},
    {"", "ConvInteger", 1, 3},
    {"", "MatMulInteger", 0, 2},
    {"", "MatMulInteger", 1, 3},
    {"com.microsoft", "DequantizeLinear", 0, 2},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, 3},
    {"com.microsoft", "MatMulIntegerToFloat", 0, 4},
    {"com.microsoft", "MatMulIntegerToFloat", 1, 5},
    {"com.microsoft", "QGemm", 0, 2},
    {"com.microsoft", "QGemm", 3, 5},
    {"com.microsoft", "QLinearAdd", 0, 2},
    {"com.microsoft", "QLinearAdd", 3, 5},
    {"com.microsoft", "QLinearAdd", 0, 7},
    {"com.microsoft", "QLinearAveragePool", 0, 2},
    {"com.microsoft", "QLinearAveragePool", 0, 4},
    {"com.microsoft", "QLinearConcat", 2, 1},
    {"com.microsoft", "QLinearConcat", 2, 4, 3},
    {"com.microsoft", "QLinearConv", 0, 2},
    {"com.microsoft", "QLinearConv", 3, 5},
    {"com.microsoft", "QLinearGlobalAveragePool", 0, 2},
    {"com.microsoft", "QLinearGlobalAveragePool", 0, 4},
    {"com.microsoft", "QLinearLeakyRelu", 0, 2},
    {"com.microsoft", "QLinearLeakyRelu", 0, 4},
    {"com.microsoft", "QLinearMul", 0, 2},
    {"com.microsoft", "QLinearMul", 3, 5},
    {"com.microsoft", "QLinearMul", 0, 7},
    {"com.microsoft", "QLinearReduceMean", 0, 2},
    {"com.microsoft", "QLinearReduceMean", 0, 4},
    {"com.microsoft", "QLinearSigmoid", 0, 2},
    {"com.microsoft", "QLinearSigmoid", 0, 4},
    {"com.microsoft", "QLinearSoftmax", 0, 2},
    {"com.microsoft", "QLinearSoftmax", 0, 4},
    {"com.microsoft", "QLinearWhere", 1, 3},
    {"com.microsoft", "QLinearWhere", 4, 6},
    {"com.microsoft", "QLinearWhere", 1, 8},
};

}  // namespace

Status check_model(const Source& source, const ModelProto& model) { return ModelCheck(source, model).run(); }

Status check_zero_points(const Source& source, NodeContext& node) {
  const std::string_view domain = canonical(node.proto().domain);
  for (const Pair& p : kPairs) {
    if (p.op != node.op() || p.domain != domain) continue;
    for (int x = p.data, z = p.zero_point; z < node.inputs(); x += p.step, z += p.step) {
      const DType data = node.dtype(node.opt(x)), zero_point = node.dtype(node.opt(z));
      if (data != DType::kInvalid && zero_point != DType::kInvalid && data != zero_point)
        SMELT_TRY(breach(source, Rule::kZeroPointType,
                         InvalidModel("input ", z, ", a zero point, is ", to_string(zero_point), ", input ", x, " is ",
                                      to_string(data))));
      if (p.step == 0) break;
    }
  }
  return Ok();
}

}  // namespace smelt::onnx
