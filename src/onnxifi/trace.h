#pragma once

#include <onnxifi.h>

#include <vector>

#include "smelt/model.h"

namespace smelt::onnxifi {

/// Microseconds since the epoch.
uint64_t trace_clock();
/// One 'X' event for the run and one a node of `profile`.
void fill_trace(onnxTraceEventList* list, uint64_t start, uint64_t end, const std::vector<ProfileEntry>& profile);
void release_trace(onnxTraceEventList* list);

}  // namespace smelt::onnxifi
