#pragma once
#include <string>

#include "cli/json.h"

namespace smelt::cli {

/// A model description (report.h) in Graphviz's language: a cluster for each graph, nodes by operator, edges by type.
std::string graph_dot(const Json& description);

}  // namespace smelt::cli
