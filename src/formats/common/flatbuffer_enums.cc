#include "formats/common/flatbuffer_enums.h"

#include <utility>

#include "base/error.h"

namespace smelt {
namespace {

using flatbuffers::Table;
using reflection::BaseType;

bool is_scalar(BaseType type) { return type > BaseType::UType && type < BaseType::Float; }

/// The objects that a field holds, -1 for a type of a union that is none; empty: it holds no tables.
std::vector<int> held_objects(const reflection::Schema& schema, const reflection::Type& type) {
  if (type.base_type() == BaseType::Obj || (type.base_type() == BaseType::Vector && type.element() == BaseType::Obj))
    return {type.index()};
  std::vector<int> out;
  if (type.base_type() == BaseType::Union)
    for (const auto* member : *schema.enums()->Get(static_cast<uint32_t>(type.index()))->values())
      out.push_back(member->union_type() ? member->union_type()->index() : -1);
  return out;
}

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
    : schema_(*reflection::GetSchema(schema)), objects_(schema_.objects()->size()) {
  // Fields are added until none is left that holds an object with enumerators.
  size_t before = 0, now = 1;
  while (now != before) {
    before = std::exchange(now, 1);
    for (uint32_t o = 0; o < schema_.objects()->size(); ++o) {
      const auto& object = *schema_.objects()->Get(o);
      if (object.name()->str() == root) root_ = static_cast<int>(o);
      std::vector<Field> fields;
      for (const reflection::Field* f : *object.fields()) {
        Field field{f, held_objects(schema_, *f->type())};
        size_t found = has_enumerators(*f->type()) ? 1 : 0;
        for (int& member : field.members) {
          if (member >= 0 && objects_[static_cast<size_t>(member)].empty()) member = -1;
          found += member >= 0 ? 1 : 0;
        }
        if (found > 0 && !object.is_struct()) fields.push_back(std::move(field));
        now += found;
      }
      objects_[o] = std::move(fields);
    }
  }
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
  for (const auto& [field, members] : objects_[static_cast<size_t>(object)]) {
    if (!table.CheckField(field->offset())) continue;
    const reflection::Type& type = *field->type();
    if (is_scalar(type.base_type())) {
      SMELT_TRY(check_scalar(*field, type.base_type(), table.GetAddressOf(field->offset())));
    } else if (type.base_type() == BaseType::Union) {
      // The field before a union's says which type it has; the schema's values are in order.
      const auto number = table.GetField<uint8_t>(static_cast<uint16_t>(field->offset() - sizeof(uint16_t)), 0);
      const auto& values = *schema_.enums()->Get(static_cast<uint32_t>(type.index()))->values();
      for (uint32_t i = 0; i < values.size(); ++i)
        if (values.Get(i)->value() == number && members[i] >= 0)
          SMELT_TRY(check(*table.GetPointer<const Table*>(field->offset()), members[i]));
    } else if (type.base_type() == BaseType::Obj) {
      SMELT_TRY(check(*table.GetPointer<const Table*>(field->offset()), members[0]));
    } else if (!members.empty()) {
      const auto* tables = table.GetPointer<const flatbuffers::Vector<flatbuffers::Offset<Table>>*>(field->offset());
      for (const Table* t : *tables) SMELT_TRY(check(*t, members[0]));
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
