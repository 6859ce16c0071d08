#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/plan.h"

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
StepTrace trace_of(const Plan& plan);

/// The trace in Chrome's format: steps, lifetimes by arena offset, and the bytes in use. Steps without a measured time
/// last a microsecond.
nlohmann::json trace_json(const StepTrace& trace);

struct ExplanationHead {
  std::string backend;
  bool timed = false;
};
/// What docs/schemas/explain.json says. `file`: describe_model() of the file; `run`: the graph that runs, with "steps";
/// `nodes`: those of the file and their fates.
nlohmann::json explanation(const ExplanationHead& head, const nlohmann::json& file, const nlohmann::json& run,
                           nlohmann::json nodes);
void print_explanation(const nlohmann::json& explanation);

}  // namespace smelt::cli
