#pragma once
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/json.h"
#include "smelt/model.h"

namespace smelt::cli {

/// Figures of measured times, in the unit of the samples.
struct TimeStatistics {
  double min = 0, max = 0, mean = 0, deviation = 0;
  double median = 0, p90 = 0, p99 = 0;
};
/// Precondition: at least one sample.
TimeStatistics time_statistics(std::vector<double> samples);

/// Adds the times and calls of a session's profile to those of others of the same model.
void add_profile(std::vector<ProfileEntry>& total, const std::vector<ProfileEntry>& part);

/// What ran between two profiles of one session, the later without times and calls of the earlier.
std::vector<ProfileEntry> profile_since(const std::vector<ProfileEntry>& before, std::vector<ProfileEntry> now);

/// Profile of one measured run, for a trace: when it began and the time of each node.
struct ProfiledRun {
  double start_ms = 0, wall_ms = 0;  ///< `start_ms` counts from the first measured run
  std::vector<ProfileEntry> nodes;
};

/// What `smelt bench` measured.
struct Measurement {
  double load_ms = 0, first_run_ms = 0;
  size_t streams = 1;                 ///< sessions that ran at the same time
  double wall_ms = 0;                 ///< from the begin of the first measured run to the end of the last
  std::vector<double> samples_ms;     ///< of the measured runs, in their order, stream by stream
  std::vector<ProfileEntry> profile;  ///< of the measured runs only, all streams together
  std::vector<ProfiledRun> traced;    ///< the first measured runs, if a trace is wanted
  bool interrupted = false;           ///< by Ctrl-C
};

/// "12.3 us" or "1.234 ms": three or four digits in a unit that suits.
std::string human_time(double ms);

/// Runs of all streams in a second.
double runs_per_second(const Measurement& m);

/// The figures as one object.
Json figures_json(const Measurement& m);

/// Time of each node as JSON: rows of `smelt inspect --optimised --nodes`.
Json profile_json(const Measurement& m);
/// profile_json() as CSV with a header.
std::string profile_csv(const Measurement& m);
/// The slowest nodes, the time of each operator, and the sum against the measured wall time.
void print_profile(const Measurement& m);

/// The traced runs in the Trace Event format, which Perfetto and chrome://tracing show: a slice for each run, and
/// inside it one for each node, laid end to end.
Json trace_json(const Measurement& m);

/// Compares with an earlier `bench --json`; `old`: its object. An error when it has no figures.
Status print_comparison(const Json& old, const TimeStatistics& now, const std::string& label);

}  // namespace smelt::cli
