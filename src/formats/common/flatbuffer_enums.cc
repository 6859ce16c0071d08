#include "formats/common/flatbuffer_enums.h"

#include "base/error.h"

namespace smelt {
namespace {

using flatbuffers::Table;
using reflection::BaseType;

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

}  // namespace

Status SchemaEnums::check(const Table& table, int object) const {
  for (int f = objects[object].begin; f < objects[object].end; ++f)
    if (table.CheckField(fields[f].offset)) SMELT_TRY(check(table, fields[f]));
  return Ok();
}

Status SchemaEnums::check(const Table& table, const Field& field) const {
  switch (field.holds) {
    case kScalar:
      return check_scalar(field, table.GetAddressOf(field.offset));
    case kScalars: {
      const auto* scalars = table.GetPointer<const flatbuffers::VectorOfAny*>(field.offset);
      const size_t size = flatbuffers::GetTypeSize(field.type);
      for (size_t i = 0; i < scalars->size(); ++i) SMELT_TRY(check_scalar(field, scalars->Data() + i * size));
      return Ok();
    }
    case kObject:
      return check(*table.GetPointer<const Table*>(field.offset), field.index);
    case kObjects: {
      const auto* tables = table.GetPointer<const flatbuffers::Vector<flatbuffers::Offset<Table>>*>(field.offset);
      for (const Table* t : *tables) SMELT_TRY(check(*t, field.index));
      return Ok();
    }
    case kUnion: {
      // The field before a union's says which type it has.
      const auto number = table.GetField<uint8_t>(static_cast<uint16_t>(field.offset - sizeof(uint16_t)), 0);
      const int16_t* of_union = members + field.index;
      const int object = number < of_union[0] ? of_union[1 + number] : -1;
      return object < 0 ? Ok() : check(*table.GetPointer<const Table*>(field.offset), object);
    }
  }
  return Ok();
}

Status SchemaEnums::check_scalar(const Field& field, const uint8_t* at) const {
  const int64_t value = integer(field.type, at);
  const Values& known = values[field.index];
  if (value >= known.first && value <= known.last) return Ok();
  return InvalidModel(names + field.name, " ", value, " is not in the schema");
}

}  // namespace smelt
