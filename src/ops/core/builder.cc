#include "ops/core/builder.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/infer.h"
#include "tensor/numeric.h"

namespace smelt {

namespace {
template <class T>
void reserve_more(std::vector<T>& list, size_t more) {
  constexpr size_t kMost = 1 << 16;  // what a file says of itself may be wrong
  more = std::min(more, kMost);
  if (list.capacity() - list.size() < more) list.reserve(std::max(list.size() + more, 2 * list.capacity()));
}
}  // namespace

void Builder::expect(size_t values, size_t nodes) {
  reserve_more(graph().values, values);
  reserve_more(graph().nodes, nodes);
}

void Builder::at(std::string origin, std::string name, std::string where) {
  origin_ = std::move(origin);
  name_ = std::move(name);
  where_ = std::move(where);
}

void Builder::warn(const std::string& text) { module_.warnings.push_back(Cat(where_, " ", origin_, ": ", text)); }

ValueId Builder::input(const std::string& name, const ValueType& type) {
  const ValueId id = value(name, type);
  graph().inputs.push_back(id);
  return id;
}

ValueId Builder::constant(const std::string& name, Tensor tensor) {
  Value v = constant_value(std::move(tensor));
  v.name = name;
  return graph().add_value(std::move(v));
}

ValueId Builder::i64(Int64List values) {
  const auto bytes = std::as_bytes(std::span(values));
  int& made = lists_[{reinterpret_cast<const char*>(bytes.data()), bytes.size()}];
  if (made == 0) made = graph().add_value(constant_integers(values)) + 1;
  return made - 1;
}

ValueId Builder::i64_scalar(int64_t value) {
  Tensor t(DType::kI64, Shape{});
  t.data<int64_t>()[0] = value;
  return constant("", std::move(t));
}
ValueId Builder::f32_scalar(float value) { return scalar(DType::kF32, value); }

ValueId Builder::scalar(DType dtype, double value) {
  Tensor t(dtype, Shape{});
  if (is_integer(dtype))
    set_int(t, 0, static_cast<int64_t>(value));
  else
    set_double(t, 0, value);
  return constant("", std::move(t));
}

Result<std::vector<ValueId>> Builder::node(Op op, AttrsPtr attrs, IntList inputs, int outputs) {
  std::vector<ValueId> out(static_cast<size_t>(outputs));
  for (ValueId& id : out) id = value("", {});
  SMELT_TRY(node_to(op, std::move(attrs), inputs, out));
  return out;
}

Result<ValueId> Builder::op(Op op, AttrsPtr attrs, IntList inputs) {
  SMELT_ASSIGN(auto out, node(op, std::move(attrs), inputs, 1));
  return out[0];
}

Result<ValueId> Builder::op_as(Op op, AttrsPtr attrs, IntList inputs, const ValueType& type) {
  const ValueId out = value("", type);
  SMELT_TRY(node_to(op, std::move(attrs), inputs, {out}));
  return out;
}

Status Builder::node_to(Op op, AttrsPtr attrs, IntList inputs, IntList outputs) {
  Node n{op, inputs.copy(), outputs.copy(), std::move(attrs), name_, origin_, where_, partition_};
  Graph& g = graph();
  for (ValueId id : n.inputs)
    if (id != kNoValue && (id < 0 || static_cast<size_t>(id) >= g.values.size()))
      return Internal("input of ", to_string(op), " is no value");
  std::vector<ValueType> types;
  SMELT_TRY(infer_node(module_, g, n, types));
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    SMELT_TRY(merge_type(g.value(n.outputs[i]).type, types[i], Cat("output ", i)));
  }
  g.nodes.push_back(std::move(n));
  return Ok();
}

}  // namespace smelt
