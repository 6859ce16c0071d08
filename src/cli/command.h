#pragma once

#include <string>

#include "smelt/model.h"

namespace CLI {
class App;
}

namespace smelt::cli {

/// Exit statuses of the command line.
enum Exit : int { kDone = 0, kFault = 1, kUsage = 2, kMismatch = 3 };

/// Prints an error on standard error; the exit status for it.
int report(const Status& status);

/// Where a model runs.
struct Target {
  std::string backend = "cpu";
  int device = -1;
  std::string storage = "auto";
  bool fp16 = false;
  std::string match = "reference";
  bool deterministic = false, strict_types = false, bf16 = false;
  void apply(SessionOptions& options) const;
};

/// What a run may use; 0: the default.
struct Limits {
  size_t memory = 0;  ///< bytes beyond the weights
  double seconds = 0;
  void apply(SessionOptions& options) const {
    options.limit_memory = memory;
    options.limit_seconds = seconds;
  }
};

/// The options --limit-memory and --limit-seconds; precondition: `limits` outlives the parsing.
void add_limits(CLI::App& command, Limits& limits);

/// The options --backend, --device, --device-storage, --fp16, --bf16, --match, --deterministic and --strict-types;
/// precondition: `target` outlives the parsing.
void add_target(CLI::App& command, Target& target);

/// Runs `smelt ARGUMENTS` (argv[0] is the program's name) and returns its exit status. Prints errors; throws nothing.
int run_command_line(int argc, char** argv);

// Each adds its subcommand to the application; the callback stores the exit status.
void add_run(CLI::App& app, int& status);
void add_inspect(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_diff(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_bundle(CLI::App& app, int& status);
void add_convert(CLI::App& app, int& status);
void add_devices(CLI::App& app, int& status);
void add_completion(CLI::App& app, int& status);  ///< and `man`

}  // namespace smelt::cli
