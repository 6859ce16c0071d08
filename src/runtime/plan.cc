#include "runtime/plan.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/vulkan/record/program.h"
#include "backends/vulkan/record/states.h"
#include "base/error.h"
#include "base/large_memory.h"
#include "ops/control/bodies.h"
#include "ops/control/control.h"

namespace smelt {
namespace {

/// What making a plan costs in steps, beside four a node.
constexpr uint64_t kPlanSteps = 50;
/// Arenas that the plans of one body hold together.
constexpr size_t kIdleBytes = size_t{32} << 20;
/// Plans of one body that are kept beyond SessionOptions::max_plans, and the steps that they may have together.
constexpr size_t kBodyPlans = 256, kBodySteps = 8192;

/// A static step's view of the plan's slots.
class SlotContext final : public RunContext {
 public:
  SlotContext(PlannedEnvironment& env, const Step& step, std::vector<Datum>& slots, int depth)
      : RunContext(env, *step.node, depth), step_(step), slots_(slots), scratch_(env.scratch), mark_(scratch_.mark()) {}
  ~SlotContext() override { scratch_.release(mark_); }
  const Datum& datum(int i) const override {
    const int32_t s = step_.in[static_cast<size_t>(i)];
    static const Datum none;
    return s < 0 ? none : slots_[static_cast<size_t>(s)];
  }
  Tensor& output(int i) override { return slots_[static_cast<size_t>(step_.out[static_cast<size_t>(i)])].tensor; }
  Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) override {
    if (i >= outputs() || step_.out[static_cast<size_t>(i)] < 0) {
      SMELT_ASSIGN(Tensor spare, Tensor::allocate(dtype, shape));
      spare_ = std::move(spare);
      return &*spare_;
    }
    Tensor& t = output(i);
    if (t.dtype() != dtype || !(t.shape() == shape))
      return Internal(to_string(node_->op), " gives another shape than its shape rule");
    return &t;
  }
  void set_output(int i, Datum value) override {
    if (i < outputs() && step_.out[static_cast<size_t>(i)] >= 0)
      slots_[static_cast<size_t>(step_.out[static_cast<size_t>(i)])] = std::move(value);
  }
  void* scratch(size_t bytes) override { return scratch_.take(bytes); }
  ThreadPool& threads() override { return step_.alone ? env_.one_thread : env_.threads; }
  QuantPtr output_quant(int i) const override {
    const int32_t s = step_.out[static_cast<size_t>(i)];
    return s < 0 ? nullptr : slots_[static_cast<size_t>(s)].tensor.quant();
  }

 private:
  const Step& step_;
  std::vector<Datum>& slots_;
  ScratchStack& scratch_;
  ScratchStack::Mark mark_;
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

/// Reference kernels find their outputs zeroed, as in the obvious executor.
void clear_outputs(const Step& step, std::vector<Datum>& slots) {
  for (int32_t s : step.out) {
    if (s < 0) continue;
    Tensor& t = slots[static_cast<size_t>(s)].tensor;
    if (t.dtype() == DType::kString) {
      for (int64_t i = 0; i < t.elements(); ++i) t.data<std::string>()[i].clear();
    } else if (t.bytes() > 0) {
      std::memset(t.raw(), 0, t.bytes());
    }
  }
}

/// In a body, what handing work to the device costs in steps: a loop without end is stopped soon there, too.
constexpr uint64_t kStepsOfASubmission = 64;

/// Memory held until the end of a block.
struct Charged {
  RunControl& control;
  size_t bytes;
  ~Charged() { control.release(bytes); }
};

/// Texts are not in the arena: what the step's string outputs may hold is checked before it runs.
Status check_texts(PlannedEnvironment& env, const Step& step, const std::vector<Datum>& slots) {
  for (int32_t s : step.out) {
    if (s < 0 || slots[static_cast<size_t>(s)].tensor.dtype() != DType::kString) continue;
    std::vector<Datum> in;
    for (int32_t i : step.in)
      if (i >= 0) in.push_back(slots[static_cast<size_t>(i)]);
    SMELT_TRY(env.control.check_text(in, slots[static_cast<size_t>(s)].tensor.elements()));
  }
  return Ok();
}

bool same_type(const Datum& d, const ValueType& t) {
  if (!d.is_tensor()) return t.kind != ValueType::Kind::kTensor;
  return t.kind == ValueType::Kind::kTensor && d.tensor.dtype() == t.dtype && d.tensor.shape() == t.shape;
}

}  // namespace

std::shared_ptr<ArenaMemory> ArenaMemory::make(size_t bytes) {
  auto memory = std::make_shared<ArenaMemory>();
  memory->data_.reset(allocate_large(bytes));
  memory->bytes_ = bytes;
  return memory->data_ ? memory : nullptr;
}

Plan::Plan() = default;
Plan::~Plan() = default;

bool Plan::fits(std::span<const Datum> inputs, bool by_types) const {
  if (inputs.size() != inputs_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!same_type(inputs[i], inputs_[i])) return false;
  return by_types || std::all_of(guards_.begin(), guards_.end(), [&](const ShapeGuard& g) { return g.holds(inputs); });
}

Status Plan::run_step(PlannedEnvironment& env, Step& step, int depth) {
  switch (step.kind) {
    case Step::Kind::kKernel: {
      SlotContext ctx(env, step, slots_, depth);
      return step.kernel->run(ctx);
    }
    case Step::Kind::kReference: {
      if (step.empty) return Ok();
      clear_outputs(step, slots_);
      SMELT_TRY(check_texts(env, step, slots_));
      SlotContext ctx(env, step, slots_, depth);
      return op_info(step.node->op).reference(ctx);
    }
    case Step::Kind::kAlias: {
      const Tensor& from = slots_[static_cast<size_t>(step.in[0])].tensor;
      slots_[static_cast<size_t>(step.out[0])].kind = Datum::Kind::kTensor;
      Tensor& to = slots_[static_cast<size_t>(step.out[0])].tensor;
      to = from.dtype() == step.dtype ? from.reshaped(step.shape)
                                      : Tensor::view(step.dtype, step.shape, from.raw(), from.owner());
      const bool rows = step.quant && step.quant->kind == Quantization::Kind::kPerToken;
      to.set_quant(rows ? from.quant() : step.quant);
      return Ok();
    }
    case Step::Kind::kStateRead:
    case Step::Kind::kStateCopy: {
      const int index = static_cast<const StateAttrs&>(*step.node->attrs).state;
      Datum& state = env.states[static_cast<size_t>(index)];
      Datum& to = slots_[static_cast<size_t>(step.out[0])];
      if (!state.is_tensor()) return InvalidInput("the variable is read before it was assigned");
      if (env.device_states) SMELT_TRY(env.device_states->to_host(index, state.tensor));
      if (step.kind == Step::Kind::kStateRead) {
        to = state;
      } else {
        if (!(state.tensor.shape() == to.tensor.shape())) return Internal("a variable changed its shape");
        copy_bytes(state.tensor, to.tensor);
      }
      return Ok();
    }
    case Step::Kind::kStateWrite: {
      const int index = static_cast<const StateAttrs&>(*step.node->attrs).state;
      write_state(env.states[static_cast<size_t>(index)], slots_[static_cast<size_t>(step.in[0])]);
      if (env.device_states) env.device_states->written_on_host(index);
      return Ok();
    }
    case Step::Kind::kDevice:
      if (step.segment < 0) return Ok();
      if (depth > 0) SMELT_TRY(env.control.spend(kStepsOfASubmission));
      return program_->run(step.segment, slots_, env.states, [&] { return env.control.tick(); });
    case Step::Kind::kDeviceAlias:
    case Step::Kind::kDeviceRead:
    case Step::Kind::kDeviceWrite:
      return Ok();
    case Step::Kind::kGeneric:
      if (step.node->op == Op::kWhile) return run_while(env, step, depth);
      break;
  }
  generic_in_.clear();
  for (int32_t s : step.in) generic_in_.push_back(s < 0 ? Datum{} : slots_[static_cast<size_t>(s)]);
  SMELT_TRY(execute_node(env, *graph_, *step.node, std::move(generic_in_), generic_out_, depth));
  const bool keeps = (op_info(step.node->op).flags & (kContainer | kControl)) != 0;
  for (size_t i = 0; i < step.out.size(); ++i) {
    if (step.out[i] < 0) continue;
    if (keeps) own(generic_out_[i]);
    slots_[static_cast<size_t>(step.out[i])] = std::move(generic_out_[i]);
  }
  return Ok();
}

Status Plan::run_while(PlannedEnvironment& env, Step& step, int depth) {
  const auto& a = static_cast<const WhileAttrs&>(*step.node->attrs);
  if (!step.loop) step.loop = std::make_unique<LoopValues>();
  LoopValues& loop = *step.loop;
  const size_t count = step.in.size();
  loop.begin(step.in, slots_);
  while (true) {
    SMELT_TRY(env.control.tick());
    SMELT_TRY(env.run(a.cond_graph, loop.values(), depth + 1, loop.condition, true));
    if (loop.condition.empty()) return InvalidModel("the condition's graph gives no result");
    SMELT_ASSIGN(const bool go_on, condition_of(loop.condition[0]));
    if (!go_on) break;
    SMELT_TRY(env.run(a.body_graph, loop.values(), depth + 1, loop.results, true));
    if (loop.results.size() < count)
      return InvalidModel("graph '", env.module->graphs[static_cast<size_t>(a.body_graph)].name, "' gives ",
                          loop.results.size(), " results, ", count, " expected");
    SMELT_TRY(loop.take(loop.results, env.states));
  }
  for (size_t i = 0; i < step.out.size(); ++i) {
    if (step.out[i] < 0) continue;
    SMELT_ASSIGN(Datum value, loop.give(i));
    if (value.is_tensor()) SMELT_TRY(env.control.charge(value.tensor.bytes()));
    slots_[static_cast<size_t>(step.out[i])] = std::move(value);
  }
  return Ok();
}

void Plan::device_times(std::ptrdiff_t first) {
  const std::vector<double>& micros = program_->node_micros(steps_[static_cast<size_t>(first)].segment);
  size_t at = static_cast<size_t>(first);
  for (const double m : micros) {
    while (at < steps_.size() && steps_[at].kind != Step::Kind::kDevice) ++at;
    if (at == steps_.size()) return;
    steps_[at].micros += m;
    ++steps_[at++].calls;
  }
}

bool Plan::passed_on(ValueId id) const {
  return slots_[static_cast<size_t>(id)].tensor.owner() &&
         std::find(graph_->inputs.begin(), graph_->inputs.end(), id) != graph_->inputs.end();
}

void Plan::release_inputs() {
  for (ValueId id : graph_->inputs) slots_[static_cast<size_t>(id)] = Datum{};
  for (const Step& step : steps_) {
    if (step.kind != Step::Kind::kAlias) continue;
    Datum& view = slots_[static_cast<size_t>(step.out[0])];
    if (view.tensor.owner()) view = Datum{};
  }
}

Status Plan::run(PlannedEnvironment& env, std::span<const Datum> inputs, int depth, std::vector<Datum>& outputs,
                 bool borrow) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Datum& slot = slots_[static_cast<size_t>(graph_->inputs[i])];
    slot = inputs[i];
    if (slot.is_tensor() && inputs_[i].quant && !slot.tensor.quant()) slot.tensor.set_quant(inputs_[i].quant);
  }
  const size_t held = arena_bytes_ + device_arena_bytes_;
  SMELT_TRY(env.control.charge_plan(held, depth));
  const Charged charged{env.control, held};
  const bool timed = env.options.profile;
  for (Step& step : steps_) {
    SMELT_TRY(env.control.tick());
    const auto start = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    if (auto s = run_step(env, step, depth); !s.ok()) return s.error().within(node_label(*step.node));
    // A long kernel may have used up the time.
    if (auto s = env.control.spend(0); !s.ok()) return s.error().within(node_label(*step.node));
    if (timed && step.kind == Step::Kind::kDevice) {
      if (step.segment >= 0) device_times(&step - steps_.data());
    } else if (timed) {
      step.micros += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
      ++step.calls;
    }
    for (int32_t s : step.dead) {
      Datum& d = slots_[static_cast<size_t>(s)];
      if (d.is_tensor()) env.control.release(d.tensor.bytes());
      d = Datum{};
    }
  }
  outputs.resize(graph_->outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = graph_->outputs[i];
    if (id == kNoValue) continue;
    const Datum& d = slots_[static_cast<size_t>(id)];
    outputs[i] = depth > 0 && !borrow && d.is_tensor() && !passed_on(id) ? Datum(d.tensor.clone()) : d;
  }
  return Ok();
}

Result<std::shared_ptr<vulkan::Device>> device_for(const SessionOptions& options) {
  if (options.backend != BackendKind::kVulkan) {
    if (options.fp16) return InvalidInput("fp16 products are the Vulkan back-end's; this one multiplies in float32");
    return std::shared_ptr<vulkan::Device>();
  }
  SMELT_ASSIGN(auto device, vulkan::open_device(options.device));
  const vulkan::DeviceInfo& info = vulkan::device_info(*device);
  if (options.fp16 && !info.fp16)
    return Error(ErrorCode::kDevice, Cat("fp16 products are not to be had on device ", info.index, ", ", info.name,
                                         ": it has no 16-bit arithmetic or storage (shaderFloat16, "
                                         "storageBuffer16BitAccess)"));
  return device;
}

PlannedEnvironment::PlannedEnvironment(std::shared_ptr<const Module> m, const SessionOptions& o,
                                       std::shared_ptr<PackCache> packs, Gpu g)
    : Environment(std::move(m), o),
      gpu(std::move(g)),
      device_states(gpu.device ? vulkan::make_state_store(gpu.device) : nullptr),
      isa_(active_isa()),
      packs_(std::move(packs)),
      plans_(module->graphs.size()) {}

void PlannedEnvironment::reset_state() {
  Environment::reset_state();
  if (device_states) device_states->all_written_on_host();
}

const Plan* PlannedEnvironment::latest(int graph) const {
  const auto& list = plans_[static_cast<size_t>(graph)];
  return list.empty() ? nullptr : list.front().get();
}

std::shared_ptr<ArenaMemory> PlannedEnvironment::outermost_arena(size_t bytes) {
  // Shapes that grow from run to run find room ahead; one large run does not keep its memory for ever.
  constexpr size_t kSmall = size_t{1} << 20;
  const size_t have = outermost_arena_ ? outermost_arena_->bytes() : 0;
  if (have >= bytes && have / 4 <= std::max(bytes, kSmall)) return outermost_arena_;
  const size_t ahead = have > 0 && have < bytes ? bytes / 4 : 0;
  return outermost_arena_ = ArenaMemory::make(bytes + ahead);
}

Result<Plan*> PlannedEnvironment::plan_for(int graph, std::span<const Datum> inputs, int depth, bool by_types) {
  auto& list = plans_[static_cast<size_t>(graph)];
  // The one that ran last, else from the one that ran longest ago: shapes mostly stay, or come round.
  for (size_t i = 0; i < list.size(); ++i) {
    const size_t at = i == 0 ? 0 : list.size() - i;
    if (list[at]->outermost() != (depth == 0) || !list[at]->fits(inputs, by_types)) continue;
    if (at > 0) {
      if (depth == 0) list.front()->release_inputs();
      std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(at),
                  list.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return list.front().get();
  }
  if (depth == 0 && !list.empty()) list.front()->release_inputs();
  const Graph& g = module->graphs[static_cast<size_t>(graph)];
  std::vector<ValueType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    types.push_back(type_of(inputs[i]));
    if (!types.back().quant) types.back().quant = g.value(g.inputs[i]).type.quant;
  }
  return add_plan(graph, types, by_types ? std::span<const Datum>() : inputs, depth);
}

Result<Plan*> PlannedEnvironment::add_plan(int graph, std::span<const ValueType> inputs, std::span<const Datum> given,
                                           int depth) {
  auto& list = plans_[static_cast<size_t>(graph)];
  const size_t nodes = module->graphs[static_cast<size_t>(graph)].nodes.size();
  SMELT_TRY(control.spend(kPlanSteps + 4 * nodes));
  const Plan* before = list.empty() ? nullptr : list.front().get();
  SMELT_ASSIGN(auto plan, Plan::build(*this, graph, inputs, given, depth, before));
  // A graph's own least recently used plans make room: plans of graphs that are running stay. Those of bodies, whose
  // shapes may change with every call, hold little memory; small ones may be many.
  size_t most = std::max<size_t>(options.max_plans, 1);
  if (depth > 0) most = std::max(most, std::min(kBodyPlans, kBodySteps / std::max<size_t>(nodes, 1)));
  if (list.size() >= most) list.pop_back();
  size_t idle = plan->arena_bytes();
  for (const auto& p : list) idle += p->arena_bytes();
  for (; depth > 0 && idle > kIdleBytes && !list.empty(); list.pop_back()) idle -= list.back()->arena_bytes();
  list.insert(list.begin(), std::move(plan));
  return list.front().get();
}

Result<const Plan*> PlannedEnvironment::prepare(int graph, std::span<const ValueType> inputs) {
  SMELT_ASSIGN(const Plan* plan, add_plan(graph, inputs, {}, 0));
  return plan;
}

std::string Plan::type_text(ValueId id) const { return id == kNoValue ? "" : types_[static_cast<size_t>(id)].str(); }

Status PlannedEnvironment::run(int graph, std::span<const Datum> inputs, int depth, std::vector<Datum>& outputs,
                               bool borrow) {
  if (depth > 64) return LimitReached("graphs are nested more than 64 deep");
  const Graph& g = module->graphs[static_cast<size_t>(graph)];
  if (inputs.size() != g.inputs.size())
    return InvalidInput(inputs.size(), " inputs given, graph '", g.name, "' takes ", g.inputs.size());
  if (depth > 0) SMELT_TRY(control.enter(graph, inputs));
  SMELT_ASSIGN(Plan * plan, plan_for(graph, inputs, depth));
  return plan->run(*this, inputs, depth, outputs, borrow);
}

namespace {
bool same_types(std::span<const ValueType> a, std::span<const ValueType> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ValueType& p, const ValueType& q) {
    return p.dtype == q.dtype && p.ranked == q.ranked && p.shape == q.shape;
  });
}
}  // namespace

Result<bool> PlannedEnvironment::run_fast(const Graph& graph, const Node& node, KernelContext& ctx,
                                          std::span<const ValueType> inputs, std::span<const ValueType> outputs) {
  if (planning_) return false;
  // Preparing to move little takes longer than moving it, and loops that gather slices ask with new shapes every time.
  if ((op_info(node.op).flags & kDataMovement) != 0 || node.op == Op::kConcat) {
    constexpr int64_t kWorthwhile = 4096;
    int64_t moved = 0;
    for (const ValueType& t : outputs) moved += t.shape.is_static() ? t.shape.elements() : 0;
    if (moved < kWorthwhile) return false;
  }
  const auto [at, is_new] = late_.try_emplace(&node);
  LateKernel& late = at->second;
  if (is_new || !same_types(late.inputs, inputs) || !same_types(late.outputs, outputs)) {
    late.inputs.assign(inputs.begin(), inputs.end());
    late.outputs.assign(outputs.begin(), outputs.end());
    std::vector<const Tensor*> constants;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      const bool fixed =
          id != kNoValue && std::find(graph.inputs.begin(), graph.inputs.end(), id) == graph.inputs.end();
      constants.push_back(fixed ? graph.value(id).constant.get() : nullptr);
      if (id == kNoValue) late.inputs[i].dtype = DType::kInvalid;
    }
    late.kernel = make_kernel({{node, late.inputs, constants, late.outputs}, isa(), threads.threads(), packs()});
    if (late.kernel && late.kernel->scratch_bytes() > (size_t{1} << 30)) late.kernel.reset();
  }
  if (!late.kernel) return false;
  SMELT_TRY(late.kernel->run(ctx));
  return true;
}

Result<std::vector<Datum>> PlannedEnvironment::call(int graph, std::span<const Datum> inputs, int depth) {
  std::vector<Datum> outputs;
  SMELT_TRY(run(graph, inputs, depth, outputs));
  return outputs;
}

}  // namespace smelt
