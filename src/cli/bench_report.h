#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "smelt/model.h"

namespace smelt::cli {

/// Figures of measured times, in the unit of the samples.
struct TimeStatistics {
  double min = 0, max = 0, mean = 0, deviation = 0;
  double median = 0, p90 = 0, p99 = 0;
};
/// Precondition: at least one sample.
TimeStatistics time_statistics(std::vector<double> samples);

/// A row of a profile and the node that it belongs to.
struct ProfileRow {
  size_t graph = 0, index = 0;  ///< of the optimised model, as `smelt inspect --optimised --nodes` lists it
  ProfileEntry entry;
};
/// The rows of a session's profile with their nodes in `module`, the model that the session runs; parts of a decomposed
/// node have its index. Precondition: the profile lists the nodes of each plan in order, plan by plan, graph by graph.
std::vector<ProfileRow> profile_rows(const Module& module, const std::vector<ProfileEntry>& profile);

/// What ran between two profiles of one session, the later without times and calls of the earlier.
std::vector<ProfileEntry> profile_since(const std::vector<ProfileEntry>& before, std::vector<ProfileEntry> now);

/// Profile of one measured run, for a trace: when it began and the time of each node.
struct ProfiledRun {
  double start_ms = 0, wall_ms = 0;  ///< `start_ms` counts from the first measured run
  std::vector<ProfileRow> nodes;
};

/// What `smelt bench` measured.
struct Measurement {
  double load_ms = 0, first_run_ms = 0;
  std::vector<double> samples_ms;   ///< of the measured runs, in their order
  std::vector<ProfileRow> profile;  ///< of the measured runs only
  std::vector<ProfiledRun> traced;  ///< the first measured runs, if a trace is wanted
  bool interrupted = false;         ///< by Ctrl-C
};

/// "12.3 us" or "1.234 ms": three or four digits in a unit that suits.
std::string human_time(double ms);

/// The figures as one object.
nlohmann::json figures_json(const Measurement& m);

/// Time of each node as JSON: rows of `smelt inspect --optimised --nodes`.
nlohmann::json profile_json(const Measurement& m);
/// profile_json() as CSV with a header.
std::string profile_csv(const Measurement& m);
/// The slowest nodes, the time of each operator, and the sum against the measured wall time.
void print_profile(const Measurement& m);

/// The traced runs in the Trace Event format, which Perfetto and chrome://tracing show: a slice for each run, and
/// inside it one for each node, laid end to end.
nlohmann::json trace_json(const Measurement& m);

/// Compares with an earlier `bench --json`; `old`: its object. An error when it has no figures.
Status print_comparison(const nlohmann::json& old, const TimeStatistics& now, const std::string& label);

}  // namespace smelt::cli
