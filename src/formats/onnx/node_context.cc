#include "base/error.h"
#include "formats/onnx/lower.h"
#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::onnx {

namespace {
constexpr size_t kMaxSparseAttribute = size_t{64} << 20;
}

NodeContext::NodeContext(ModelLowering& lowering, Scope& scope, const NodeProto& node, int64_t version)
    : LoweringContext(scope.builder),
      lowering_(lowering),
      scope_(scope),
      node_(node),
      version_(version),
      values_(node.inputs.size(), kNoValue),
      read_(node.inputs.size(), 0),
      bound_(node.outputs.size(), 0),
      asked_(node.attributes.size(), 0) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty()) continue;
    const auto id = lowering.find(scope, node.inputs[i]);
    if (!id)
      fail("input '", node.inputs[i], "' is not the output of a node, an initializer or an input");
    else
      values_[i] = *id;
  }
}

Status NodeContext::finish() {
  for (size_t i = 0; i < read_.size(); ++i)
    if (!read_[i] && values_[i] != kNoValue) fail("has ", inputs(), " inputs; input ", i, " has no meaning here");
  for (size_t i = 0; i < bound_.size(); ++i)
    if (!bound_[i] && !node_.outputs[i].empty())
      fail("has ", outputs(), " outputs; output ", i, " does not exist here");
  const auto known = attributes_of(node_.domain == "ai.onnx" ? "" : node_.domain, node_.op_type);
  for (size_t i = 0; known && i < asked_.size(); ++i)
    if (!asked_[i] && !lists_attribute(*known, node_.attributes[i].name))
      unsupported("has no attribute '", node_.attributes[i].name, "'");
  return status();
}

ValueId NodeContext::in(int i) {
  if (!has(i)) {
    fail("input ", i, " is missing");
    return kNoValue;
  }
  return opt(i);
}

ValueId NodeContext::opt(int i) {
  if (i >= inputs()) return kNoValue;
  read_[static_cast<size_t>(i)] = 1;
  return values_[static_cast<size_t>(i)];
}

std::vector<ValueId> NodeContext::all_inputs() {
  std::vector<ValueId> out;
  for (int k = 0; k < inputs(); ++k) out.push_back(opt(k));
  return out;
}

std::vector<ValueId> NodeContext::operands(int required, int count) {
  std::vector<ValueId> out;
  for (int k = 0; k < count; ++k) out.push_back(k < required ? in(k) : opt(k));
  while (static_cast<int>(out.size()) > required && out.back() == kNoValue) out.pop_back();
  return out;
}

void NodeContext::ignore(int i) {
  if (i < inputs()) read_[static_cast<size_t>(i)] = 1;
}

int NodeContext::rank_or_fail(ValueId id) {
  const int r = rank(id);
  if (r < 0 && ok()) unsupported("the rank of an input must be known at load");
  return r;
}

const Tensor* NodeContext::const_tensor(int i) { return constant_of(opt(i)); }

std::optional<std::vector<int64_t>> NodeContext::const_ints(int i) {
  const Tensor* t = const_tensor(i);
  if (!t || !is_integer(t->dtype())) return std::nullopt;
  std::vector<int64_t> out(static_cast<size_t>(t->elements()));
  to_ints(*t, out.data());
  return out;
}

std::optional<std::vector<float>> NodeContext::const_floats(int i) {
  const Tensor* t = const_tensor(i);
  if (!t || !is_float(t->dtype())) return std::nullopt;
  std::vector<float> out(static_cast<size_t>(t->elements()));
  to_floats(*t, out.data());
  return out;
}

ValueId NodeContext::typed(int i, const QuantPtr& quant) {
  if (!ok()) return kNoValue;
  Builder& b = builder();
  if (i < inputs() && !node_.inputs[static_cast<size_t>(i)].empty()) {
    const auto it = scope_.names.find(node_.inputs[static_cast<size_t>(i)]);
    if (it != scope_.names.end() && it->second.typed != kNoValue &&
        same_quant_params(b.type(it->second.typed).quant, quant)) {
      ignore(i);
      return it->second.typed;
    }
  }
  return with_quant(in(i), quant);
}

const AttributeProto* NodeContext::find_attr(std::string_view name) const {
  for (const AttributeProto& a : node_.attributes) {
    if (a.name != name) continue;
    asked_[static_cast<size_t>(&a - node_.attributes.data())] = 1;
    if (a.ref.empty()) return &a;
    if (!scope_.attributes) return nullptr;
    for (const auto& [key, value] : *scope_.attributes)
      if (key == a.ref) return value;
    return nullptr;
  }
  return nullptr;
}

namespace {
/// The attribute when it has the type; otherwise null, and a fault unless it is absent.
const AttributeProto* of_type(NodeContext& n, std::string_view name, int64_t type, const char* what) {
  const AttributeProto* a = n.find_attr(name);
  if (a && a->type != type) {
    n.fail("attribute '", name, "' is not ", what);
    return nullptr;
  }
  return a;
}
}  // namespace

int64_t NodeContext::i(std::string_view name, int64_t def) {
  const AttributeProto* a = of_type(*this, name, AttributeProto::kInt, "an integer");
  return a ? a->i : def;
}
void NodeContext::only(std::string_view name, int64_t value) {
  if (const int64_t given = i(name, value); given != value)
    unsupported("attribute '", name, "' is ", given, "; only ", value, " is supported");
}
double NodeContext::f(std::string_view name, double def) {
  const AttributeProto* a = of_type(*this, name, AttributeProto::kFloat, "a float");
  return a ? static_cast<double>(a->f) : def;
}
std::string NodeContext::s(std::string_view name, const std::string& def) {
  const AttributeProto* a = of_type(*this, name, AttributeProto::kString, "a string");
  return a ? std::string(a->s) : def;
}
std::vector<int64_t> NodeContext::ints(std::string_view name) {
  const AttributeProto* a = of_type(*this, name, AttributeProto::kInts, "a list of integers");
  return a ? a->ints : std::vector<int64_t>{};
}
std::vector<float> NodeContext::floats(std::string_view name) {
  const AttributeProto* a = of_type(*this, name, AttributeProto::kFloats, "a list of floats");
  return a ? a->floats : std::vector<float>{};
}
std::vector<double> NodeContext::doubles(std::string_view name) {
  const auto v = floats(name);
  return {v.begin(), v.end()};
}
std::vector<std::string> NodeContext::strings(std::string_view name) {
  const AttributeProto* a = of_type(*this, name, AttributeProto::kStrings, "a list of strings");
  std::vector<std::string> out;
  if (a)
    for (const auto& v : a->strings) out.emplace_back(v);
  return out;
}

std::optional<Tensor> NodeContext::tensor(std::string_view name) {
  const AttributeProto* a = find_attr(name);
  if (!a) return std::nullopt;
  Result<Tensor> t = InvalidModel("is not a tensor");
  if (a->type == AttributeProto::kTensor && a->tensor)
    t = lowering_.tensors().read(*a->tensor);
  else if (a->type == AttributeProto::kSparseTensor && a->sparse)
    t = lowering_.tensors().read_sparse(*a->sparse, kMaxSparseAttribute);
  if (!t.ok()) {
    fail(t.error().within(Cat("attribute '", name, "'")));
    return std::nullopt;
  }
  return std::move(t).value();
}

const GraphProto* NodeContext::graph(std::string_view name) {
  const AttributeProto* a = of_type(*this, name, AttributeProto::kGraph, "a graph");
  if (!a || !a->graph) {
    fail("attribute '", name, "' (a graph) is missing");
    return nullptr;
  }
  return a->graph.get();
}

const TypeProto* NodeContext::type_proto(std::string_view name) {
  const AttributeProto* a = of_type(*this, name, AttributeProto::kTypeProto, "a type");
  return a ? a->type_proto.get() : nullptr;
}

int NodeContext::wanted() const {
  int n = outputs();
  while (n > 0 && !wants(n - 1)) --n;
  return n;
}

ValueId NodeContext::new_output(int i) {
  return builder().value(std::string(node_.outputs[static_cast<size_t>(i)]), ValueType{});
}

void NodeContext::emit(Op op, AttrsPtr attrs, IntList inputs, int count) {
  if (!ok()) return;
  if (count < 0) count = std::max(1, wanted());
  std::vector<ValueId> out;
  for (int k = 0; k < count; ++k) out.push_back(wants(k) ? new_output(k) : kNoValue);
  add_to(op, std::move(attrs), inputs, out);
  for (int k = 0; k < count; ++k)
    if (wants(k)) bind(k, out[static_cast<size_t>(k)]);
}

void NodeContext::bind(int i, ValueId id) {
  if (!ok() || !wants(i)) return;
  const std::string_view name = node_.outputs[static_cast<size_t>(i)];
  bound_[static_cast<size_t>(i)] = 1;
  if (id == kNoValue) {
    scope_.names[name] = {.absent = true};
    return;
  }
  Value& v = builder().graph().value(id);
  if (v.name.empty()) v.name = std::string(name);
  scope_.names[name] = {.value = id};
  refine(i, id);
}

void NodeContext::bind_typed(int i, ValueId id) {
  if (!ok() || !wants(i)) return;
  bound_[static_cast<size_t>(i)] = 1;
  scope_.names[node_.outputs[static_cast<size_t>(i)]] = {.typed = id};
}

namespace {
/// True if two shapes, -1 where unknown, may be one.
bool compatible(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int k = 0; k < a.rank(); ++k)
    if (a[k] >= 0 && b[k] >= 0 && a[k] != b[k]) return false;
  return true;
}
}  // namespace

void NodeContext::refine(int i, ValueId id) {
  const std::string_view name = node_.outputs[static_cast<size_t>(i)];
  const auto it = scope_.infos.find(name);
  if (it == scope_.infos.end()) return;
  auto declared = value_type(it->second->type);
  if (!declared.ok()) return;
  Value& v = builder().graph().value(id);
  v.doc = std::string(it->second->doc);
  ValueType& t = v.type;
  const bool unknown = t.kind == ValueType::Kind::kTensor && t.dtype == DType::kInvalid && !t.ranked;
  if (unknown) {
    t = *declared;
    return;
  }
  if (t.kind != ValueType::Kind::kTensor || declared->kind != ValueType::Kind::kTensor) return;
  if (t.dtype == DType::kInvalid) t.dtype = declared->dtype;
  if (declared->dtype != DType::kInvalid && t.dtype != declared->dtype) {
    if (ok()) lowering_.findings().refusal = Finding::kDeclaredType;
    return fail("output ", i, " '", name, "' is declared ", to_string(declared->dtype), " but is ", to_string(t.dtype));
  }
  if (!declared->ranked) return;
  if (t.ranked && !compatible(t.shape, declared->shape)) lowering_.findings().declared_shape_differs = true;
  if (v.constant) return;
  if (!t.ranked) {
    t.ranked = true;
    t.shape = declared->shape;
  } else if (t.shape.rank() == declared->shape.rank()) {
    for (int k = 0; k < t.shape.rank(); ++k)
      if (t.shape[k] < 0) t.shape[k] = declared->shape[k];
  }
}

ValueId NodeContext::scalar_like(ValueId x, double v) {
  if (!ok()) return kNoValue;
  const DType d = dtype(x);
  if (d == DType::kInvalid) {
    unsupported("the element type of an input must be known at load");
    return kNoValue;
  }
  return builder().scalar(d, v);
}

ValueId NodeContext::reshape(ValueId x, const std::vector<int64_t>& shape, bool allow_zero) {
  ReshapeAttrs a;
  a.allow_zero = allow_zero;
  return add(Op::kReshape, pack(a), {x, i64(shape)});
}

std::optional<Body> NodeContext::body(std::string_view attribute, const std::vector<ValueType>& inputs) {
  const GraphProto* g = ok() ? graph(attribute) : nullptr;
  if (!g) return std::nullopt;
  auto r = lowering_.lower_body(scope_, *g, inputs);
  if (!r.ok()) {
    fail(r.error().within(Cat("attribute '", attribute, "'")));
    return std::nullopt;
  }
  return *r;
}

}  // namespace smelt::onnx
