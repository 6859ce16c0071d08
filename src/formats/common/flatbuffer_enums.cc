#include "formats/common/flatbuffer_enums.h"

#include "base/error.h"

namespace smelt {
namespace {

using flatbuffers::Table;
using reflection::BaseType;

bool is_scalar(BaseType type) { return type > BaseType::UType && type < BaseType::Float; }

int64_t integer(BaseType type, const uint8_t* at) {
  switch (type) {
    case BaseType::Byte:
      return flatbuffers::ReadScalar<int8_t>(at);
    case BaseType::Short:
      return flatbuffers::ReadScalar<int16_t>(at);
    case BaseType::UShort:
      return flatbuffers::ReadScalar<uint16_t>(at);
    case BaseType::Int:
      return flatbuffers::ReadScalar<int32_t>(at);
    case BaseType::UInt:
      return flatbuffers::ReadScalar<uint32_t>(at);
    case BaseType::Long:
    case BaseType::ULong:
      return flatbuffers::ReadScalar<int64_t>(at);
    default:
      return *at;  // Bool, UByte
  }
}

bool has_enumerators(const reflection::Type& type) {
  return type.index() >= 0 &&
         (is_scalar(type.base_type()) || (type.base_type() == BaseType::Vector && is_scalar(type.element())));
}

}  // namespace

SchemaEnums::SchemaEnums(const uint8_t* schema, const char* root)
    : schema_(*reflection::GetSchema(schema)), objects_(std::make_unique<Object[]>(schema_.objects()->size())) {
  for (uint32_t o = 0; o < schema_.objects()->size(); ++o)
    if (schema_.objects()->Get(o)->name()->string_view() == root) root_ = static_cast<int>(o);
}

int SchemaEnums::table_object(int object) const {
  return object >= 0 && !schema_.objects()->Get(static_cast<uint32_t>(object))->is_struct() ? object : kNothing;
}

int SchemaEnums::held(const reflection::Type& type) const {
  if (type.base_type() == BaseType::Union) return kUnion;
  const bool tables = type.base_type() == BaseType::Vector && type.element() == BaseType::Obj;
  return type.base_type() == BaseType::Obj || tables ? table_object(type.index()) : kNothing;
}

const std::vector<SchemaEnums::Field>& SchemaEnums::fields(int object) const {
  Object& o = objects_[static_cast<size_t>(object)];
  std::call_once(o.once, [&] {
    o.fields.clear();  // of an attempt that found no memory
    for (const reflection::Field* f : *schema_.objects()->Get(static_cast<uint32_t>(object))->fields()) {
      const int holds = held(*f->type());
      if (holds != kNothing || has_enumerators(*f->type())) o.fields.push_back({f, holds});
    }
  });
  return o.fields;
}

Status SchemaEnums::check(const Table& table) const {
  return root_ < 0 ? Status(InvalidModel("the schema has no such table")) : check(table, root_);
}

Status SchemaEnums::check_scalar(const reflection::Field& field, BaseType type, const uint8_t* at) const {
  const int64_t value = integer(type, at);
  if (schema_.enums()->Get(static_cast<uint32_t>(field.type()->index()))->values()->LookupByKey(value)) return Ok();
  return InvalidModel(field.name()->str(), " ", value, " is not in the schema");
}

Status SchemaEnums::check(const Table& table, int object) const {
  for (const auto& [field, holds] : fields(object)) {
    if (!table.CheckField(field->offset())) continue;
    const reflection::Type& type = *field->type();
    if (is_scalar(type.base_type())) {
      SMELT_TRY(check_scalar(*field, type.base_type(), table.GetAddressOf(field->offset())));
    } else if (holds == kUnion) {
      // The field before a union's says which type it has.
      const auto number = table.GetField<uint8_t>(static_cast<uint16_t>(field->offset() - sizeof(uint16_t)), 0);
      const auto* value = schema_.enums()->Get(static_cast<uint32_t>(type.index()))->values()->LookupByKey(number);
      const int member = value && value->union_type() ? table_object(value->union_type()->index()) : kNothing;
      if (member >= 0) SMELT_TRY(check(*table.GetPointer<const Table*>(field->offset()), member));
    } else if (type.base_type() == BaseType::Obj) {
      SMELT_TRY(check(*table.GetPointer<const Table*>(field->offset()), holds));
    } else if (holds >= 0) {
      const auto* tables = table.GetPointer<const flatbuffers::Vector<flatbuffers::Offset<Table>>*>(field->offset());
      for (const Table* t : *tables) SMELT_TRY(check(*t, holds));
    } else {
      const auto* scalars = table.GetPointer<const flatbuffers::VectorOfAny*>(field->offset());
      const size_t size = flatbuffers::GetTypeSize(type.element());
      for (size_t i = 0; i < scalars->size(); ++i)
        SMELT_TRY(check_scalar(*field, type.element(), scalars->Data() + i * size));
    }
  }
  return Ok();
}

}  // namespace smelt
