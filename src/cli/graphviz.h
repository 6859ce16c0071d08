#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace smelt::cli {

/// A model description (report.h) in Graphviz's language: a cluster for each graph, nodes by operator, edges by type.
std::string graph_dot(const nlohmann::json& description);

}  // namespace smelt::cli
