#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "smelt/result.h"

namespace smelt::cli {

/// Exit statuses of the command line.
enum Exit : int { kDone = 0, kFault = 1, kUsage = 2, kMismatch = 3 };

/// Prints an error on standard error; the exit status for it.
int report(const Status& status);

/// The options --backend and --device; precondition: both outlive the parsing.
void add_backend(CLI::App& command, std::string& backend, int& device);

// Each adds its subcommand to the application; the callback stores the exit status.
void add_run(CLI::App& app, int& status);
void add_inspect(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_bundle(CLI::App& app, int& status);
void add_devices(CLI::App& app, int& status);

}  // namespace smelt::cli
