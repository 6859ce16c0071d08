#pragma once

#include <string>
#include <vector>

#include "cli/bench_report.h"
#include "smelt/model.h"

namespace smelt::cli {

/// How long and in how many sessions to measure.
struct MeasureOptions {
  int runs = 20, warmup = 3;  ///< of each stream; the first run counts as one of the warm-up
  double seconds = 0;         ///< measures for this time instead of `runs`, if positive
  bool trace = false;         ///< keep the profiles of the first runs of the first stream
};

/// Milliseconds of a clock that never goes back.
double now_ms();

/// Warms up and measures sessions of one model, each in a thread of its own if there are several, until the runs or the
/// seconds are over. The first run of each is over. Ctrl-C ends the measurement; an error if that comes before the
/// first measured run.
Status measure(std::vector<Session>& streams, const std::vector<Datum>& inputs, const MeasureOptions& options,
               Measurement& measurement);

/// Restricts the process to the processors of a list like "0-3,6". An error for one that there is none of.
Status restrict_to_cpus(const std::string& list);
/// True if the text is a list of processors.
bool is_cpu_list(const std::string& text);

}  // namespace smelt::cli
