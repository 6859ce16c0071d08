#pragma once

#include <flatbuffers/reflection.h>

#include "smelt/result.h"

namespace smelt {

/// The enumerations below one table of a flatbuffer schema: which of its fields, and of the tables that these hold,
/// have enumerators. cmake/schema_enums.py makes the constants that it points to.
struct SchemaEnums {
  enum Holds : uint8_t { kScalar, kScalars, kObject, kObjects, kUnion };
  struct Field {
    uint16_t name, offset;      ///< in `names`; in the table of offsets of an object
    reflection::BaseType type;  ///< of the scalar, or of each
    Holds holds;
    uint16_t index;  ///< in `values`, `objects` or `members`
  };
  /// An object's fields.
  struct Object {
    uint16_t begin, end;
  };
  /// An enumeration, which has no gaps.
  struct Values {
    int32_t first, last;
  };

  const char* names;
  const Field* fields;  ///< with enumerators, or that hold tables with some
  const Object* objects;
  const Values* values;
  const int16_t* members;  ///< of each union: their number, then the object of each, -1 for one without enumerators
  uint16_t root;           ///< object

  /// Fails for an enumerator below `table`, a root table of a verified buffer, that the schema does not have. The types
  /// of unions are not looked at.
  Status check(const flatbuffers::Table& table) const { return check(table, root); }

 private:
  Status check(const flatbuffers::Table& table, int object) const;
  Status check(const flatbuffers::Table& table, const Field& field) const;
  Status check_scalar(const Field& field, const uint8_t* at) const;
};

}  // namespace smelt
