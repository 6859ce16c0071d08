#include "graph/graph.h"

#include <memory>
#include <utility>

#include "base/cat.h"

namespace smelt {

const Method* Module::find_method(std::string_view wanted) const {
  if (wanted.empty()) return methods.empty() ? nullptr : &methods.front();
  for (const Method& m : methods)
    if (m.name == wanted) return &m;
  return nullptr;
}

std::string ValueType::str() const {
  switch (kind) {
    case Kind::kSequence:
      return Cat("sequence(", element ? element->str() : "?", ")");
    case Kind::kOptional:
      return Cat("optional(", element ? element->str() : "?", ")");
    case Kind::kMap:
      return "map";
    case Kind::kTensor:
      break;
  }
  std::string out = dtype == DType::kInvalid ? "?" : to_string(dtype);
  out += ranked ? shape.str() : "[...]";
  if (quant) {
    switch (quant->kind) {
      case Quantization::Kind::kPerTensor:
        out += Cat("{scale ", quant->scale(), ", zero point ", quant->zero_point(), "}");
        break;
      case Quantization::Kind::kPerAxis:
        out += Cat("{", quant->scales.size(), " scales, axis ", quant->axis, "}");
        break;
      case Quantization::Kind::kPerBlock:
        out += Cat("{blocks of ", quant->block, ", axis ", quant->axis, "}");
        break;
      case Quantization::Kind::kPerToken:
        out += "{per row at run time}";
        break;
    }
  }
  return out;
}

Value constant_value(Tensor tensor) {
  Value v;
  v.type = ValueType::tensor(tensor.dtype(), tensor.shape(), tensor.quant());
  v.constant = std::make_shared<const Tensor>(std::move(tensor));
  return v;
}
Value constant_integers(Int64List integers) {
  return constant_value(Tensor::from<int64_t>(DType::kI64, Shape{static_cast<int64_t>(integers.size())}, integers));
}

}  // namespace smelt
