#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/json.h"
#include "smelt/model.h"

namespace smelt::cli {

/// Tolerances of a comparison that the caller chose; without them the tests say.
struct CaseTolerance {
  std::optional<double> rtol, atol;
  std::optional<int64_t> steps;  ///< of integers
};

/// "12.3 MB", "840 B".
std::string human_bytes(double bytes);

/// "3.51 M", "840".
std::string human_count(double count);

/// All of standard input; an error when it was read before.
Result<std::shared_ptr<const std::string>> read_standard_input();

/// Options of a load with the operators of these libraries.
Result<LoadOptions> load_options(std::vector<std::string> data_files, std::vector<std::string> tolerate,
                                 const std::vector<std::string>& operator_libraries);

/// Model::load(), with "-" for standard input. Prints the model's warnings on standard error.
/// `like_sessions`: for sessions of the same options alone, whose first one then takes less memory.
Result<Model> load_model(const std::string& path, const LoadOptions& options, bool like_sessions = false);

/// A file's JSON; an error that names the file when it is none.
Result<Json> read_json(const std::string& path);

/// The number of threads for --threads: 0 stands for all cores.
int thread_count(int threads);

}  // namespace smelt::cli
