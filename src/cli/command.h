#pragma once

#include <string>

#include "cli/parser.h"
#include "smelt/model.h"

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
void add_limits(Command command, Limits& limits);

/// The options --backend, --device, --device-storage, --fp16, --bf16, --match, --deterministic and --strict-types;
/// precondition: `target` outlives the parsing.
void add_target(Command command, Target& target);

/// Runs `smelt ARGUMENTS` (argv[0] is the program's name) and returns its exit status. Prints errors; throws nothing.
int run_command_line(int argc, char** argv);

// Each adds its subcommand to the application; the callback stores the exit status.
void add_run(Command app, int& status);
void add_inspect(Command app, int& status);
void add_bench(Command app, int& status);
void add_diff(Command app, int& status);
void add_explain(Command app, int& status);
void add_verify(Command app, int& status);
void add_bundle(Command app, int& status);
void add_convert(Command app, int& status);
void add_devices(Command app, int& status);
void add_completion(Command app, int& status);  ///< and `man`

}  // namespace smelt::cli
