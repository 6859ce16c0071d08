#pragma once

#include <flatbuffers/reflection.h>

#include <string>
#include <vector>

#include "smelt/result.h"

namespace smelt {

/// The enumerations below one table of a flatbuffer schema: which of its fields, and of the tables that these hold,
/// have enumerators. Made once a schema.
class SchemaEnums {
 public:
  /// schema: the binary schema of a build's NAME_bfbs_generated.h, which outlives the object. root: the name of a table
  /// with its namespace.
  SchemaEnums(const uint8_t* schema, const char* root);
  /// Fails for an enumerator below `table`, a root table of a verified buffer, that the schema does not have. The types
  /// of unions are not looked at.
  Status check(const flatbuffers::Table& table) const;

 private:
  struct Field {
    const reflection::Field* field;
    std::vector<int> members;  ///< objects that it holds: one, or one a type of the union; -1: without enumerators
  };
  Status check(const flatbuffers::Table& table, int object) const;
  Status check_scalar(const reflection::Field& field, reflection::BaseType type, const uint8_t* at) const;

  const reflection::Schema& schema_;
  std::vector<std::vector<Field>> objects_;  ///< fields with enumerators of each object of the schema
  int root_ = -1;
};

}  // namespace smelt
