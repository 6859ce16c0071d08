#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "runtime/environment.h"
#include "runtime/shape_guard.h"
#include "runtime/step.h"

namespace smelt {

class PlannedEnvironment;

/// True if a plan's inputs are judged by their contents too, where shapes follow from those.
enum class ContentUse : uint8_t { kRead, kTypesOnly };

/// Where the outputs of a run lie.
enum class OutputLifetime : uint8_t {
  kNextRun,  ///< in the plan's memory: valid until the graph runs again
  kOwned,    ///< in storage of their own
};

/// A run of a graph within a run of the session.
struct GraphCall {
  int depth = 0;  ///< graphs that run around this one
  OutputLifetime outputs = OutputLifetime::kNextRun;
  std::span<const Tensor> targets = {};  ///< memory of the caller that outputs may be made in; undefined ones: not
  GraphRole role() const { return depth == 0 ? GraphRole::kEntry : GraphRole::kBody; }
};

/// What a later plan of the same graph may go on from where what it follows from is the same.
struct PlanFindings {
  std::vector<ValueType> types;  ///< of every value, as far as planning knew
  std::vector<bool> folded;      ///< by value: planning knew its content, and no step makes it
  std::vector<int32_t> step_of;  ///< by node of the graph; -1: none
  bool complete = false;         ///< the contents of all folded values are still there
};

/// Bytes behind a value in the arena that vector kernels may read.
inline constexpr size_t kArenaSlack = 64;

/// The memory of a value in the arena.
struct ArenaSlot {
  ValueId value = kNoValue;
  size_t bytes = 0;  ///< kArenaSlack included; values that grow from plan to plan leave some
};

/// All that makes up a plan; see Plan.
struct PlanParts {
  const Graph* graph = nullptr;  ///< the module's, or `decomposed`
  /// The graph with further values, those between the parts of decomposed nodes; null: no node is decomposed.
  std::unique_ptr<Graph> decomposed;
  std::deque<Node> part_nodes;                     ///< that nodes are decomposed into
  std::deque<std::vector<ValueId>> joined_inputs;  ///< of steps that nodes are appended to
  GraphRole role = GraphRole::kEntry;
  std::vector<ValueType> inputs;  ///< concrete types of the graph's inputs
  std::vector<ShapeGuard> guards;
  PlanFindings findings;
  std::vector<Step> steps;
  std::vector<Datum> values;  ///< by ValueId
  std::shared_ptr<ArenaMemory> arena;
  size_t arena_bytes = 0, arena_lower_bound = 0;
  std::vector<ArenaSlot> slots;  ///< a plan has them by ValueId
  /// What segments that borrow memory are lent in the first run: parts of the arena without a value that lives then.
  std::vector<std::pair<Segment*, std::span<std::byte>>> lent;
  DeviceUse device;

  /// True if `output` may be made in the memory of an input of the graph.
  bool may_update(ValueId input, ValueId output) const;
  /// The memory of a value in the arena; nullptr: it has none there. Precondition: slots are by ValueId.
  const ArenaSlot* slot_of(ValueId id) const;
  /// True if that memory is large enough for a value of this type.
  bool has_memory_for(ValueId id, DType dtype, const Shape& shape) const;
};

/// A graph made ready for one set of input shapes: kernels chosen, activations laid out in one arena.
class Plan {
 public:
  explicit Plan(PlanParts parts);

  /// True if the plan is one for inputs like these.
  bool fits(std::span<const Datum> inputs, ContentUse contents) const;
  /// Plans of GraphRole::kEntry share one arena, and run one at a time.
  GraphRole role() const { return parts_.role; }
  /// Lets go of what it was given to run on: plans that wait keep no caller's memory.
  void release_inputs();
  Status run(PlannedEnvironment& env, std::span<const Datum> inputs, const GraphCall& call,
             std::vector<Datum>& outputs);

  /// Runs that began since the plan was made or became one for other inputs.
  uint64_t runs() const { return runs_; }
  /// What update_plan() changes.
  PlanParts& parts() { return parts_; }
  void forget_runs() { runs_ = 0; }
  /// Forgets the times of the steps.
  void reset_times();

  size_t arena_bytes() const { return parts_.arena_bytes; }
  size_t arena_lower_bound() const { return parts_.arena_lower_bound; }
  const DeviceUse& device() const { return parts_.device; }
  const std::vector<Step>& steps() const { return parts_.steps; }
  const Graph& graph() const { return *parts_.graph; }
  /// Nodes that the graph's are decomposed into.
  const std::deque<Node>& part_nodes() const { return parts_.part_nodes; }
  const PlanFindings& findings() const { return parts_.findings; }
  /// By ValueId; contents of folded values, and whatever the last run left in the others.
  std::span<const Datum> values() const { return parts_.values; }
  /// Of a value as planned. Precondition: a value of the graph.
  const ValueType& type(ValueId id) const { return parts_.findings.types[static_cast<size_t>(id)]; }
  /// "float32[1,10]" of a value as planned; "" for kNoValue.
  std::string type_text(ValueId id) const { return id == kNoValue ? "" : type(id).str(); }

 private:
  Datum& value(int32_t id) { return parts_.values[static_cast<size_t>(id)]; }
  Status run_step(PlannedEnvironment& env, Step& step, int depth);
  /// Asks for the memory, weights apart, that the steps behind this one are about to read: each asks for what the next
  /// one's address lies in, so that no step waits for a chain of addresses.
  void fetch_ahead(size_t at) const;
  Status run_segment(PlannedEnvironment& env, const Step& step, const SegmentStep& work, int depth);
  Status run_reference(PlannedEnvironment& env, const Step& step, const ReferenceStep& work, int depth);
  Status run_alias(const Step& step, const AliasStep& work);
  Status run_state(PlannedEnvironment& env, const Step& step, const StateStep& work);
  Status run_dynamic(PlannedEnvironment& env, const Step& step, DynamicStep& work, int depth);
  Status run_while(PlannedEnvironment& env, const Step& step, DynamicStep& work, int depth);
  /// An If's branch `graph`, whose results stay in its plan's memory.
  Status run_branch(PlannedEnvironment& env, const Step& step, int graph, int depth);
  /// Shows what a step made, as far as it lies on the host.
  Status show(ValueTap& tap, const Step& step);
  /// Adds the time that a step took, or what the nodes of its segment say.
  void note_time(Step& step, double micros);
  /// True if an output is an input that owns its storage: it goes on as it is.
  bool passed_on(ValueId id) const;

  PlanParts parts_;
  uint64_t runs_ = 0;
  OutputLifetime lifetime_ = OutputLifetime::kNextRun;  ///< of the run that began last
  std::vector<ValueId> of_branches_;  ///< values of that run that branches made in storage of their own
  std::vector<Datum> dynamic_in_, dynamic_out_;
};

/// Plans `graph` of the environment's module. `inputs`: concrete types of the graph's inputs; `given`: they themselves,
/// or none where contents are unknown. `before`: another plan of the graph, from which this one takes what holds for
/// both; null: none.
Result<std::unique_ptr<Plan>> build_plan(PlannedEnvironment& env, int graph, std::span<const ValueType> inputs,
                                         std::span<const Datum> given, GraphRole role, const Plan* before);

}  // namespace smelt
