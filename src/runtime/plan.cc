#include "runtime/plan.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "graph/node_label.h"
#include "ops/control/bodies.h"
#include "ops/control/control.h"
#include "runtime/owned_outputs.h"
#include "runtime/planned_environment.h"

namespace smelt {
namespace {

const Datum kAbsent;  ///< an optional input that is not there

/// A step's view of the plan's values.
class SlotContext final : public RunContext {
 public:
  SlotContext(PlannedEnvironment& env, const Step& step, PlanParts& parts, int depth, ThreadPool& threads)
      : RunContext(env, *step.node, depth),
        step_(step),
        parts_(parts),
        threads_(threads),
        scratch_(env.scratch),
        mark_(scratch_.mark()) {}
  ~SlotContext() override { scratch_.release(mark_); }
  const Datum& datum(int i) const override {
    const int32_t s = step_.in[static_cast<size_t>(i)];
    return s < 0 ? kAbsent : parts_.values[static_cast<size_t>(s)];
  }
  Tensor& output(int i) override {
    return parts_.values[static_cast<size_t>(step_.out[static_cast<size_t>(i)])].tensor;
  }
  Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) override {
    if (i >= outputs() || step_.out[static_cast<size_t>(i)] < 0) {
      SMELT_ASSIGN(Tensor spare, Tensor::allocate(dtype, shape));
      spare_ = std::move(spare);
      return &*spare_;
    }
    Tensor& t = output(i);
    if (t.dtype() == dtype && may_get(step_.out[static_cast<size_t>(i)], dtype, shape)) {
      t = Tensor::view(dtype, shape, t.raw(), nullptr);
      return &t;
    }
    if (t.dtype() != dtype || !(t.shape() == shape))
      return Internal(to_string(node_->op), " gives another shape than its shape rule");
    return &t;
  }
  void set_output(int i, Datum value) override {
    if (i < outputs() && step_.out[static_cast<size_t>(i)] >= 0)
      parts_.values[static_cast<size_t>(step_.out[static_cast<size_t>(i)])] = std::move(value);
  }
  void* scratch(size_t bytes) override {
    if (step_.scratch.empty() || bytes > step_.scratch.size() || std::exchange(in_arena_, true))
      return scratch_.take(bytes);
    return step_.scratch.data();
  }
  ThreadPool& threads() override { return threads_; }
  QuantPtr output_quant(int i) const override {
    const int32_t s = step_.out[static_cast<size_t>(i)];
    return s < 0 ? nullptr : parts_.values[static_cast<size_t>(s)].tensor.quant();
  }

 private:
  /// True of a value whose shape each run decides, if its memory is large enough.
  bool may_get(ValueId id, DType dtype, const Shape& shape) const {
    return !parts_.findings.types[static_cast<size_t>(id)].is_static() && parts_.has_memory_for(id, dtype, shape);
  }
  const Step& step_;
  PlanParts& parts_;
  ThreadPool& threads_;
  ScratchStack& scratch_;
  ScratchStack::Mark mark_;
  bool in_arena_ = false;  ///< the step's own place is taken
  std::optional<Tensor> spare_;
};

void copy_bytes(const Tensor& from, Tensor& to) {
  if (from.bytes() > 0 && from.raw() != to.raw()) std::memmove(to.raw(), from.raw(), from.bytes());
}

/// Stores a value in a variable: into its own storage when it fits, else as new storage.
void write_state(Datum& state, const Datum& value) {
  if (value.is_tensor() && state.is_tensor() && state.tensor.dtype() == value.tensor.dtype() &&
      state.tensor.dtype() != DType::kString && state.tensor.shape() == value.tensor.shape() && state.tensor.raw()) {
    copy_bytes(value.tensor, state.tensor);
    return;
  }
  state = value.is_tensor() ? Datum(value.tensor.clone()) : value;
}

/// Gives what lies in an arena storage of its own: containers and carried values outlive the step.
void own(Datum& d) {
  if (d.is_tensor()) {
    if (!d.tensor.owner() && d.tensor.raw()) d.tensor = d.tensor.clone();
    return;
  }
  if (!d.items) return;
  for (Datum& item : *d.items) {
    if (item.is_tensor() && (item.tensor.owner() || !item.tensor.raw())) continue;
    own(item);
  }
}

/// True if a tensor's contents begin in those of another one.
bool lies_in(const Datum& part, const Datum& whole) {
  if (!part.is_tensor() || !whole.is_tensor() || !whole.tensor.raw()) return false;
  const auto* const begin = static_cast<const std::byte*>(whole.tensor.raw());
  const auto* const at = static_cast<const std::byte*>(part.tensor.raw());
  return at && !std::less<>()(at, begin) && std::less<>()(at, begin + std::max<size_t>(whole.tensor.bytes(), 1));
}

/// Reference kernels find their outputs zeroed, as in the obvious executor.
void clear_outputs(const Step& step, std::vector<Datum>& values) {
  for (int32_t s : step.out) {
    if (s < 0) continue;
    Tensor& t = values[static_cast<size_t>(s)].tensor;
    if (t.dtype() == DType::kString) {
      for (int64_t i = 0; i < t.elements(); ++i) t.data<std::string>()[i].clear();
    } else if (t.bytes() > 0) {
      std::memset(t.raw(), 0, t.bytes());
    }
  }
}

/// In a body, what handing work to a device costs in steps: a loop without end is stopped soon there, too.
constexpr uint64_t kStepsOfSubmission = 64;

/// Memory held until the end of a block.
struct Charged {
  RunControl& control;
  size_t bytes;
  ~Charged() { control.release(bytes); }
};

/// Texts are not in the arena: what the step's string outputs may hold is checked before it runs.
Status check_texts(PlannedEnvironment& env, const Step& step, const std::vector<Datum>& values) {
  for (int32_t s : step.out) {
    if (s < 0 || values[static_cast<size_t>(s)].tensor.dtype() != DType::kString) continue;
    std::vector<Datum> in;
    for (int32_t i : step.in)
      if (i >= 0) in.push_back(values[static_cast<size_t>(i)]);
    SMELT_TRY(env.control.check_text(in, values[static_cast<size_t>(s)].tensor.elements()));
  }
  return Ok();
}

/// Segments have what they are lent for as long as this lives.
class LentMemory {
 public:
  explicit LentMemory(std::vector<std::pair<Segment*, std::span<std::byte>>> memory) : memory_(std::move(memory)) {
    for (const auto& [segment, bytes] : memory_) segment->lend(bytes);
  }
  ~LentMemory() {
    for (const auto& lent : memory_) lent.first->lend({});
  }
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

 private:
  std::vector<std::pair<Segment*, std::span<std::byte>>> memory_;
};

/// Constants of a model, in bytes, that push what a step reads beside them out of the caches before it runs again.
constexpr size_t kBeyondCaches = size_t{8} << 20;

/// Asks for the lines of an object, which is read soon.
template <class T>
void fetch(const T& object) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < sizeof(T); at += kLine) __builtin_prefetch(reinterpret_cast<const char*>(&object) + at);
}

}  // namespace

Plan::Plan(PlanParts parts) : parts_(std::move(parts)) { std::ranges::sort(parts_.slots, {}, &ArenaSlot::value); }

bool Plan::fits(std::span<const Datum> inputs, ContentUse contents) const {
  return std::equal(inputs.begin(), inputs.end(), parts_.inputs.begin(), parts_.inputs.end(), has_type) &&
         (contents == ContentUse::kTypesOnly ||
          std::ranges::all_of(parts_.guards, [&](const ShapeGuard& g) { return g.holds(inputs); }));
}

Status Plan::run_segment(PlannedEnvironment& env, const Step& step, const SegmentStep& work, int depth) {
  if (!work.segment) return Ok();
  if (depth > 0 && env.device() && work.backend->memory() == MemorySpace::kDevice)
    SMELT_TRY(env.control.spend(kStepsOfSubmission));
  const Sharing sharing = work.segment->sharing();
  SlotContext ctx(env, step, parts_, depth, sharing == Sharing::kNone ? env.one_thread : env.threads);
  std::optional<ThreadPool::Alone> alone;
  if (sharing == Sharing::kNear && !env.threads_are_near()) alone.emplace();
  return work.segment->run(ctx, parts_.values);
}

Status Plan::run_reference(PlannedEnvironment& env, const Step& step, const ReferenceStep& work, int depth) {
  if (work.in_place)
    value(step.out[0]) = value(step.in[0]);
  else if (!(op_info(step.node->op).flags & kUpdate))
    clear_outputs(step, parts_.values);
  SMELT_TRY(check_texts(env, step, parts_.values));
  SlotContext ctx(env, step, parts_, depth, env.threads);
  return op_info(step.node->op).reference(ctx);
}

Status Plan::run_alias(const Step& step, const AliasStep& work) {
  if (work.laid_out) return Ok();
  const Tensor& from = value(step.in[0]).tensor;
  const ValueType& as = type(step.out[0]);
  Datum& to = value(step.out[0]);
  to.kind = Datum::Kind::kTensor;
  to.tensor =
      from.dtype() == as.dtype ? from.reshaped(as.shape) : Tensor::view(as.dtype, as.shape, from.raw(), from.owner());
  const bool per_token = as.quant && as.quant->kind == Quantization::Kind::kPerToken;
  to.tensor.set_quant(per_token ? from.quant() : as.quant);
  return Ok();
}

Status Plan::run_state(PlannedEnvironment& env, const Step& step, const StateStep& work) {
  const int index = static_cast<const StateAttrs&>(*step.node->attrs).state;
  Datum& state = env.states[static_cast<size_t>(index)];
  if (work.kind == StateStep::Kind::kWrite) {
    write_state(state, value(step.in[0]));
    if (env.device()) env.device()->state_written(index);
    return Ok();
  }
  Datum& to = value(step.out[0]);
  if (!state.is_tensor()) return InvalidInput("the variable is read before it was assigned");
  if (env.device()) SMELT_TRY(env.device()->fetch_state(index, state.tensor));
  if (const Shape& planned = type(step.out[0]).shape; work.fixed_shape && !(state.tensor.shape() == planned))
    return InvalidInput("the variable has shape ", state.tensor.shape().str(), ", the model's assignments have ",
                        planned.str());
  if (work.kind == StateStep::Kind::kRead) {
    to = state;
    return Ok();
  }
  copy_bytes(state.tensor, to.tensor);
  return Ok();
}

Status Plan::run_branch(PlannedEnvironment& env, const Step& step, int graph, int depth) {
  dynamic_in_.clear();
  for (const int32_t id : std::span(step.in).subspan(1)) dynamic_in_.push_back(id < 0 ? Datum{} : value(id));
  const auto is_output = [&](ValueId id) {
    return id != kNoValue && std::ranges::find(this->graph().outputs, id) != this->graph().outputs.end();
  };
  const bool given_away = lifetime_ == OutputLifetime::kOwned && std::ranges::any_of(step.out, is_output);
  const OutputLifetime lifetime = given_away ? OutputLifetime::kOwned : OutputLifetime::kNextRun;
  SMELT_TRY(env.run(graph, dynamic_in_, {depth + 1, lifetime}, dynamic_out_));
  SMELT_TRY(check_results(*env.module, graph, dynamic_out_.size(), step.out.size()));
  for (size_t i = 0; i < step.out.size(); ++i) {
    if (step.out[i] < 0) continue;
    Datum& result = dynamic_out_[i];
    // What lies in an argument's memory does not hold: this plan may use that memory again.
    if (!result.is_tensor() || std::ranges::any_of(dynamic_in_, [&](const Datum& d) { return lies_in(result, d); }))
      own(result);
    if (result.is_tensor()) SMELT_TRY(env.control.charge(result.tensor.bytes()));
    value(step.out[i]) = std::move(result);
    if (given_away) of_branches_.push_back(step.out[i]);
  }
  return Ok();
}

Status Plan::run_dynamic(PlannedEnvironment& env, const Step& step, DynamicStep& work, int depth) {
  if (step.node->op == Op::kIf && !env.device()) {
    const auto& a = static_cast<const IfAttrs&>(*step.node->attrs);
    SMELT_ASSIGN(const bool condition, condition_of(value(step.in[0])));
    const int branch = condition ? a.then_graph : a.else_graph;
    if (env.lends_results(branch)) return run_branch(env, step, branch, depth);
  }
  dynamic_in_.clear();
  dynamic_in_.reserve(step.in.size());
  for (int32_t id : step.in) dynamic_in_.push_back(id < 0 ? Datum{} : value(id));
  SMELT_TRY(execute_node(env, graph(), *step.node, std::move(dynamic_in_), dynamic_out_, depth, work.types));
  const bool keeps = (op_info(step.node->op).flags & (kContainer | kControl)) != 0;
  for (size_t i = 0; i < step.out.size(); ++i) {
    if (step.out[i] < 0) continue;
    if (keeps) own(dynamic_out_[i]);
    value(step.out[i]) = std::move(dynamic_out_[i]);
  }
  return Ok();
}

Status Plan::run_while(PlannedEnvironment& env, const Step& step, DynamicStep& work, int depth) {
  const auto& a = static_cast<const WhileAttrs&>(*step.node->attrs);
  if (!work.loop) work.loop = std::make_unique<LoopValues>();
  LoopValues& loop = *work.loop;
  const GraphCall inner{depth + 1, OutputLifetime::kNextRun};
  const size_t count = step.in.size();
  loop.begin(step.in, parts_.values);
  while (true) {
    SMELT_TRY(env.control.tick());
    SMELT_TRY(env.run(a.cond_graph, loop.values(), inner, loop.condition));
    if (loop.condition.empty()) return InvalidModel("the condition's graph gives no result");
    SMELT_ASSIGN(const bool go_on, condition_of(loop.condition[0]));
    if (!go_on) break;
    SMELT_TRY(env.run(a.body_graph, loop.values(), inner, loop.results));
    SMELT_TRY(check_results(*env.module, a.body_graph, loop.results.size(), count));
    SMELT_TRY(loop.take(loop.results, env.states));
  }
  for (size_t i = 0; i < step.out.size(); ++i) {
    if (step.out[i] < 0) continue;
    SMELT_ASSIGN(Datum kept, loop.give(i));
    if (kept.is_tensor()) SMELT_TRY(env.control.charge(kept.tensor.bytes()));
    value(step.out[i]) = std::move(kept);
  }
  return Ok();
}

void Plan::fetch_ahead(size_t at) const {
  const std::span<const Step> steps = parts_.steps;
  const auto later = [&](size_t ahead) { return at + ahead < steps.size() ? &steps[at + ahead] : nullptr; };
  if (const Step* step = later(3)) fetch(*step);
  if (const Step* step = later(2)) {
    __builtin_prefetch(step->in.data());
    __builtin_prefetch(step->out.data());
    if (const auto* work = std::get_if<SegmentStep>(&step->work)) __builtin_prefetch(work->segment.get());
  }
  if (const Step* step = later(1)) {
    for (const std::span<const ValueId> ids : {step->in, step->out})
      for (const ValueId id : ids)
        if (id != kNoValue) fetch(values()[static_cast<size_t>(id)]);
    if (const auto* work = std::get_if<SegmentStep>(&step->work); work && work->segment) work->segment->fetch();
  }
}

Status Plan::run_step(PlannedEnvironment& env, Step& step, int depth) {
  struct Runner {
    Plan& plan;
    PlannedEnvironment& env;
    const Step& step;
    int depth;
    Status operator()(const SegmentStep& work) { return plan.run_segment(env, step, work, depth); }
    Status operator()(const ReferenceStep& work) {
      return work.empty ? Ok() : plan.run_reference(env, step, work, depth);
    }
    Status operator()(DynamicStep& work) {
      return step.node->op == Op::kWhile ? plan.run_while(env, step, work, depth)
                                         : plan.run_dynamic(env, step, work, depth);
    }
    Status operator()(const AliasStep& work) { return plan.run_alias(step, work); }
    Status operator()(const StateStep& work) { return plan.run_state(env, step, work); }
    Status operator()(const DeviceStep&) { return Ok(); }
  };
  return std::visit(Runner{*this, env, step, depth}, step.work);
}

void Plan::note_time(Step& step, double micros) {
  const auto* work = std::get_if<SegmentStep>(&step.work);
  if (work && !work->segment) return;
  const std::span<const double> nodes = work ? work->segment->node_micros() : std::span<const double>();
  if (nodes.empty()) {
    step.micros += micros;
    ++step.calls;
    return;
  }
  auto at = parts_.steps.begin() + (&step - parts_.steps.data());
  for (const double m : nodes) {
    at = std::ranges::find_if(at, parts_.steps.end(), [](const Step& s) { return s.on_device(); });
    if (at == parts_.steps.end()) return;
    at->micros += m;
    ++(at++)->calls;
  }
}

void Plan::reset_times() {
  for (Step& s : parts_.steps) {
    s.micros = 0;
    s.calls = 0;
  }
}

Status Plan::show(ValueTap& tap, const Step& step) {
  const auto* state = std::get_if<StateStep>(&step.work);
  const auto* reference = std::get_if<ReferenceStep>(&step.work);
  const bool shared =
      step.is<AliasStep>() || (state && state->kind == StateStep::Kind::kRead) || (reference && reference->in_place);
  for (const int32_t id : step.out) {
    if (id < 0) continue;
    Datum& d = value(id);
    if (d.none() || (d.is_tensor() && !d.tensor.raw() && d.tensor.elements() > 0)) continue;
    SMELT_TRY(tap.made(*step.node, id, d, shared));
  }
  return Ok();
}

bool Plan::passed_on(ValueId id) const {
  return values()[static_cast<size_t>(id)].tensor.owner() &&
         std::ranges::find(graph().inputs, id) != graph().inputs.end();
}

[[gnu::cold]] bool PlanParts::may_update(ValueId input, ValueId output) const {
  return std::ranges::any_of(steps, [&](const Step& step) {
    const auto* work = std::get_if<ReferenceStep>(&step.work);
    return work && work->updates == input && step.out[0] == output;
  });
}

const ArenaSlot* PlanParts::slot_of(ValueId id) const {
  const auto slot = std::ranges::lower_bound(slots, id, {}, &ArenaSlot::value);
  return slot != slots.end() && slot->value == id ? &*slot : nullptr;
}

bool PlanParts::has_memory_for(ValueId id, DType dtype, const Shape& shape) const {
  const ArenaSlot* const slot = slot_of(id);
  const auto n = shape.checked_elements();
  return slot && n.ok() && Tensor::byte_size(dtype, *n) + kArenaSlack <= slot->bytes;
}

void Plan::release_inputs() {
  for (ValueId id : graph().inputs) value(id) = Datum{};
  for (const Step& step : parts_.steps) {
    if (!step.is<AliasStep>()) continue;
    Datum& view = value(step.out[0]);
    if (view.tensor.owner()) view = Datum{};
  }
}

Status Plan::run(PlannedEnvironment& env, std::span<const Datum> inputs, const GraphCall& call,
                 std::vector<Datum>& outputs) {
  ++runs_;
  lifetime_ = call.outputs;
  of_branches_.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Datum& given = value(graph().inputs[i]);
    given = inputs[i];
    const QuantPtr& quant = parts_.inputs[i].quant;
    if (given.is_tensor() && quant && !given.tensor.quant()) given.tensor.set_quant(quant);
  }
  const LentMemory lent(std::exchange(parts_.lent, {}));
  OwnedOutputs own(parts_);
  if (call.outputs == OutputLifetime::kOwned && !env.device()) SMELT_TRY(own.allocate(env.given_outputs));
  if (!env.device()) own.place(call.targets, inputs);
  const size_t held = parts_.arena_bytes + parts_.device.arena_bytes;
  SMELT_TRY(env.control.charge_plan(held, call.role()));
  const Charged charged{env.control, held};
  using Clock = std::chrono::steady_clock;
  const bool timed = env.options.profile;
  const bool fetches = env.size.constants >= kBeyondCaches;
  for (Step& step : parts_.steps) {
    SMELT_TRY(env.control.tick());
    if (fetches) fetch_ahead(static_cast<size_t>(&step - parts_.steps.data()));
    const auto start = timed ? Clock::now() : Clock::time_point{};
    if (auto s = run_step(env, step, call.depth); !s.ok()) return s.error().within(node_label(*step.node));
    if (env.tap && call.depth == 0) SMELT_TRY(show(*env.tap, step));
    // A long kernel may have used up the time.
    if (auto s = env.control.spend(0); !s.ok()) return s.error().within(node_label(*step.node));
    if (timed) note_time(step, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    for (int32_t id : step.dead) {
      Datum& d = value(id);
      if (d.is_tensor()) env.control.release(d.tensor.bytes());
      d = Datum{};
    }
  }
  outputs.resize(graph().outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = graph().outputs[i];
    if (id == kNoValue) continue;
    Datum& d = value(id);
    const bool owned = call.outputs == OutputLifetime::kOwned && d.is_tensor();
    const bool of_branch = std::ranges::count(of_branches_, id) > 0;
    // Made in this run, and nothing else has its storage.
    const bool alone = owned && d.tensor.owner().use_count() == 1 && (of_branch || parts_.slot_of(id));
    if (owned && !alone && !(call.depth > 0 && passed_on(id)))
      outputs[i] = Datum(d.tensor.clone());
    else if (alone && of_branch && std::ranges::count(graph().outputs, id) == 1)
      outputs[i] = std::exchange(d, {});
    else
      outputs[i] = d;
  }
  return Ok();
}

}  // namespace smelt
