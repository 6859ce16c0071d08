#pragma once

#include "graph/graph.h"

namespace smelt {

/// Checks a module's structure: indices, single definitions, topological order, operator arity and attributes,
/// constants that fit their types, graph references of control flow without recursion, methods and states in range.
Status verify(const Module& module);

}  // namespace smelt
