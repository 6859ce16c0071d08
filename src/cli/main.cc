#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "cli/command.h"

namespace {

/// Descriptors 0, 1 and 2 exist: else a file that is opened would be taken for one of them.
void open_standard_streams() {
  int fd = 0;
  do fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of writing
  return smelt::cli::run_command_line(argc, argv);
}
