#pragma once

#include <nlohmann/json.hpp>

#include "smelt/model.h"

namespace smelt::cli {

/// Everything that inspect shows, as one JSON object: format, sizes, methods with inputs and outputs, metadata,
/// variables, graphs with nodes (operator, attributes, values, the kernel that would run it). Reads no weights.
nlohmann::json describe_model(const Model& model, BackendKind backend);

}  // namespace smelt::cli
