// The Trace Event format, which Perfetto and chrome://tracing show.
#pragma once

#include <cstdint>
#include <string>

#include "cli/json.h"

namespace smelt::cli {

/// Microseconds to the nearest nanosecond. Perfetto counts in these and drops a slice that ends one after its parent or
/// after the next one's start: slices that shall meet have to be rounded at their ends, not in their length.
int64_t nanoseconds(double micros);

/// A time of an event. The viewers multiply it by 1000 and cut the fraction, which gives `nanos` again.
double event_micros(int64_t nanos);

/// A slice of a thread ("X"), with times in nanoseconds.
Json slice_event(const std::string& name, int64_t begin, int64_t end, int process, int thread, Json arguments);

}  // namespace smelt::cli
