#pragma once

#include <flatbuffers/reflection.h>

#include <memory>
#include <mutex>
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
    int holds;  ///< the object that it holds, or each of its elements; kUnion, kNothing
  };
  static constexpr int kNothing = -1, kUnion = -2;
  /// What is looked at in a table; found when the first one is checked.
  struct Object {
    std::once_flag once;
    std::vector<Field> fields;  ///< with enumerators, or that hold tables
  };
  const std::vector<Field>& fields(int object) const;
  /// The object of a type, kUnion or kNothing.
  int held(const reflection::Type& type) const;
  int table_object(int object) const;
  Status check(const flatbuffers::Table& table, int object) const;
  Status check_scalar(const reflection::Field& field, reflection::BaseType type, const uint8_t* at) const;

  const reflection::Schema& schema_;
  std::unique_ptr<Object[]> objects_;  ///< one for each of the schema's
  int root_ = -1;
};

}  // namespace smelt
