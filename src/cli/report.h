#pragma once

#include "cli/dimensions.h"
#include "cli/json.h"
#include "formats/common/file_attributes.h"
#include "smelt/model.h"

namespace smelt::cli {

/// Everything that inspect shows, as one JSON object: format, sizes, methods with inputs and outputs, metadata,
/// variables, graphs with nodes (operator, attributes, values, the kernel that would run it and where). Reads no
/// weights. Of `on` the back-end and device count; an error when the device is not there. `optimised`: graphs are those
/// that runs execute, fused and folded, in place of the file's. `sizes`: of unknown dimensions of inputs. `*shown`, if
/// not null, becomes the module whose graphs and values the description lists, in their order. `stated`, if not null:
/// attributes of the file's operators, recorded while it was loaded; nodes get them as "file_attributes".
Result<Json> describe_model(const Model& model, const SessionOptions& on, const DimensionOptions& sizes, bool optimised,
                            std::shared_ptr<const Module>* shown = nullptr, const FileAttributes* stated = nullptr);

}  // namespace smelt::cli
