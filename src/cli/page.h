#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace smelt::cli {

/// A self-contained HTML page around a model description (report.h): the graph laid out in layers, zoom, search and
/// node details.
std::string inspect_page(const nlohmann::json& description);

}  // namespace smelt::cli
