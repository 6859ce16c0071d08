#pragma once

#include <memory>
#include <string>

#include "compare/side.h"

namespace smelt {

/// A run of `file` by a peer, in a Python process that the script tracers/PEER.py describes: SMELT_PYTHON, or python3
/// of the PATH. `module` tells what the names of its values mean. run() fails with what the process said last, for
/// example that the peer is not installed.
Result<std::unique_ptr<Side>> open_peer(std::string label, const std::string& file, const std::string& peer,
                                        std::shared_ptr<const Module> module, int graph);

/// The folder of the tracers: share/smelt/tracers beside the folder of the running program.
std::string tracer_folder();

}  // namespace smelt
