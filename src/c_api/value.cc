#include "c_api/handles.h"

using namespace smelt;         // NOLINT(google-global-names-in-headers)
using namespace smelt::c_api;  // NOLINT(google-global-names-in-headers)

namespace {

Result<Shape> shape_of(int32_t rank, const int64_t* dims) {
  if (rank < 0 || rank > Shape::kMaxRank) return InvalidInput("rank ", rank, ", 0 to ", Shape::kMaxRank, " expected");
  if (rank > 0) SMELT_TRY(require(dims, "dims"));
  const Shape shape(std::span<const int64_t>(dims, static_cast<size_t>(rank)));
  SMELT_TRY(shape.checked_elements());
  return shape;
}

Status check_type(smelt_type type) {
  if (type > SMELT_TYPE_INVALID && type <= SMELT_COMPLEX128) return Ok();
  return InvalidInput("no element type has the number ", static_cast<int>(type));
}

std::unique_ptr<smelt_value> value_of(Datum d) { return std::make_unique<smelt_value>(smelt_value{std::move(d)}); }

const Tensor* tensor_of(const smelt_value* value) {
  return value && value->datum.is_tensor() ? &value->datum.tensor : nullptr;
}

/// An element of a tensor of strings, else nullptr.
std::string* string_at(const smelt_value* value, int64_t index) {
  const Tensor* t = tensor_of(value);
  if (!t || t->dtype() != DType::kString || index < 0 || index >= t->elements()) return nullptr;
  return Tensor(*t).data<std::string>() + index;
}

}  // namespace

extern "C" {

smelt_status smelt_tensor_create(smelt_type type, int32_t rank, const int64_t* dims, smelt_value** tensor) {
  return make(tensor, [&]() -> Result<std::unique_ptr<smelt_value>> {
    SMELT_TRY(check_type(type));
    SMELT_ASSIGN(const Shape shape, shape_of(rank, dims));
    SMELT_ASSIGN(Tensor t, Tensor::allocate(static_cast<DType>(type), shape));
    return value_of(std::move(t));
  });
}

smelt_status smelt_tensor_view(smelt_type type, int32_t rank, const int64_t* dims, void* data, size_t bytes,
                               smelt_value** tensor) {
  return make(tensor, [&]() -> Result<std::unique_ptr<smelt_value>> {
    SMELT_TRY(check_type(type));
    if (type == SMELT_STRING) return InvalidInput("a tensor of strings owns its elements: smelt_tensor_create()");
    SMELT_ASSIGN(const Shape shape, shape_of(rank, dims));
    const size_t wanted = Tensor::byte_size(static_cast<DType>(type), shape.elements());
    if (bytes != wanted)
      return InvalidInput(bytes, " bytes given for ", smelt_type_name(type), shape.str(), ", which has ", wanted);
    if (bytes > 0) SMELT_TRY(require(data, "data"));
    return value_of(Tensor::view(static_cast<DType>(type), shape, data, nullptr));
  });
}

smelt_status smelt_sequence_create(const smelt_value* const* items, size_t count, smelt_value** sequence) {
  return make(sequence, [&]() -> Result<std::unique_ptr<smelt_value>> {
    if (count > 0) SMELT_TRY(require(static_cast<const void*>(items), "items"));
    return value_of(Datum::sequence(data_of(items, count)));
  });
}

smelt_status smelt_map_create(const smelt_value* keys, const smelt_value* values, smelt_value** map) {
  return make(map, [&]() -> Result<std::unique_ptr<smelt_value>> {
    SMELT_TRY(require(keys, "keys"));
    SMELT_TRY(require(values, "values"));
    return value_of(Datum::map(keys->datum, values->datum));
  });
}

void smelt_value_free(smelt_value* value) { delete value; }

smelt_kind smelt_value_kind(const smelt_value* value) {
  return value ? static_cast<smelt_kind>(value->datum.kind) : SMELT_NONE;
}

size_t smelt_value_item_count(const smelt_value* value) {
  return value && value->datum.items ? value->datum.items->size() : 0;
}

smelt_status smelt_value_item(const smelt_value* value, size_t index, smelt_value** item) {
  return make(item, [&]() -> Result<std::unique_ptr<smelt_value>> {
    const size_t count = smelt_value_item_count(value);
    if (index >= count) return InvalidInput("item ", index, " of ", count);
    return value_of((*value->datum.items)[index]);
  });
}

smelt_type smelt_value_type(const smelt_value* value) {
  const Tensor* t = tensor_of(value);
  return t ? static_cast<smelt_type>(t->dtype()) : SMELT_TYPE_INVALID;
}
int32_t smelt_value_rank(const smelt_value* value) {
  const Tensor* t = tensor_of(value);
  return t ? t->rank() : 0;
}
const int64_t* smelt_value_dims(const smelt_value* value) {
  const Tensor* t = tensor_of(value);
  return t ? t->shape().begin() : nullptr;
}
int64_t smelt_value_elements(const smelt_value* value) {
  const Tensor* t = tensor_of(value);
  return t ? t->elements() : 0;
}
size_t smelt_value_bytes(const smelt_value* value) {
  const Tensor* t = tensor_of(value);
  return t ? t->bytes() : 0;
}
void* smelt_value_data(smelt_value* value) { return tensor_of(value) ? value->datum.tensor.raw() : nullptr; }

const char* smelt_value_string(const smelt_value* value, int64_t index, size_t* length) {
  const std::string* s = string_at(value, index);
  if (length) *length = s ? s->size() : 0;
  return s ? s->c_str() : nullptr;
}

smelt_status smelt_value_set_string(smelt_value* value, int64_t index, const char* text, size_t length) {
  return call([&]() -> Status {
    std::string* s = string_at(value, index);
    if (!s) return InvalidInput("the value has no string ", index);
    if (length > 0) SMELT_TRY(require(text, "text"));
    s->assign(text ? text : "", length);
    return Ok();
  });
}

}  // extern "C"
