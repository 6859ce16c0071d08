#include "cli/command.h"

int main(int argc, char** argv) {
  CLI::App app{"smelt loads, checks and runs on-device neural-network models of every common format", "smelt"};
  app.require_subcommand(1);
  int status = smelt::cli::kDone;
  smelt::cli::add_run(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? smelt::cli::kDone : smelt::cli::kUsage;
  }
  return status;
}
