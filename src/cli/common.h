#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/model.h"

namespace smelt::cli {

/// Tolerances of a comparison that the caller chose; without them the tests say.
struct CaseTolerance {
  std::optional<double> rtol, atol;
};

/// Loads a model and prints its warnings on standard error. `tolerate`: see LoadOptions.
Result<Model> load_model(const std::string& path, const std::vector<std::string>& data_files,
                         const std::vector<std::string>& tolerate = {});

/// "12.3 MB", "840 B".
std::string human_bytes(double bytes);

/// Random values of a port's type: reals in [-1, 1), integers small, bools; unknown dimensions take
/// their bound, or become 1.
Result<Datum> random_value(const Port& port, uint64_t seed);

}  // namespace smelt::cli
