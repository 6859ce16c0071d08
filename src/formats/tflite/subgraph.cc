// Tensors of a subgraph, its inputs and outputs, and the walk over its operators.
#include <algorithm>

#include "base/checked.h"
#include "base/mapped_file.h"
#include "formats/tflite/lowering.h"
#include "formats/tflite/reader.h"
#include "ops/control/control.h"
#include "tensor/bools.h"

namespace smelt::tflite {

SubgraphReader::SubgraphReader(Reader& reader, int index)
    : reader_(reader),
      table_(*reader.model().subgraphs()->Get(static_cast<uint32_t>(index))),
      index_(index),
      builder_(reader.module(), index) {}

Status SubgraphReader::read() {
  Graph& g = builder_.graph();
  g.name = table_.name() ? table_.name()->str() : Cat("subgraph ", index_);
  builder_.expect(table_.tensors() ? table_.tensors()->size() : 0, table_.operators() ? table_.operators()->size() : 0);
  SMELT_TRY(read_tensors());
  SMELT_TRY(read_operators());
  if (auto s = add_outputs(); !s.ok()) return s.error().within(Cat("subgraph ", index_));
  return Ok();
}

Status SubgraphReader::read_tensors() {
  const size_t count = table_.tensors() ? table_.tensors()->size() : 0;
  slots_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const tfl::Tensor* t = table_.tensors()->Get(static_cast<uint32_t>(i));
    slots_[i].table = t;
    if (auto s = read_tensor(static_cast<int>(i)); !s.ok())
      return s.error().within(
          Cat("subgraph ", index_, ", tensor ", i, t->name() ? Cat(" '", t->name()->str(), "'") : ""));
  }
  std::vector<char> produced(count, 0);
  if (table_.operators())
    for (const tfl::Operator* op : *table_.operators())
      if (op->outputs())
        for (const int32_t o : *op->outputs())
          if (o >= 0 && static_cast<size_t>(o) < count) produced[static_cast<size_t>(o)] = 1;
  if (auto s = add_inputs(); !s.ok()) return s.error().within(Cat("subgraph ", index_));
  for (size_t i = 0; i < count; ++i) {
    if (slots_[i].value != kNoValue) continue;
    if (auto s = read_constant(static_cast<int>(i), produced[i] != 0); !s.ok())
      return s.error().within(Cat("subgraph ", index_, ", tensor ", i,
                                  slots_[i].table->name() ? Cat(" '", slots_[i].table->name()->str(), "'") : ""));
  }
  return Ok();
}

Status SubgraphReader::read_tensor(int tensor) {
  TensorSlot& slot = slots_[static_cast<size_t>(tensor)];
  const tfl::Tensor& t = *slot.table;
  SMELT_ASSIGN(slot.dtype, dtype_of(t.type()));
  if (const auto* list = t.variant_tensors(); t.type() == tfl::TensorType::VARIANT && list && list->size() == 1)
    return read_tensor_list(slot, *list->Get(0));
  const auto* shape = t.shape();
  const auto* signature = t.shape_signature();
  if (signature && shape && signature->size() == shape->size()) shape = signature;
  const uint32_t rank = shape ? shape->size() : 0;
  if (rank > Shape::kMaxRank) return Unsupported("rank ", rank, ", at most ", Shape::kMaxRank, " is supported");
  for (uint32_t d = 0; d < rank; ++d) {
    const int32_t extent = shape->Get(d);
    if (extent < -1 || (extent == -1 && shape != signature)) return InvalidModel("dimension ", d, " is ", extent);
    if (extent >= 0 && extent != t.shape()->Get(d))
      return InvalidModel("dimension ", d, " is ", t.shape()->Get(d), ", its signature says ", extent);
    slot.shape.push_back(extent);
  }
  SMELT_ASSIGN(slot.quant, read_quantization(*this, t, slot.dtype));
  return Ok();
}

/// A list of TensorFlow whose elements have one type: a tensor of its elements, one behind the other.
Status SubgraphReader::read_tensor_list(TensorSlot& slot, const tfl::VariantSubType& element) {
  SMELT_ASSIGN(slot.dtype, dtype_of(element.type()));
  const uint32_t rank = element.shape() ? element.shape()->size() : 0;
  if (slot.dtype == DType::kInvalid || (rank == 0 && !element.has_rank()))
    return Unsupported("a list whose elements' type is not known");
  if (rank >= Shape::kMaxRank) return Unsupported("a list of elements of rank ", rank);
  slot.shape = Shape{-1};
  for (uint32_t d = 0; d < rank; ++d) {
    if (element.shape()->Get(d) < -1)
      return InvalidModel("dimension ", d, " of a list's elements is ", element.shape()->Get(d));
    slot.shape.push_back(element.shape()->Get(d));
  }
  return Ok();
}

bool keeps_quantization(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kI4:
    case DType::kU4:
    case DType::kI2:
    case DType::kU2:
      return true;
    default:
      return false;
  }
}

ValueType SubgraphReader::result_type(const TensorSlot& slot) const {
  ValueType type = ValueType::tensor(slot.dtype);
  if (keeps_quantization(slot.dtype)) type.quant = slot.quant;
  return type;
}

/// Contents of a constant; a variable gets its state here.
Status SubgraphReader::read_constant(int tensor, bool produced) {
  TensorSlot& slot = slots_[static_cast<size_t>(tensor)];
  const tfl::Tensor& t = *slot.table;
  const std::string name = t.name() ? t.name()->str() : "";
  if (t.external_buffer() != 0) return Unsupported("contents in an external file");
  SMELT_ASSIGN(const auto bytes, reader_.buffer(t.buffer()));
  if (slot.dtype == DType::kInvalid) return Ok();
  if (t.is_variable()) {
    if (!bytes.empty()) return Unsupported("a variable with contents");
    return make_variable(tensor);
  }
  if (bytes.empty()) {
    // An empty tensor needs no bytes; what nobody computes and has no contents is found when it is used.
    if (produced || !slot.shape.is_static()) return Ok();
    auto n = slot.shape.checked_elements();
    if (!n.ok() || *n != 0) return Ok();
  }
  if (produced) return InvalidModel("a constant that an operator writes");
  Shape shape = slot.shape;
  if (!shape.is_static()) {
    shape = Shape();
    for (const int32_t d : *t.shape()) {
      if (d < 0) return InvalidModel("a constant with a dimension of ", d);
      shape.push_back(d);
    }
  }
  SMELT_ASSIGN(const int64_t elements, shape.checked_elements());
  Tensor value;
  if (t.sparsity()) {
    SMELT_ASSIGN(value, densify(*t.sparsity(), bytes, slot.dtype, shape));
  } else if (slot.dtype == DType::kString) {
    SMELT_ASSIGN(value, read_strings(bytes, shape));
  } else {
    const size_t need = Tensor::byte_size(slot.dtype, elements);
    if (bytes.size() != need)
      return InvalidModel("a buffer of ", bytes.size(), " bytes, ", to_string(slot.dtype), shape.str(), " takes ",
                          need);
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    const size_t align = std::max<size_t>(1, std::min<size_t>(8, static_cast<size_t>(bit_width(slot.dtype)) / 8));
    // Few bytes among large weights: the pages around them take more memory than a copy.
    constexpr size_t kLeastViewed = 4096, kLargeFile = size_t{1} << 20;
    if (address % align == 0 && (need >= kLeastViewed || reader_.source().bytes.size() < kLargeFile)) {
      value = Tensor::view(slot.dtype, shape, bytes.data(), reader_.source().owner);
    } else {
      SMELT_ASSIGN(value, Tensor::allocate(slot.dtype, shape, false));
      copy_few_file_bytes(bytes.data(), need, value.data<uint8_t>());
    }
  }
  SMELT_ASSIGN(value, normalize_bools(std::move(value)));
  if (keeps_quantization(slot.dtype) && slot.quant) value.set_quant(slot.quant);
  slot.value = builder_.constant(name, std::move(value));
  return Ok();
}

/// A variable starts at real zero: int8 at its zero point, everything else at 0.
Status SubgraphReader::make_variable(int tensor) {
  TensorSlot& slot = slots_[static_cast<size_t>(tensor)];
  Shape shape = slot.shape;
  for (int d = 0; d < shape.rank(); ++d)
    if (shape[d] < 0) shape[d] = slot.table->shape()->Get(static_cast<uint32_t>(d));
  SMELT_ASSIGN(const int64_t n, shape.checked_elements());
  if (n > (int64_t{1} << 30)) return LimitReached("a variable of shape ", shape.str(), " is too large");
  const QuantPtr quant = keeps_quantization(slot.dtype) ? slot.quant : nullptr;
  StateVar state{.name = slot.table->name() ? slot.table->name()->str() : "",
                 .type = ValueType::tensor(slot.dtype, shape, quant)};
  if (slot.dtype == DType::kI8 && quant && quant->zero_point() != 0) {
    SMELT_ASSIGN(Tensor initial, Tensor::allocate(slot.dtype, shape, false));
    std::fill_n(initial.data<int8_t>(), n, static_cast<int8_t>(quant->zero_point()));
    initial.set_quant(quant);
    state.initial = std::move(initial);
  }
  slot.state = reader_.add_state(std::move(state));
  return Ok();
}

Status SubgraphReader::add_inputs() {
  if (!table_.inputs()) return Ok();
  for (uint32_t i = 0; i < table_.inputs()->size(); ++i) {
    const int32_t tensor = table_.inputs()->Get(i);
    if (tensor < 0 || tensor >= tensors())
      return InvalidModel("input ", i, " is tensor ", tensor, ", the subgraph has ", tensors());
    TensorSlot& slot = this->slot(tensor);
    if (slot.value != kNoValue) return InvalidModel("input ", i, " is tensor ", tensor, " again");
    ValueType type = result_type(slot);
    type.ranked = true;
    type.shape = slot.shape;
    slot.value = builder_.input(slot.table->name() ? slot.table->name()->str() : Cat("input", i), type);
  }
  return Ok();
}

Result<ValueId> SubgraphReader::use(int tensor) {
  TensorSlot& slot = this->slot(tensor);
  if (slot.state >= 0) return builder_.op(Op::kStateRead, make_attrs<StateAttrs>(slot.state), {});
  if (slot.value == kNoValue)
    return InvalidModel("tensor ", tensor, slot.table->name() ? Cat(" '", slot.table->name()->str(), "'") : "",
                        " is used before an operator computes it");
  return slot.value;
}

Status SubgraphReader::read_operators() {
  if (!table_.operators()) return Ok();
  const auto limit = reader_.source().options ? reader_.source().options->max_nodes : 2'000'000;
  for (uint32_t i = 0; i < table_.operators()->size(); ++i) {
    if (builder_.graph().nodes.size() > limit) return LimitReached("more than ", limit, " nodes");
    const tfl::Operator& op = *table_.operators()->Get(i);
    // The basic LSTM kernel makes its two state inputs persistent, marked as variables or not.
    if (operator_number(reader_.model(), op) == static_cast<int>(tfl::BuiltinOperator::LSTM) && op.inputs() &&
        op.inputs()->size() == 5)
      for (const uint32_t k : {1u, 4u}) {
        const int t = op.inputs()->Get(k);
        if (t >= 0 && t < tensors() && slot(t).value == kNoValue && slot(t).state < 0) SMELT_TRY(make_variable(t));
      }
    SMELT_TRY(lower_operator(*this, op, static_cast<int>(i)));
  }
  return Ok();
}

Status SubgraphReader::add_outputs() {
  if (!table_.outputs()) return Ok();
  builder_.at("output", "", Cat("subgraph ", index_));
  for (uint32_t i = 0; i < table_.outputs()->size(); ++i) {
    const int32_t tensor = table_.outputs()->Get(i);
    if (tensor < 0 || tensor >= tensors())
      return InvalidModel("output ", i, " is tensor ", tensor, ", the subgraph has ", tensors());
    auto value = use(tensor);
    if (!value.ok()) return value.error().within(Cat("output ", i));
    Value& v = builder_.graph().value(*value);
    if (v.name.empty() && slot(tensor).table->name()) v.name = slot(tensor).table->name()->str();
    builder_.graph().outputs.push_back(*value);
  }
  return Ok();
}

}  // namespace smelt::tflite
