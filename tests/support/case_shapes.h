// Shapes that a golden case gives the open inputs of its model.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/golden_case.h"
#include "cli/values.h"

namespace smelt::test {

/// Shapes of the case's inputs that the model leaves open, by name. `method` "": the first.
inline std::map<std::string, std::vector<int64_t>> open_shapes(const Model& model, const std::string& method,
                                                               const std::filesystem::path& folder) {
  std::map<std::string, std::vector<int64_t>> shapes;
  const auto ports = model.inputs(method);
  const auto files = cli::case_inputs(folder);
  for (size_t i = 0; i < std::min(ports.size(), files.size()); ++i) {
    if (ports[i].ranked && ports[i].shape.is_static()) continue;
    const auto value = cli::read_value(files[i]);
    if (!value.ok() || !value->is_tensor()) continue;
    const Shape& s = value->tensor.shape();
    shapes[ports[i].name] = {s.begin(), s.end()};
  }
  return shapes;
}

}  // namespace smelt::test
