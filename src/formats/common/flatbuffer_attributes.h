#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <string_view>

#include "formats/common/file_attributes.h"

namespace smelt {

/// Fields of the member that the union field `field` of a table holds, in the schema's order; those that the buffer
/// leaves out have the schema's defaults, or are missing where that has none. Enumerations are names.
///
/// `schema`: a binary schema of the build (cmake/schemas.cmake). `table_name`: with its namespace. The table is one
/// of a buffer that was verified. Empty when the union holds nothing that the schema knows.
StatedAttributes union_attributes(const uint8_t* schema, std::string_view table_name, std::string_view field,
                                  const flatbuffers::Table& table);

}  // namespace smelt
