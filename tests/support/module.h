#pragma once

#include <memory>

#include "graph/graph.h"

namespace smelt::test {

/// A module whose method "main" is its only graph, which is empty.
inline std::shared_ptr<Module> module_of_one_graph() {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  return module;
}

}  // namespace smelt::test
