#pragma once

#include <cstdint>
#include <vector>

#include "formats/executorch/file.h"
#include "graph/graph.h"

namespace smelt::executorch {

/// Size and purpose of the bytes of a program's file and of the external data given with it.
std::vector<FilePart> file_parts(const ProgramFile& file);

/// Bytes of the buffers in which a method's activations are planned.
std::vector<uint64_t> planned_memory(const fb::et::ExecutionPlan& plan);

}  // namespace smelt::executorch
