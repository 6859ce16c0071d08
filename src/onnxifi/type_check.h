#pragma once

#include "graph/graph.h"

namespace smelt::onnxifi {

/// True if the kernels take the element types that meet in a graph. Shape rules let some pass that only the kernel
/// refuses (a complex Relu, bits of a float): asked here, before anybody counts on the model.
bool kernels_take_types(const Module& module);

}  // namespace smelt::onnxifi
