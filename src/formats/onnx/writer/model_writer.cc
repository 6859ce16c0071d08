#include <algorithm>
#include <cstring>

#include "base/cat.h"
#include "formats/onnx/writer/node_writer.h"
#include "tensor/numeric.h"

namespace smelt::onnx {
namespace {

constexpr int kDefaultOpset = 17;      ///< that all current runtimes know
constexpr size_t kSmallConstant = 64;  ///< bytes up to which equal constants are one
constexpr int kMaxDepth = 64;          ///< of nested graphs

/// Tells apart constants: the contents of small ones, the memory of large ones.
std::string constant_key(const Tensor& t) {
  std::string key = Cat(to_string(t.dtype()), t.shape().str());
  if (t.dtype() == DType::kString || t.bytes() > kSmallConstant)
    return Cat(key, "@", reinterpret_cast<uintptr_t>(t.raw()));
  return key.append(t.data<char>(), t.bytes());
}

}  // namespace

Name ModelWriter::fresh(const std::string& base) {
  std::string text = base.empty() ? "value" : base;
  if (!texts_.insert(text).second) {
    int& number = next_number_[text];
    std::string candidate;
    do candidate = Cat(text, "_", ++number);
    while (!texts_.insert(candidate).second);
    text = std::move(candidate);
  }
  out_.names.push_back(std::move(text));
  return static_cast<Name>(out_.names.size()) - 1;
}

void ModelWriter::rename(Name name, const std::string& base) {
  const Name taken = fresh(base);
  out_.names[static_cast<size_t>(name)] = std::move(out_.names[static_cast<size_t>(taken)]);
}

Name ModelWriter::constant(const Tensor& tensor, const std::string& base) {
  const auto [it, fresh_key] = constants_.emplace(constant_key(tensor), kNoName);
  if (!fresh_key) return it->second;
  const Name name = fresh(base);
  it->second = name;
  if (!options_.float16_weights || tensor.dtype() != DType::kF32 || tensor.elements() <= 1) {
    out_.graph.initializers.push_back({name, tensor});
    return name;
  }
  Tensor narrow(DType::kF16, tensor.shape());
  for (int64_t i = 0; i < tensor.elements(); ++i) narrow.data<uint16_t>()[i] = f32_to_f16(tensor.data<float>()[i]);
  kept_.push_back(tensor);
  const Name half = fresh(base + "_float16");
  out_.graph.initializers.push_back({half, std::move(narrow)});
  prologue_.push_back({"Cast", "", "", {half}, {name}, {{"to", type_code(DType::kF32)}}});
  return name;
}

Name ModelWriter::dequantized_constant(const Tensor& tensor, const Quantization& quant, const std::string& base) {
  const auto [it, fresh_key] = constants_.emplace(
      Cat("real ", reinterpret_cast<uintptr_t>(tensor.raw()), " ", reinterpret_cast<uintptr_t>(&quant)), kNoName);
  if (!fresh_key) return it->second;
  Tensor quantized = tensor, real(DType::kF32, tensor.shape());
  quantized.set_quant(std::make_shared<const Quantization>(quant));
  dequantize(quantized, real.data<float>());
  return it->second = constant(real, base);
}

bool ModelWriter::need_opset(int version) {
  if (options_.opset > 0 && version > options_.opset) return false;
  needed_opset_ = std::max(needed_opset_, version);
  return true;
}

int ModelWriter::opset() const { return options_.opset > 0 ? options_.opset : std::max(kDefaultOpset, needed_opset_); }

std::vector<ValueForms> ModelWriter::inline_graph(GraphScope& outer, int index,
                                                  const std::vector<ValueForms>& arguments) {
  const Graph& graph = module_.graphs[static_cast<size_t>(index)];
  GraphScope scope(*this, graph, outer.nodes);
  scope.straight = outer.straight;
  for (size_t i = 0; i < graph.inputs.size() && i < arguments.size(); ++i)
    if (graph.inputs[i] != kNoValue) scope.forms[static_cast<size_t>(graph.inputs[i])] = arguments[i];
  write_nodes(scope);
  std::vector<ValueForms> results;
  const Node nowhere;
  NodeWriter n(scope, nowhere);
  for (const ValueId id : graph.outputs) {
    ValueForms f;
    if (id != kNoValue) {
      n.form(id, false, Order::kAsIs);
      f = scope.forms[static_cast<size_t>(id)];
      if (graph.value(id).constant) f.raw.as_is = n.form(id, false, Order::kAsIs);
    }
    results.push_back(f);
  }
  return results;
}

Name ModelWriter::state(int index, NodeWriter& n) {
  if (!n.scope().straight) {
    n.fail("a variable inside a body of control flow");
    return kNoName;
  }
  State& state = states_[index];
  if (state.now != kNoName) return state.now;
  const StateVar& var = module_.states[static_cast<size_t>(index)];
  state.now = fresh(var.name.empty() ? Cat("state_", index) : var.name);
  Tensor initial;
  if (var.initial.is_tensor()) {
    initial = var.initial.tensor;
  } else if (var.type.is_static()) {
    initial = Tensor(var.type.dtype, var.type.shape);
  } else {
    n.fail("variable '", var.name, "' has no value before it is written");
    return kNoName;
  }
  out_.graph.inputs.push_back({state.now, ValueType::tensor(initial.dtype(), initial.shape()), {}, "variable"});
  out_.graph.initializers.push_back({state.now, std::move(initial)});
  return state.now;
}

void ModelWriter::set_state(int index, NodeWriter& n) {
  if (state(index, n) == kNoName) return;
  states_[index].now = n.raw(0);
  states_[index].written = true;
}

void ModelWriter::write_states(GraphScope& scope) {
  for (const auto& [index, state] : states_) {
    if (!state.written) continue;
    const StateVar& var = module_.states[static_cast<size_t>(index)];
    const Name name = fresh((var.name.empty() ? Cat("state_", index) : var.name) + "_next");
    scope.nodes.push_back({"Identity", "", "", {state.now}, {name}, {}});
    const ValueType& t = var.type;
    out_.graph.outputs.push_back({name,
                                  t.kind == ValueType::Kind::kTensor && t.ranked ? ValueType::tensor(t.dtype, t.shape)
                                                                                 : ValueType::tensor(t.dtype),
                                  {},
                                  "variable"});
  }
}

void ModelWriter::write_nodes(GraphScope& scope) {
  if (++depth_ > kMaxDepth) {
    missing_.push_back({"graph", "", Cat("graphs are nested more than ", kMaxDepth, " deep")});
    --depth_;
    return;
  }
  for (const Node& node : scope.graph.nodes) {
    NodeWriter n(scope, node);
    const OpWriter* writer = find_op_writer(node.op);
    if (writer)
      writer->write(n);
    else
      n.fail("no ONNX operator");
    if (n.ok())
      for (int i = 0; i < n.outputs(); ++i)
        if (n.wants(i) && n.out_type(i).kind == ValueType::Kind::kTensor && n.out_type(i).dtype != DType::kInvalid &&
            type_code(n.out_type(i).dtype) == 0)
          n.fail("ONNX has no element type ", to_string(n.out_type(i).dtype));
    if (n.ok()) continue;
    const std::string place = node.where.empty() ? node.name : node.where;
    missing_.push_back({formats::operator_label(node), formats::operand_types(scope.graph, node),
                        place.empty() ? n.failure() : Cat(place, ": ", n.failure())});
    // Later nodes find something in place of the results, so that all that is missing is listed.
    for (int i = 0; i < n.outputs(); ++i) {
      if (!n.wants(i)) continue;
      ValueForms& f = scope.forms[static_cast<size_t>(node.outputs[static_cast<size_t>(i)])];
      if (f.raw.as_is == kNoName && f.raw.channels_first == kNoName) f.raw.as_is = fresh("missing");
    }
  }
  --depth_;
}

std::vector<int64_t> to_channels_first(int rank) {
  std::vector<int64_t> perm{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
  return perm;
}

std::vector<int64_t> to_channels_last(int rank) {
  std::vector<int64_t> perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

Tensor permuted(const Tensor& t, const std::vector<int64_t>& perm) {
  Shape shape;
  std::vector<int64_t> step;
  const Shape strides = t.shape().strides();
  for (const int64_t p : perm) {
    shape.push_back(t.dim(static_cast<int>(p)));
    step.push_back(strides[static_cast<int>(p)]);
  }
  Tensor out(t.dtype(), shape);
  const int width = bit_width(t.dtype()) / 8;
  std::vector<int64_t> index(perm.size(), 0);
  int64_t from = 0;
  for (int64_t to = 0; to < out.elements(); ++to) {
    if (width > 0)
      std::memcpy(out.data<char>() + to * width, t.data<char>() + from * width, static_cast<size_t>(width));
    else
      set_int(out, to, get_int(t, from));
    for (size_t k = perm.size(); k-- > 0;) {
      from += step[k];
      if (++index[k] < shape[static_cast<int>(k)]) break;
      from -= step[k] * index[k];
      index[k] = 0;
    }
  }
  return out;
}

}  // namespace smelt::onnx
