#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace smelt::cli {

/// Exit statuses of the command line.
enum Exit : int { kDone = 0, kFault = 1, kUsage = 2, kMismatch = 3 };

// Each adds its subcommand to the application; the callback stores the exit status.
void add_run(CLI::App& app, int& status);

}  // namespace smelt::cli
