#include "runtime/planned_environment.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/large_memory.h"
#include "base/mapped_file.h"
#include "base/packing_threads.h"
#include "base/selection.h"
#include "ops/control/bodies.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/plan_update.h"

namespace smelt {
namespace {

/// What making a plan costs in steps, beside four a node.
constexpr uint64_t kPlanSteps = 50;
/// Arenas that the plans of one body hold together.
constexpr size_t kIdleBytes = size_t{32} << 20;
/// What may make caches grow from run to run.
constexpr bool kCachesGrow = builds_op("Concat") || builds_op("Attention") || builds_op("GroupQueryAttention");
/// Plans of one body that are kept beyond SessionOptions::max_plans, and the steps that they may have together.
constexpr size_t kBodyPlans = 256, kBodySteps = 8192;

bool same_types(std::span<const ValueType> a, std::span<const ValueType> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ValueType& p, const ValueType& q) {
    return p.dtype == q.dtype && p.ranked == q.ranked && p.shape == q.shape;
  });
}

void log_plan(const Plan& plan, CompileMode mode, const LogSink& log) {
  if (mode != CompileMode::kRun) return;
  std::map<std::string, size_t> slow;
  for (const Step& s : plan.steps())
    if (s.is<ReferenceStep>() || s.is<DynamicStep>())
      ++slow[s.node->origin.empty() ? to_string(s.node->op) : s.node->origin];
  log(LogLevel::kInfo, Cat("planned '", plan.graph().name, "': ", plan.steps().size(), " steps, ", plan.arena_bytes(),
                           " bytes of activations"));
  for (const auto& [name, count] : slow)
    log(LogLevel::kInfo, Cat("'", plan.graph().name, "': reference kernel of ", name, " (", count, ")"));
}

/// True of a node for which kernels give the bits of the reference kernel.
bool is_exact(const Node& node) {
  if (node.op == Op::kBinary) return static_cast<const BinaryAttrs&>(*node.attrs).fn != Binary::kPow;
  return (op_info(node.op).flags & kDataMovement) != 0 || node.op == Op::kConcat || node.op == Op::kCast ||
         node.op == Op::kWhere;
}

/// By graph: true if one node runs it, and it neither uses variables nor runs other graphs, whose plans might change.
std::vector<bool> graphs_that_lend_results(const Module& module) {
  const std::vector<int> callers = count_callers(module);
  std::vector<bool> lends;
  for (size_t g = 0; g < callers.size(); ++g)
    lends.push_back(callers[g] == 1 && std::ranges::none_of(module.graphs[g].nodes, [](const Node& n) {
                      return (op_info(n.op).flags & (kEffect | kControl)) != 0;
                    }));
  for (const Method& m : module.methods) lends[static_cast<size_t>(m.graph)] = false;
  return lends;
}

}  // namespace

PlannedEnvironment::PlannedEnvironment(std::shared_ptr<const Module> m, const SessionOptions& o,
                                       std::vector<std::shared_ptr<BackendModel>> models, CompileMode mode)
    : Environment(std::move(m), o),
      mode_(mode),
      models_(std::move(models)),
      lends_results_(graphs_that_lend_results(*module)),
      plans_(module->graphs.size()) {
  for (const auto& model : models_) {
    backends_.push_back(model->make_session(options, threads.threads()));
    if (backends_.back()->memory() == MemorySpace::kDevice) device_ = backends_.back().get();
  }
}

const char* PlannedEnvironment::isa() const {
  for (const auto& b : backends_)
    if (*b->isa()) return b->isa();
  return "reference";
}

void PlannedEnvironment::reset_state() {
  Environment::reset_state();
  if (device_) device_->all_states_written();
}

const Plan* PlannedEnvironment::latest(int graph) const {
  const auto& list = plans_[static_cast<size_t>(graph)];
  return list.empty() ? nullptr : list.front().get();
}

Status PlannedEnvironment::fold_node(const Graph& graph, const Node& node, std::vector<Datum> in,
                                     std::vector<ValueType> types, std::vector<Datum>& out) {
  struct Folding {
    bool& flag;
    explicit Folding(bool& f) : flag(f) { flag = true; }
    ~Folding() { flag = false; }
  } const folding(folding_);
  InferredTypes inferred{.outputs = std::move(types)};
  inferred.given = std::ranges::all_of(inferred.outputs, [](const ValueType& t) { return t.is_static(); });
  SMELT_TRY(execute_node(*this, graph, node, std::move(in), out, 0, inferred));
  for (const Datum& d : out)
    if (d.is_tensor()) control.release(d.tensor.bytes());
  return Ok();
}

std::shared_ptr<ArenaMemory> PlannedEnvironment::entry_arena(size_t bytes, bool fills) {
  // Shapes that grow from run to run find memory ahead; one large run does not keep its memory for ever.
  constexpr size_t kSmall = size_t{1} << 20;
  const size_t have = entry_arena_ ? entry_arena_->bytes() : 0;
  if (have >= bytes && have / 4 <= std::max(bytes, kSmall)) return entry_arena_;
  const size_t ahead = have > 0 && have < bytes ? bytes / 4 : 0;
  // A large arena has pages of its own: what packed weights left of theirs goes back first.
  if (bytes + ahead >= WorkMemory::kLarge) trim_blocks();
  entry_arena_ = ArenaMemory::make(bytes + ahead);
  if (entry_arena_ && fills && mode_ == CompileMode::kRun)
    populate_pages(entry_arena_->data(), entry_arena_->data() + bytes);
  return entry_arena_;
}

Result<Plan*> PlannedEnvironment::plan_for(int graph, std::span<const Datum> inputs, GraphRole role,
                                           ContentUse contents) {
  auto& list = plans_[static_cast<size_t>(graph)];
  const bool entry = role == GraphRole::kEntry;
  // The one that ran last, else from the one that ran longest ago: shapes mostly stay, or come round.
  for (size_t i = 0; i < list.size(); ++i) {
    const size_t at = i == 0 ? 0 : list.size() - i;
    if (list[at]->role() != role || !list[at]->fits(inputs, contents)) continue;
    if (at > 0) {
      if (entry) list.front()->release_inputs();
      std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(at),
                  list.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return list.front().get();
  }
  if (entry && !list.empty()) list.front()->release_inputs();
  if (entry) pack_time_ = runs_ == 0 && contents == ContentUse::kRead ? PackTime::kSecondRun : PackTime::kPlan;
  const Graph& g = module->graphs[static_cast<size_t>(graph)];
  std::vector<ValueType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    types.push_back(type_of(inputs[i]));
    if (!types.back().quant) types.back().quant = g.value(g.inputs[i]).type.quant;
  }
  return add_plan(graph, types, contents == ContentUse::kRead ? inputs : std::span<const Datum>(), role);
}

void PlannedEnvironment::reserve_scratch(const Plan& plan) {
  size_t most = 0;
  for (const Step& step : plan.steps())
    if (const size_t bytes = step.scratch_bytes(); bytes > step.scratch.size()) most = std::max(most, bytes);
  if (most > 0) scratch.reserve(most);
}

PlanUpdate PlannedEnvironment::grow_plan(std::vector<std::unique_ptr<Plan>>& list, std::span<const ValueType> inputs,
                                         GraphRole role) {
  if (list.empty()) return PlanUpdate::kUnchanged;
  // A plan that ran more than once may be asked for again.
  if (Plan& last = *list.front();
      last.role() != role || last.runs() != 1 || last.parts().decomposed || !grows(last.parts().inputs, inputs))
    return PlanUpdate::kUnchanged;
  // Where memory runs out half-way, the plan goes.
  std::unique_ptr<Plan> plan = std::move(list.front());
  list.erase(list.begin());
  const PlanUpdate made = update_plan(*this, *plan, inputs);
  if (made == PlanUpdate::kBroken) return made;
  if (made == PlanUpdate::kDone) {
    plan->forget_runs();
    reserve_scratch(*plan);
  }
  list.insert(list.begin(), std::move(plan));
  return made;
}

Result<Plan*> PlannedEnvironment::add_plan(int graph, std::span<const ValueType> inputs, std::span<const Datum> given,
                                           GraphRole role) {
  auto& list = plans_[static_cast<size_t>(graph)];
  const size_t nodes = module->graphs[static_cast<size_t>(graph)].nodes.size();
  SMELT_TRY(control.spend(kPlanSteps + 4 * nodes));
  auto update = PlanUpdate::kUnchanged;
  const bool may_grow = role == GraphRole::kEntry || lends_results(graph);
  if (kCachesGrow && !given.empty() && may_grow) update = grow_plan(list, inputs, role);
  if (update == PlanUpdate::kDone) return list.front().get();
  const Plan* before = list.empty() ? nullptr : list.front().get();
  if (mode_ == CompileMode::kRun) expect_blocks(size.constants);
  PackingThreads::Copies copies;
  std::optional<PackingThreads::Use> packing;
  if (mode_ == CompileMode::kRun) packing.emplace(threads, copies);
  SMELT_ASSIGN(auto plan, build_plan(*this, graph, inputs, given, role, before));
  if (mode_ == CompileMode::kRun) reserve_scratch(*plan);
  if (role == GraphRole::kEntry) {
    trim_blocks();  // the weights are packed by now
    if (runs_ == 0) release_pages(module->file.data(), module->file.size());
  }
  if (update == PlanUpdate::kTooSmall) list.erase(list.begin());  // with its arena
  // A graph's own least recently used plans make room: plans of graphs that are running stay. Those of bodies, whose
  // shapes may change with every call, hold little memory; small ones may be many.
  const auto drop_last = [&] {
    for (const Node& n : list.back()->part_nodes()) late_.erase(&n);
    list.pop_back();
  };
  size_t most = std::max<size_t>(options.max_plans, 1);
  if (role == GraphRole::kBody) most = std::max(most, std::min(kBodyPlans, kBodySteps / std::max<size_t>(nodes, 1)));
  if (list.size() >= most) drop_last();
  if (role == GraphRole::kBody) {
    size_t idle = plan->arena_bytes();
    for (const auto& p : list) idle += p->arena_bytes();
    for (; idle > kIdleBytes && !list.empty(); drop_last()) idle -= list.back()->arena_bytes();
  }
  if (options.log) log_plan(*plan, mode_, options.log);
  list.insert(list.begin(), std::move(plan));
  return list.front().get();
}

Result<const Plan*> PlannedEnvironment::prepare(int graph, std::span<const ValueType> inputs) {
  SMELT_ASSIGN(const Plan* plan, add_plan(graph, inputs, {}, GraphRole::kEntry));
  return plan;
}

Status PlannedEnvironment::run(int graph, std::span<const Datum> inputs, const GraphCall& call,
                               std::vector<Datum>& outputs) {
  if (call.depth > 64) return LimitReached("graphs are nested more than 64 deep");
  const Graph& g = module->graphs[static_cast<size_t>(graph)];
  if (inputs.size() != g.inputs.size())
    return InvalidInput(inputs.size(), " inputs given, graph '", g.name, "' takes ", g.inputs.size());
  if (call.depth > 0) SMELT_TRY(control.enter(graph, inputs));
  std::optional<QuickPages> quick;
  if (runs_ == 0) quick.emplace();
  SMELT_ASSIGN(Plan * plan, plan_for(graph, inputs, call.role(), ContentUse::kRead));
  if (call.depth > 0) return plan->run(*this, inputs, call, outputs);
  Status done = plan->run(*this, inputs, call, outputs);
  ++runs_;
  if (near_) {
    near_.reset();
    threads.rest();
  }
  return done;
}

bool PlannedEnvironment::threads_are_near() {
  if (!near_) near_ = threads.near();
  return *near_;
}

std::shared_ptr<Segment> PlannedEnvironment::late_segment(const Graph& graph, const Node& node, LateKernel& late) {
  constexpr size_t kMaxScratch = size_t{1} << 30;
  std::vector<const Tensor*> constants;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    const bool fixed = id != kNoValue && std::ranges::find(graph.inputs, id) == graph.inputs.end();
    constants.push_back(fixed ? graph.value(id).constant.get() : nullptr);
    if (id == kNoValue) late.inputs[i].dtype = DType::kInvalid;
  }
  for (const auto& backend : backends_) {
    if (backend->memory() != MemorySpace::kHost) continue;
    const auto compiler = backend->begin_plan([this](size_t bytes) { return control.check(bytes); });
    PlannedNode planned{
        &node, Placement::kHere,
        compiler->prepare({{node, late.inputs, constants, late.outputs}, ConstantLifetime::kModel, ThreadUse::kAll},
                          nullptr)};
    if (!planned.prepared) continue;
    const NodeRange all{0, 0};
    auto compiled = compiler->compile({graph, {&planned, 1}, {}, {&all, 1}});
    if (!compiled.ok() || compiled->segments[0]->scratch_bytes() > kMaxScratch) return nullptr;
    late.name = compiled->nodes[0].kernel;
    return compiled->segments[0];
  }
  return nullptr;
}

Result<bool> PlannedEnvironment::fold_fast(const Graph& graph, const Node& node, KernelContext& ctx,
                                           std::span<const ValueType> outputs) {
  // Masks and positions of a long cache, which grow with it.
  constexpr int64_t kWorthwhile = 128;
  const bool worthwhile = std::ranges::any_of(
      outputs, [](const ValueType& t) { return t.is_static() && t.shape.elements() >= kWorthwhile; });
  if (!worthwhile || !is_exact(node)) return false;
  LateKernel late;
  late.outputs.assign(outputs.begin(), outputs.end());
  for (int i = 0; i < ctx.inputs(); ++i) {
    if (!ctx.datum(i).is_tensor() || ctx.input(i).quant()) return false;
    late.inputs.push_back(type_of(ctx.datum(i)));
  }
  const auto segment = late_segment(graph, node, late);
  if (!segment) return false;
  SMELT_TRY(segment->run(ctx, {}));
  return true;
}

Result<bool> PlannedEnvironment::run_fast(const Graph& graph, const Node& node, KernelContext& ctx,
                                          std::span<const ValueType> inputs, std::span<const ValueType> outputs) {
  if (folding_) return fold_fast(graph, node, ctx, outputs);
  // Preparing to move little takes longer than moving it, and loops that gather slices ask with new shapes every time.
  if ((op_info(node.op).flags & kDataMovement) != 0 || node.op == Op::kConcat) {
    const int64_t worthwhile = node.op == Op::kGatherND ? 512 : 4096;  // an index for each element
    int64_t moved = 0;
    for (const ValueType& t : outputs) moved += t.shape.is_static() ? t.shape.elements() : 0;
    if (moved < worthwhile) return false;
  }
  LateKernel& late = late_[&node];
  if (!late.made || !same_types(late.inputs, inputs) || !same_types(late.outputs, outputs)) {
    late.made = false;  // where memory runs out, it is made again
    late.inputs.assign(inputs.begin(), inputs.end());
    late.outputs.assign(outputs.begin(), outputs.end());
    late.segment = late_segment(graph, node, late);
    late.made = true;
  }
  if (!late.segment) return false;
  SMELT_TRY(late.segment->run(ctx, {}));
  return true;
}

const char* PlannedEnvironment::kernel_of(const Step& step) const {
  const auto late = step.is<DynamicStep>() ? late_.find(step.node) : late_.end();
  return late != late_.end() && late->second.segment ? late->second.name : step.kernel_name();
}

Result<std::vector<Datum>> PlannedEnvironment::call(int graph, std::span<const Datum> inputs, int depth) {
  std::vector<Datum> outputs;
  SMELT_TRY(run(graph, inputs, {depth, depth > 0 ? OutputLifetime::kOwned : OutputLifetime::kNextRun}, outputs));
  return outputs;
}

}  // namespace smelt
