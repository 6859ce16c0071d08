#include "formats/tflite/writer/subgraph_writer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/cat.h"
#include "formats/common/int8_form.h"
#include "formats/tflite/reader.h"
#include "formats/tflite/writer/op_writer.h"
#include "ops/shape/channels_perm.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

bool is_identity(const std::vector<int64_t>& perm) { return std::ranges::is_sorted(perm); }

Shape permuted(const Shape& shape, const std::vector<int64_t>& perm) {
  Shape out;
  for (const int64_t p : perm) out.push_back(shape[static_cast<int>(p)]);
  return out;
}

QuantPtr permuted(const QuantPtr& quant, const std::vector<int64_t>& perm) {
  if (!quant || quant->kind != Quantization::Kind::kPerAxis) return quant;
  auto q = std::make_shared<Quantization>(*quant);
  q->axis = static_cast<int>(std::ranges::find(perm, quant->axis) - perm.begin());
  return q;
}

/// True if the scales of two per-tensor quantizations differ, by a factor that LiteRT's delegate takes in a product.
bool rescales(const QuantPtr& from, const QuantPtr& to) {
  if (!is_per_tensor(from) || !is_per_tensor(to) || from->scale() == to->scale()) return false;
  const float factor = from->scale() / to->scale();
  return factor >= 0x1p-16f && factor < 256;
}

}  // namespace

Tensor transposed(const Tensor& t, const std::vector<int64_t>& perm) {
  Tensor out(t.dtype(), permuted(t.shape(), perm));
  out.set_quant(permuted(t.quant(), perm));
  const Shape strides = t.shape().strides();
  const int rank = t.rank();
  const int bits = bit_width(t.dtype());
  const auto size = static_cast<size_t>(bits / 8);
  std::vector<int64_t> at(static_cast<size_t>(rank), 0);
  int64_t from = 0;
  for (int64_t i = 0; i < t.elements(); ++i) {
    if (t.dtype() == DType::kString)
      out.data<std::string>()[i] = t.data<std::string>()[from];
    else if (bits < 8)
      set_int(out, i, get_int(t, from));
    else
      std::memcpy(out.data<std::byte>() + static_cast<size_t>(i) * size,
                  t.data<std::byte>() + static_cast<size_t>(from) * size, size);
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t stride = strides[static_cast<int>(perm[static_cast<size_t>(d)])];
      from += stride;
      if (++at[static_cast<size_t>(d)] < out.dim(d)) break;
      from -= stride * out.dim(d);
      at[static_cast<size_t>(d)] = 0;
    }
  }
  return out;
}

Tensor retyped(const Tensor& t, DType dtype, QuantPtr quant) {
  if (t.dtype() == dtype) {
    Tensor same = t;
    same.set_quant(std::move(quant));
    return same;
  }
  Tensor out(dtype, t.shape());
  if (dtype == DType::kF32) {
    to_floats(t, out.data<float>());
  } else if (is_float(dtype)) {
    for (int64_t i = 0; i < t.elements(); ++i) set_double(out, i, get_double(t, i));
  } else if (t.dtype() == DType::kU8 && dtype == DType::kI8) {
    out = formats::int8_of_uint8(t);
  } else {
    for (int64_t i = 0; i < t.elements(); ++i) set_int(out, i, get_int(t, i));
  }
  out.set_quant(std::move(quant));
  return out;
}

int FileContext::add_subgraph(std::string name) {
  subgraphs.emplace_back().name = std::move(name);
  return static_cast<int>(subgraphs.size()) - 1;
}

std::pair<DType, QuantPtr> SubgraphWriter::file_type(const ValueType& type) const {
  if (is_per_token(type)) return {DType::kF32, nullptr};
  if (type.quant && type.dtype == DType::kU8 && file_.prefer_int8 && !file_.uint8)
    return {DType::kI8, formats::shifted_quant(type.quant, -128)};
  const bool narrow = is_float(type.dtype) && type.dtype != DType::kF32;
  return {narrow && file_.prefer_int8 ? DType::kF32 : type.dtype, type.quant};
}

int SubgraphWriter::add_tensor(FileTensor t) {
  out().tensors.push_back(std::move(t));
  return static_cast<int>(out().tensors.size()) - 1;
}

int SubgraphWriter::constant(Tensor t) {
  FileTensor f{.dtype = t.dtype(), .ranked = true, .shape = t.shape(), .quant = t.quant()};
  f.contents = std::make_shared<const Tensor>(std::move(t));
  return add_tensor(std::move(f));
}

int SubgraphWriter::add(tfl::BuiltinOperator code, IntList inputs, DType dtype, OperatorOptions options,
                        QuantPtr quant) {
  const int y = add_tensor({.dtype = dtype, .quant = std::move(quant)});
  add_to(code, inputs, {y}, std::move(options));
  return y;
}

void SubgraphWriter::add_to(tfl::BuiltinOperator code, IntList inputs, IntList outputs, OperatorOptions options) {
  out().operators.push_back(
      {.code = code, .inputs = inputs.copy(), .outputs = outputs.copy(), .options = std::move(options)});
}

int SubgraphWriter::cast(int x, DType to) {
  const DType from = at(x).dtype;
  if (from == to) return x;
  if (const auto& t = at(x).contents; t && !t->quant() && from != DType::kString && !is_complex(from) &&
                                      (is_float(to) || is_integer(from) || from == DType::kBool))
    return constant(retyped(*t, to, nullptr));
  return add(tfl::BuiltinOperator::CAST, {x}, to, options_of<tfl::CastOptions>([=](auto& b) {
               return tfl::CreateCastOptions(b, tensor_type(from), tensor_type(to));
             }));
}

int SubgraphWriter::dequantize(int x) {
  if (at(x).dtype == DType::kF16 && at(x).contents) return add(tfl::BuiltinOperator::DEQUANTIZE, {x}, DType::kF32);
  if (is_float(at(x).dtype) || !at(x).quant) return x;
  // DEQUANTIZE takes one scale, and no zero point with 16 bits.
  const bool wide = bit_width(at(x).dtype) >= 16;
  if (at(x).contents && (at(x).quant->kind != Quantization::Kind::kPerTensor || wide)) {
    Tensor real(DType::kF32, at(x).shape);
    smelt::dequantize(*at(x).contents, real.data<float>());
    return constant(std::move(real));
  }
  return add(tfl::BuiltinOperator::DEQUANTIZE, {x}, DType::kF32);
}

int SubgraphWriter::quantize(int x, DType dtype, const QuantPtr& quant) {
  if (at(x).dtype == dtype && same_quant_params(at(x).quant, quant)) return x;
  const bool bytes = dtype == (file_.uint8 ? DType::kU8 : DType::kI8);
  if (file_.prefer_int8 && bytes && at(x).dtype == dtype && rescales(at(x).quant, quant)) {
    // LiteRT's delegate takes factors of 8 bits for QUANTIZE, and float32 ones for products.
    Tensor one(dtype, Shape{});
    set_int(one, 0, 1);
    Quantization unit;
    unit.scales = {1};
    unit.zero_points = {0};
    one.set_quant(std::make_shared<const Quantization>(std::move(unit)));
    return add(tfl::BuiltinOperator::MUL, {x, constant(std::move(one))}, dtype,
               arithmetic_options(tfl::BuiltinOperator::MUL, {}, false), quant);
  }
  return add(tfl::BuiltinOperator::QUANTIZE, {x}, dtype, {}, quant);
}

int SubgraphWriter::as_quantized(int x, const QuantPtr& quant) {
  return add(tfl::BuiltinOperator::BITCAST, {x}, at(x).dtype,
             options_of<tfl::BitcastOptions>([](auto& b) { return tfl::CreateBitcastOptions(b); }), quant);
}

int SubgraphWriter::without_quantization(int x) { return at(x).quant ? as_quantized(x, nullptr) : x; }

int SubgraphWriter::transpose(int x, const std::vector<int64_t>& perm) {
  if (is_identity(perm)) return x;
  if (at(x).contents) return constant(transposed(*at(x).contents, perm));
  const FileTensor from = at(x);
  const bool ranked = from.ranked && from.shape.rank() == static_cast<int>(perm.size());
  const Shape shape = ranked ? permuted(from.shape, perm) : Shape();
  int y = -1;
  if (ranked && formats::moves_nothing(from.shape, perm) && std::ranges::count(from.shape.dims(), -1) < 2)
    y = reshape(x, {shape.begin(), shape.end()});
  else
    y = add(tfl::BuiltinOperator::TRANSPOSE, {x, i32(perm)}, from.dtype,
            options_of<tfl::TransposeOptions>([](auto& b) { return tfl::CreateTransposeOptions(b); }),
            permuted(from.quant, perm));
  at(y).ranked = ranked;
  at(y).shape = shape;
  return y;
}

int SubgraphWriter::reshape(int x, Int64List shape) {
  if (at(x).contents) {
    const Tensor& t = *at(x).contents;
    Shape s{std::span<const int64_t>(shape)};
    const auto n = s.checked_elements();
    if (n.ok() && *n == t.elements() && (!t.quant() || t.quant()->kind == Quantization::Kind::kPerTensor)) {
      Tensor out = t.reshaped(s);
      out.set_quant(t.quant());
      return constant(std::move(out));
    }
  }
  const std::vector<int32_t> dims(shape.begin(), shape.end());
  const FileTensor from = at(x);
  const int y = add(tfl::BuiltinOperator::RESHAPE, {x, i32(shape)}, from.dtype,
                    options_of<tfl::ReshapeOptions>([=](auto& b) { return tfl::CreateReshapeOptionsDirect(b, &dims); }),
                    from.quant);
  if (std::ranges::all_of(dims, [](int32_t d) { return d >= 0; })) {
    at(y).ranked = true;
    at(y).shape = Shape{std::span<const int64_t>(shape)};
  }
  return y;
}

int SubgraphWriter::i32(Int64List values) {
  Tensor t(DType::kI32, Shape{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    t.data<int32_t>()[i] = static_cast<int32_t>(std::clamp<int64_t>(values[i], INT32_MIN, INT32_MAX));
  return constant(std::move(t));
}

int SubgraphWriter::i32_scalar(int64_t value) {
  Tensor t(DType::kI32, Shape{});
  t.data<int32_t>()[0] = static_cast<int32_t>(value);
  return constant(std::move(t));
}

int SubgraphWriter::f32(double value) {
  Tensor t(DType::kF32, Shape{});
  t.data<float>()[0] = static_cast<float>(value);
  return constant(std::move(t));
}

void SubgraphWriter::name(int tensor, ValueId id, bool graph_order) {
  FileTensor& t = at(tensor);
  const Value& v = graph_.value(id);
  if (t.name.empty()) t.name = graph_order || v.name.empty() ? v.name : v.name + " (channels last)";
  if (t.ranked || !v.type.ranked) return;
  t.ranked = true;
  t.shape = graph_order ? v.type.shape : permuted(v.type.shape, channels_last_perm(v.type.shape.rank()));
}

int SubgraphWriter::constant_of(ValueId id) {
  const Value& v = graph_.value(id);
  ValueType type = v.type;
  if (!type.quant) type.quant = v.constant->quant();
  if (type.quant && type.quant->kind == Quantization::Kind::kPerBlock && file_.prefer_int8) {
    // Kernels for blocks quantize what they multiply with; as float32 the weights mean what they say.
    Tensor typed = *v.constant, real(DType::kF32, v.constant->shape());
    typed.set_quant(type.quant);
    smelt::dequantize(typed, real.data<float>());
    return constant(std::move(real));
  }
  const auto [dtype, quant] = file_type(type);
  const bool half = file_.options.float16_weights && v.constant->elements() > 1 && is_float(dtype);
  if (half && v.constant->dtype() != DType::kF64) {
    Tensor narrow(DType::kF16, v.constant->shape());
    std::vector<float> values(static_cast<size_t>(v.constant->elements()));
    to_floats(*v.constant, values.data());
    from_floats(values.data(), narrow);
    return add(tfl::BuiltinOperator::DEQUANTIZE, {constant(std::move(narrow))}, DType::kF32);
  }
  return constant(retyped(*v.constant, dtype, quant));
}

int SubgraphWriter::tensor(ValueId id) {
  Forms& f = forms_[id];
  if (f.graph_order >= 0) return f.graph_order;
  const Value& v = graph_.value(id);
  if (v.constant) {
    f.graph_order = constant_of(id);
    name(f.graph_order, id, true);
  } else if (f.channels_last >= 0) {
    const int rank = v.type.shape.rank();
    std::vector<int64_t> back{0, rank - 1};
    for (int d = 1; d + 1 < rank; ++d) back.push_back(d);
    f.graph_order = transpose(f.channels_last, back);
    name(f.graph_order, id, true);
  } else if (!f.quantized.empty()) {
    // The integers themselves: int8 with its zero point becomes uint8 again.
    const int q = f.quantized.front();
    f.graph_order = q;
    if (at(q).dtype != v.type.dtype) {
      f.graph_order = quantize(q, v.type.dtype, formats::shifted_quant(at(q).quant, 128));
    }
  } else if (const Node* from = producer(id); from && is_per_token(v.type)) {
    OpWriter quantize(*this, *from);
    f.graph_order = rounded_by_slice(quantize);
    name(f.graph_order, id, true);
  } else {
    const auto [dtype, quant] = file_type(v.type);
    f.graph_order = add_tensor({.dtype = dtype, .quant = quant});
    name(f.graph_order, id, true);
  }
  return f.graph_order;
}

int SubgraphWriter::channels_last(ValueId id) {
  Forms& f = forms_[id];
  if (f.channels_last >= 0) return f.channels_last;
  const int x = tensor(id);
  const int rank = type(id).shape.rank();
  const int y = transpose(x, channels_last_perm(rank));
  return forms_[id].channels_last = y;
}

bool SubgraphWriter::is_channels_last(ValueId id) const {
  const auto at = forms_.find(id);
  return at != forms_.end() && at->second.channels_last >= 0 && at->second.graph_order < 0 && type(id).ranked;
}

int SubgraphWriter::same_elements(ValueId id) {
  if (is_channels_last(id) && formats::moves_nothing(type(id).shape, channels_last_perm(type(id).shape.rank())))
    return forms_[id].channels_last;
  return tensor(id);
}

void SubgraphWriter::bind(ValueId id, int tensor) {
  forms_[id].graph_order = tensor;
  name(tensor, id, true);
}

void SubgraphWriter::bind_channels_last(ValueId id, int tensor) {
  forms_[id].channels_last = tensor;
  name(tensor, id, false);
}

void SubgraphWriter::bind_quantized(ValueId id, int tensor) { forms_[id].quantized.push_back(tensor); }

int SubgraphWriter::quantized(ValueId id, const QuantPtr& quant) {
  ValueType as = type(id);
  as.quant = quant;
  const auto [dtype, file_quant] = file_type(as);
  if (const auto& c = graph_.value(id).constant) return constant(retyped(*c, dtype, file_quant));
  for (const int t : forms_[id].quantized)
    if (at(t).dtype == dtype && same_quant_params(at(t).quant, file_quant)) return t;
  int raw = tensor(id);
  const bool given = std::ranges::count(out().inputs, raw) > 0;
  if (!at(raw).quant && given) {
    at(raw).quant = quant;  // an input's integers have no other meaning yet
  } else if (!same_quant_params(at(raw).quant, quant)) {
    raw = as_quantized(raw, quant);
  }
  const int y = quantize(raw, dtype, file_quant);
  forms_[id].quantized.push_back(y);
  return y;
}

int SubgraphWriter::variable(int state, const FileTensor& tensor) {
  const auto [at, added] = states_.try_emplace(state, -1);
  if (added) at->second = add_tensor(tensor);
  return at->second;
}

int SubgraphWriter::handle(int state) {
  const auto [at, added] = states_.try_emplace(state, -1);
  if (!added) return at->second;
  const std::string& given = file_.module.states[static_cast<size_t>(state)].name;
  const std::string name = Cat(given, "#", state);
  at->second = add_tensor({.name = "", .dtype = DType::kI32, .ranked = true, .resource = true});
  add_to(tfl::BuiltinOperator::VAR_HANDLE, {}, {at->second}, options_of<tfl::VarHandleOptions>([=](auto& b) {
           return tfl::CreateVarHandleOptionsDirect(b, "", name.c_str());
         }));
  return at->second;
}

const Node* SubgraphWriter::producer(ValueId id) const {
  const auto at = producers_.find(id);
  return at == producers_.end() ? nullptr : at->second;
}

void SubgraphWriter::add_inputs() {
  for (const ValueId id : graph_.inputs) {
    const Value& v = graph_.value(id);
    if (v.constant) continue;  // an input with a default: the file holds that
    const auto [dtype, quant] = file_type(v.type);
    const bool same = !entry_ || dtype == v.type.dtype;
    const int x = add_tensor({.dtype = same ? dtype : v.type.dtype, .quant = same ? quant : v.type.quant});
    name(x, id, true);
    out().inputs.push_back(x);
    const bool tensor =
        v.type.kind == ValueType::Kind::kTensor && tensor_type(v.type.dtype) != tfl::TensorType::RESOURCE;
    if (!tensor || (entry_ && !v.type.ranked)) {
      file_.missing.push_back(
          {"input", v.type.str(),
           Cat(graph_.name, ", input '", v.name, "'", tensor ? ": its rank is open, --shape gives it one" : "")});
      continue;
    }
    forms_[id].graph_order = same ? x : quant ? quantize(x, dtype, quant) : cast(x, dtype);
  }
}

void SubgraphWriter::add_outputs() {
  for (const ValueId id : graph_.outputs) {
    const Value& v = graph_.value(id);
    int y = tensor(id);
    if (entry_ && v.type.kind == ValueType::Kind::kTensor && v.type.dtype != DType::kInvalid &&
        at(y).dtype != v.type.dtype)
      y = v.type.quant ? quantize(y, v.type.dtype, v.type.quant) : cast(y, v.type.dtype);
    // An output is a tensor of its own: neither an input nor an earlier output.
    const bool taken = std::ranges::count(out().inputs, y) > 0 || std::ranges::count(out().outputs, y) > 0;
    if (taken && v.type.is_static()) y = reshape(y, {v.type.shape.begin(), v.type.shape.end()});
    if (at(y).contents && entry_) {
      const FileTensor from = at(y);
      std::vector<int64_t> dims(from.shape.begin(), from.shape.end());
      const std::vector<int32_t> dims32(dims.begin(), dims.end());
      y = add(tfl::BuiltinOperator::RESHAPE, {y, i32(dims)}, from.dtype,
              options_of<tfl::ReshapeOptions>([=](auto& b) { return tfl::CreateReshapeOptionsDirect(b, &dims32); }),
              from.quant);
    }
    name(y, id, true);
    // Callers know outputs by their names: tensors that stand for other values have none of them.
    const bool named = std::ranges::any_of(out().outputs, [&](int o) { return at(o).name == v.name; });
    if (std::ranges::count(out().inputs, y) == 0 && !v.name.empty() && !named) {
      for (int i = 0; i < static_cast<int>(out().tensors.size()); ++i)
        if (at(i).name == v.name && std::ranges::count(out().inputs, i) == 0) at(i).name.clear();
      at(y).name = v.name;
    }
    out().outputs.push_back(y);
  }
}

void SubgraphWriter::emit(const Node& node) {
  for (const ValueId id : node.outputs)
    if (id != kNoValue) producers_[id] = &node;
  OpWriter w(*this, node);
  const WriteFn write = find_writer(node.op);
  if (write && write(w)) return;
  const std::string where = node.where.empty() ? node.name : node.where;
  file_.missing.push_back({formats::operator_label(node), formats::operand_types(graph_, node),
                           Cat(where, where.empty() ? "" : ": ", "TFLite has no form for it")});
}

void SubgraphWriter::write() {
  out().name = graph_.name;
  uses_.assign(graph_.values.size(), 0);
  for (const Node& n : graph_.nodes)
    for (const ValueId id : n.inputs)
      if (id != kNoValue) ++uses_[static_cast<size_t>(id)];
  for (const ValueId id : graph_.outputs)
    if (id != kNoValue) ++uses_[static_cast<size_t>(id)];
  add_inputs();
  if (entry_ && file_.initializer >= 0) {
    const int32_t first = file_.initializer;
    add_to(tfl::BuiltinOperator::CALL_ONCE, {}, {},
           options_of<tfl::CallOnceOptions>([=](auto& b) { return tfl::CreateCallOnceOptions(b, first); }));
  }
  for (const Node& node : graph_.nodes) emit(node);
  add_outputs();
}

bool SubgraphWriter::attempt(const std::function<bool()>& write) {
  const size_t tensors = out().tensors.size(), operators = out().operators.size();
  const auto forms = forms_;
  const auto states = states_;
  if (write()) return true;
  out().tensors.resize(tensors);
  out().operators.resize(operators);
  forms_ = forms;
  states_ = states;
  return false;
}

bool SubgraphWriter::try_node(const Node& node) {
  emit(node);
  return file_.missing.empty();
}

}  // namespace smelt::tflite
