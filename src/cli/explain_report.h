#pragma once
#include <string>
#include <vector>

#include "cli/json.h"
#include "runtime/planned_environment.h"

namespace smelt::cli {

/// Steps of a plan and the values that they make in its arena.
struct StepTrace {
  struct Step {
    std::string name, kernel;
    double micros = 0;  ///< of a run; 0: not measured
  };
  struct Lifetime {
    std::string name;
    size_t offset = 0, bytes = 0;  ///< in the arena
    size_t first = 0, last = 0;    ///< steps
  };
  std::vector<Step> steps;
  std::vector<Lifetime> lifetimes;
};
/// `plan`: one of `env`.
StepTrace trace_of(const PlannedEnvironment& env, const Plan& plan);

/// The trace in Chrome's format: steps, lifetimes by arena offset, and the bytes in use. Steps without a measured time
/// last a microsecond.
Json trace_json(const StepTrace& trace);

struct ExplanationHead {
  std::string backend;
  bool timed = false;
};
/// What docs/schemas/explain.json says. `file`: describe_model() of the file; `run`: the graph that runs, with "steps";
/// `nodes`: those of the file and their fates.
Json explanation(const ExplanationHead& head, const Json& file, const Json& run, Json nodes);
void print_explanation(const Json& explanation);

}  // namespace smelt::cli
