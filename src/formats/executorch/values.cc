#include "formats/executorch/values.h"

#include <algorithm>
#include <cstring>

#include "base/aligned_bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "tensor/bools.h"

namespace smelt::executorch {
namespace {

using fb::et::KernelTypes;

/// Bytes of a tensor of that type and shape, whatever its contents.
Result<uint64_t> size_of(DType dtype, const Shape& shape) {
  SMELT_ASSIGN(const int64_t n, shape.checked_elements());
  if (n > (int64_t{1} << 46)) return LimitReached("a tensor of shape ", shape.str(), " is too large");
  return Tensor::byte_size(dtype, n);
}

bool is_row_major(std::span<const uint8_t> order, const Shape& shape) {
  // Dimensions of 1 may stand anywhere.
  int last = -1;
  for (uint8_t d : order) {
    if (shape[d] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

/// Copies from memory order `order` to row-major, `width` bytes an element.
void permute_bytes(const std::byte* in, std::byte* out, const Shape& shape, std::span<const uint8_t> order,
                   size_t width) {
  const int r = shape.rank();
  const Shape strides = shape.strides();
  std::vector<int64_t> at(static_cast<size_t>(r), 0);
  const int64_t n = shape.elements();
  for (int64_t i = 0; i < n; ++i) {
    int64_t to = 0;
    for (int k = 0; k < r; ++k) to += at[static_cast<size_t>(k)] * strides[order[static_cast<size_t>(k)]];
    std::memcpy(out + static_cast<size_t>(to) * width, in + static_cast<size_t>(i) * width, width);
    for (int k = r - 1; k >= 0; --k) {
      if (++at[static_cast<size_t>(k)] < shape[order[static_cast<size_t>(k)]]) break;
      at[static_cast<size_t>(k)] = 0;
    }
  }
}

/// Checks that the tensor lies inside its buffer of planned memory.
Status check_place(const PlanValue& v, uint64_t bytes, const fb::et::ExecutionPlan& plan) {
  const auto* sizes = plan.non_const_buffer_sizes();
  if (!sizes || v.memory_id == 0 || v.memory_id >= sizes->size())
    return InvalidModel("planned in memory ", v.memory_id, ", the plan has ", sizes ? sizes->size() : 0);
  const int64_t size = sizes->Get(v.memory_id);
  if (size < 0 || !in_range(v.offset, bytes, static_cast<uint64_t>(size)))
    return InvalidModel("planned at ", v.offset, " with ", bytes, " bytes in a memory of ", size, " bytes");
  return Ok();
}

Result<PlanValue> read_tensor(const ProgramFile& file, const fb::et::ExecutionPlan& plan, const fb::et::Tensor& t) {
  PlanValue v;
  v.kind = PlanValue::Kind::kTensor;
  v.dtype = aten::scalar_type(static_cast<int64_t>(t.scalar_type()));
  if (v.dtype == DType::kInvalid) return InvalidModel("unknown scalar type ", static_cast<int>(t.scalar_type()));
  SMELT_ASSIGN(v.shape, read_shape(t.sizes()));
  SMELT_ASSIGN(const auto order, read_dim_order(t.dim_order(), v.shape.rank()));
  v.dim_order.assign(order.begin(), order.end());
  SMELT_ASSIGN(const uint64_t bytes, size_of(v.dtype, v.shape));
  if (t.storage_offset() != 0) return InvalidModel("storage offset ", t.storage_offset(), ", 0 expected");
  if (t.layout() != 0) return InvalidModel("layout ", static_cast<int>(t.layout()), ", 0 (strided) expected");
  if (t.shape_dynamism() < fb::et::TensorShapeDynamism::MIN || t.shape_dynamism() > fb::et::TensorShapeDynamism::MAX)
    return InvalidModel("shape dynamism ", static_cast<int>(t.shape_dynamism()), " is unknown");
  v.dynamic = t.shape_dynamism() != fb::et::TensorShapeDynamism::STATIC;
  v.bounded = t.shape_dynamism() == fb::et::TensorShapeDynamism::DYNAMIC_BOUND;
  const auto* extra = t.extra_tensor_info();
  if (extra && extra->location() != fb::et::TensorDataLocation::SEGMENT &&
      extra->location() != fb::et::TensorDataLocation::EXTERNAL)
    return InvalidModel("data in an unknown place ", static_cast<int>(extra->location()));
  if (extra && extra->fully_qualified_name()) v.qualified_name = extra->fully_qualified_name()->str();
  if (const auto* allocation = t.allocation_info()) {
    v.planned = true;
    v.memory_id = allocation->memory_id();
    v.offset = (static_cast<uint64_t>(allocation->memory_offset_high()) << 32) | allocation->memory_offset_low();
    SMELT_TRY(check_place(v, bytes, plan));
  }
  const auto hold = [&](const Bytes& data) -> Status {
    SMELT_ASSIGN(Tensor t, tensor_from(v.dtype, v.shape, order, data, file.owner()));
    v.copied = t.raw() != data.data();
    v.data = std::make_shared<const Tensor>(std::move(t));
    return Ok();
  };
  if (extra && extra->location() == fb::et::TensorDataLocation::EXTERNAL) {
    const Bytes* data = file.named(v.qualified_name);
    if (!data) return InvalidModel("external data '", v.qualified_name, "' are not given (see --data)");
    if (data->size() < bytes)
      return InvalidModel("external data '", v.qualified_name, "' have ", data->size(), " bytes, ", bytes, " expected");
    SMELT_TRY(hold(data->first(bytes)));
  } else if (t.data_buffer_idx() > 0) {
    const auto data =
        v.planned ? file.mutable_data(extra ? extra->mutable_data_segments_idx() : 0, t.data_buffer_idx(), bytes)
                  : file.constant(t.data_buffer_idx(), bytes);
    if (!data.ok()) return data.error();
    SMELT_TRY(hold(*data));
  }
  return v;
}

template <class V>
std::vector<int64_t> items_of(const V* items) {
  return items ? std::vector<int64_t>(items->begin(), items->end()) : std::vector<int64_t>{};
}

Result<PlanValue> read_value(const ProgramFile& file, const fb::et::ExecutionPlan& plan, const fb::et::EValue& e) {
  PlanValue v;
  const auto missing = [&] { return InvalidModel("its contents are missing"); };
  if (e.val_type() != KernelTypes::NONE && e.val_type() != KernelTypes::Null && !e.val()) return missing();
  switch (e.val_type()) {
    case KernelTypes::NONE:
    case KernelTypes::Null:
      return v;
    case KernelTypes::Int:
      v.kind = PlanValue::Kind::kInt;
      v.i = e.val_as_Int()->int_val();
      return v;
    case KernelTypes::Bool:
      v.kind = PlanValue::Kind::kBool;
      v.i = e.val_as_Bool()->bool_val();
      return v;
    case KernelTypes::Double:
      v.kind = PlanValue::Kind::kDouble;
      v.d = e.val_as_Double()->double_val();
      return v;
    case KernelTypes::String:
      v.kind = PlanValue::Kind::kString;
      if (!e.val_as_String()->string_val()) return missing();
      v.text = e.val_as_String()->string_val()->str();
      return v;
    case KernelTypes::Tensor:
      return read_tensor(file, plan, *e.val_as_Tensor());
    case KernelTypes::IntList:
      v.kind = PlanValue::Kind::kIntList;
      if (!elements_aligned(e.val_as_IntList()->items())) return InvalidModel("its numbers lie at an odd address");
      v.items = items_of(e.val_as_IntList()->items());
      return v;
    case KernelTypes::DoubleList:
      v.kind = PlanValue::Kind::kDoubleList;
      if (!elements_aligned(e.val_as_DoubleList()->items())) return InvalidModel("its numbers lie at an odd address");
      if (const auto* items = e.val_as_DoubleList()->items()) v.doubles.assign(items->begin(), items->end());
      return v;
    case KernelTypes::BoolList:
      v.kind = PlanValue::Kind::kBoolList;
      v.items = items_of(e.val_as_BoolList()->items());
      return v;
    case KernelTypes::TensorList:
      v.kind = PlanValue::Kind::kTensorList;
      v.items = items_of(e.val_as_TensorList()->items());
      return v;
    case KernelTypes::OptionalTensorList:
      v.kind = PlanValue::Kind::kTensorList;
      v.items = items_of(e.val_as_OptionalTensorList()->items());
      return v;
  }
  return InvalidModel("unknown kind ", static_cast<int>(e.val_type()));
}

/// Items of lists name values of the right kind.
Status check_items(const std::vector<PlanValue>& all, const PlanValue& v) {
  using Kind = PlanValue::Kind;
  if (v.kind != Kind::kIntList && v.kind != Kind::kTensorList) return Ok();
  for (int64_t at : v.items) {
    if (v.kind == Kind::kTensorList && at == -1) continue;
    if (at < 0 || at >= static_cast<int64_t>(all.size()))
      return InvalidModel("a list names value ", at, ", the plan has ", all.size());
    const Kind kind = all[static_cast<size_t>(at)].kind;
    const bool fits = v.kind == Kind::kIntList ? kind == Kind::kInt : kind == Kind::kTensor || kind == Kind::kNull;
    if (!fits)
      return InvalidModel("a list of ", v.kind == Kind::kIntList ? "integers" : "tensors", " names value ", at,
                          " of another kind");
  }
  return Ok();
}

}  // namespace

ValueType PlanValue::type() const {
  switch (kind) {
    case Kind::kInt:
      return ValueType::tensor(DType::kI64, Shape{});
    case Kind::kDouble:
      return ValueType::tensor(DType::kF64, Shape{});
    case Kind::kBool:
      return ValueType::tensor(DType::kBool, Shape{});
    case Kind::kTensor:
      return ValueType::tensor(dtype, dynamic ? Shape::of_rank(shape.rank(), -1) : shape);
    default:
      return {};
  }
}

Result<Shape> read_shape(const flatbuffers::Vector<int32_t>* sizes) {
  const uint32_t rank = sizes ? sizes->size() : 0;
  if (rank > Shape::kMaxRank) return InvalidModel("rank ", rank, ", at most ", Shape::kMaxRank, " expected");
  Shape shape;
  for (uint32_t i = 0; i < rank; ++i) {
    if (sizes->Get(i) < 0) return InvalidModel("dimension ", i, " is ", sizes->Get(i));
    shape.push_back(sizes->Get(i));
  }
  SMELT_ASSIGN([[maybe_unused]] const int64_t n, shape.checked_elements());
  return shape;
}

Result<std::vector<uint8_t>> read_dim_order(const flatbuffers::Vector<uint8_t>* order, int rank) {
  std::vector<uint8_t> out;
  if (!order || order->size() == 0) return out;
  if (static_cast<int>(order->size()) != rank)
    return InvalidModel("dim_order has ", order->size(), " entries for rank ", rank);
  uint32_t seen = 0;
  for (uint8_t d : *order) {
    if (d >= rank || (seen >> d & 1)) return InvalidModel("dim_order is not a permutation");
    seen |= uint32_t{1} << d;
    out.push_back(d);
  }
  return out;
}

Result<Tensor> tensor_from(DType dtype, const Shape& shape, std::span<const uint8_t> order, Bytes bytes,
                           const std::shared_ptr<const void>& owner) {
  SMELT_ASSIGN(const uint64_t size, size_of(dtype, shape));
  if (bytes.size() < size) return InvalidModel(bytes.size(), " bytes of data, ", size, " expected");
  const size_t width = static_cast<size_t>(bit_width(dtype)) / 8;
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % std::max<size_t>(width, 1) == 0;
  const bool dense = is_row_major(order, shape);
  if (size > 0 && aligned && dense) return normalize_bools(Tensor::view(dtype, shape, bytes.data(), owner));
  SMELT_ASSIGN(Tensor t, Tensor::allocate(dtype, shape));
  if (size == 0) return t;
  if (dense)
    std::memcpy(t.raw(), bytes.data(), size);
  else
    permute_bytes(bytes.data(), t.data<std::byte>(), shape, order, width);
  return normalize_bools(std::move(t));
}

Result<std::vector<PlanValue>> read_values(const ProgramFile& file, const fb::et::ExecutionPlan& plan) {
  std::vector<PlanValue> out;
  if (!elements_aligned(plan.non_const_buffer_sizes())) return InvalidModel("the plan's sizes lie at an odd address");
  const auto* list = plan.values();
  if (!list) return out;
  // Tables may be shared within a file: what is copied out of it stays in proportion.
  const size_t most = (size_t{32} << 20) + 2 * file.size();
  size_t copied = 0;
  out.reserve(std::min<size_t>(list->size(), 1 << 16));
  for (uint32_t i = 0; i < list->size(); ++i) {
    auto v = read_value(file, plan, *list->Get(i));
    if (!v.ok()) return v.error().within(Cat("value ", i));
    copied += v->items.size() * 8 + v->doubles.size() * 8 + v->text.size() + (v->copied ? v->data->bytes() : 0);
    if (copied > most) return LimitReached("the values of the program are larger than the file");
    out.push_back(std::move(v).value());
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (auto s = check_items(out, out[i]); !s.ok()) return s.error().within(Cat("value ", i));
  return out;
}

}  // namespace smelt::executorch
