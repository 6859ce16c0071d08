// Turns a graph and concrete input types into a plan: what is known of values (constant_propagation.h), what runs each
// node, lifetimes, arena.
#include <algorithm>

#include "base/error.h"
#include "graph/node_label.h"
#include "ops/control/control.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "runtime/append_step.h"
#include "runtime/arena_items.h"
#include "runtime/constant_propagation.h"
#include "runtime/decompose_node.h"
#include "runtime/live_ranges.h"
#include "runtime/node_facts.h"
#include "runtime/node_request.h"
#include "runtime/partition.h"
#include "runtime/plan_update.h"
#include "runtime/variable_steps.h"

namespace smelt {
namespace {

class PlanBuilder {
 public:
  PlanBuilder(PlannedEnvironment& env, int graph, std::span<const ValueType> inputs, std::span<const Datum> given,
              GraphRole role, const Plan* before)
      : env_(env),
        graph_(env.module->graphs[static_cast<size_t>(graph)]),
        before_(before && before->findings().complete ? before : nullptr),
        propagation_(env, graph_, inputs, given, plan_.values, before_),
        requests_(graph_, role == GraphRole::kEntry ? env.pack_time() : PackTime::kPlan) {
    plan_.role = role;
    plan_.graph = &graph_;
    plan_.inputs.assign(inputs.begin(), inputs.end());
    const auto check_memory = [&env](size_t bytes) { return env.control.check(bytes); };
    for (const auto& backend : env.backends()) {
      compilers_.push_back({backend.get(), backend->begin_plan(check_memory)});
      if (backend.get() == env.device()) device_ = compilers_.size() - 1;
    }
  }

  Result<std::unique_ptr<Plan>> build() {
    plan_.steps.reserve(graph_.nodes.size());
    drafts_.reserve(graph_.nodes.size());
    for (const Node& node : graph_.nodes)
      if (auto s = add(node, device_); !s.ok()) return s.error().within(node_label(node));
    if (!env_.tap) take_steps(needed_steps(graph(), plan_.steps));
    home_.assign(graph().values.size(), Home::kHeap);
    arena_.begin(home_.size());
    for (size_t i = 0; i < home_.size(); ++i)
      if (propagation_[i].folded) home_[i] = Home::kConstant;
    for (ValueId id : graph().inputs) home_[static_cast<size_t>(id)] = Home::kOutside;
    plan_.guards = propagation_.guards();
    if (env_.device()) order_steps(*env_.device());
    last_use_ = last_uses(graph(), plan_.steps, views());
    variables_ = VariableSteps(plan_.steps);
    for (size_t k = 0; k < plan_.steps.size(); ++k)
      if (auto s = choose(k); !s.ok()) return s.error().within(node_label(*plan_.steps[k].node));
    for (size_t b = 0; b < compilers_.size(); ++b) SMELT_TRY(compile(b));
    SMELT_TRY(lay_out());
    note_findings();
    return std::make_unique<Plan>(std::move(plan_));
  }

 private:
  static constexpr size_t kNoBackend = static_cast<size_t>(-1);
  enum class Home : uint8_t { kHeap, kConstant, kOutside /* input or variable */, kArena, kDevice };

  /// What is known of the node of a step before it is compiled.
  struct Draft {
    std::vector<ValueType> types;            ///< see outputs()
    bool limited = false;                    ///< shapes depend on data; see take_largest()
    size_t backend = kNoBackend;             ///< that runs it, of compilers_
    std::unique_ptr<PreparedNode> prepared;  ///< for that back-end; null: a segment of the plan before is taken over
  };
  struct Compiler {
    const BackendSession* backend;
    std::unique_ptr<PlanCompiler> compiler;
  };

  /// With the values between the parts of decomposed nodes.
  const Graph& graph() const { return *plan_.graph; }

  /// What the next plan may take over.
  void note_findings() {
    PlanFindings& f = plan_.findings;
    f.complete = propagation_.complete();
    for (size_t i = 0; i < graph().values.size(); ++i) f.folded.push_back(propagation_[i].folded);
    f.types = propagation_.take_types();
    if (plan_.decomposed) return;
    f.step_of.assign(graph_.nodes.size(), -1);
    for (size_t k = 0; k < plan_.steps.size(); ++k) f.step_of[index_of(*plan_.steps[k].node)] = static_cast<int32_t>(k);
  }
  size_t index_of(const Node& node) const { return static_cast<size_t>(&node - graph_.nodes.data()); }
  /// Types of the node's outputs; limited: at their largest. Those of most nodes stand among those of all values alone.
  std::span<const ValueType> outputs(const Node& node, const Draft& draft) const {
    if (!draft.types.empty() || node.outputs.empty()) return draft.types;
    return {&propagation_[node.outputs[0]].type, 1};
  }
  /// Precondition: add() was called for the node.
  bool is_view(const Node& node) const { return smelt::is_view(node, type_of()); }

  std::function<bool(const Node&)> views() const {
    return [this](const Node& n) { return is_view(n); };
  }

  /// Types of the node's outputs, or their contents; else a step and its draft, or those of what it is decomposed into.
  /// `device`: of compilers_, or kNoBackend: the node stays on the host.
  Status add(const Node& node, size_t device, const Node* part_of = nullptr) {
    Draft draft;
    SMELT_TRY(propagation_.infer(node, draft.types));
    SMELT_ASSIGN(const bool folded, propagation_.fold(node, draft.types));
    if (folded) return Ok();
    Step step{.node = &node, .part_of = part_of, .in = node.inputs, .out = node.outputs};
    if (!is_static(node, type_of(), draft.types)) {
      if (device_ != kNoBackend) step.host_reason = "shapes depend on data, or control flow";
      draft.limited = take_largest(request(node, draft), draft.types);
      any_limited_ = any_limited_ || draft.limited;
    } else if (!is_view(node)) {
      if (device != kNoBackend && prepare(node, draft, device, &step.host_reason))
        step.host_reason = "too little work between steps of the host";
      if (!draft.prepared && !part_of && may_decompose(node)) {
        SMELT_ASSIGN(const bool decomposed, decompose_node(node, draft, device));
        if (decomposed) return Ok();
      }
    }
    if (node.outputs.size() == 1 && node.outputs[0] != kNoValue && !draft.limited) draft.types = {};
    plan_.steps.push_back(std::move(step));
    drafts_.push_back(std::move(draft));
    return Ok();
  }

  /// Keeps these steps alone, in this order.
  void take_steps(std::span<const int> order) {
    if (order.size() == plan_.steps.size() && std::ranges::is_sorted(order)) return;
    std::vector<Step> steps;
    std::vector<Draft> drafts;
    for (const int k : order) {
      steps.push_back(std::move(plan_.steps[static_cast<size_t>(k)]));
      drafts.push_back(std::move(drafts_[static_cast<size_t>(k)]));
    }
    plan_.steps = std::move(steps);
    drafts_ = std::move(drafts);
  }

  /// Decomposes a node that the device does not run into nodes that it does run. Else one that no back-end of the host
  /// runs, if those that it is decomposed into pay. False: the node stays as it is.
  Result<bool> decompose_node(const Node& node, const Draft& draft, size_t device) {
    const NodeRequest asked = request(node, draft);
    const auto on_device = [&](const NodeRequest& r) { return compilers_[device].compiler->supports(r); };
    const auto on_host = [&](const NodeRequest& r) {
      return std::ranges::any_of(compilers_, [&](const Compiler& c) {
        return c.backend->memory() == MemorySpace::kHost && c.compiler->supports(r);
      });
    };
    if (device == kNoBackend && on_host(asked)) return false;
    const auto parts = decompose(asked);
    if (!parts) return false;
    if (device == kNoBackend || !all_run(*parts, asked, on_device)) {
      if ((device != kNoBackend && on_host(asked)) || !most_run(*parts, asked, on_host)) return false;
      device = kNoBackend;
    }
    const std::vector<const Node*> added = splice(plan_, graph_, node, *parts);
    propagation_.extend(graph(), node, added);
    before_ = nullptr;
    for (const Node* part : added) SMELT_TRY(add(*part, device, &node));
    return true;
  }

  /// What back-ends are asked for a node; contents are constants of the model and what planning computed. Valid until
  /// the next call.
  NodeRequest request(const Node& node, const Draft& draft) {
    const auto content_of = [this](ValueId id) {
      const Tensor* content = propagation_[id].content;
      return content && graph().value(id).constant ? graph().value(id).constant.get() : content;
    };
    return requests_.make(node, type_of(), content_of, outputs(node, draft));
  }

  /// True if the back-end supports the node, which the draft then belongs to.
  bool prepare(const Node& node, Draft& draft, size_t backend, std::string* why) {
    draft.prepared = compilers_[backend].compiler->prepare(request(node, draft), why);
    if (draft.prepared) draft.backend = backend;
    return draft.prepared != nullptr;
  }

  TypeOf type_of() const {
    return [this](ValueId id) -> const ValueType& { return propagation_[id].type; };
  }

  /// Brings nodes that the device runs side by side, and settles which those are.
  void order_steps(const BackendSession& device) {
    const TypeOf type = type_of();
    std::vector<PartitionNode> nodes;
    for (size_t k = 0; k < drafts_.size(); ++k) {
      const Node& node = *plan_.steps[k].node;
      nodes.push_back(
          {&node, drafts_[k].prepared != nullptr, is_view(node), work(node, type, outputs(node, drafts_[k]))});
    }
    std::vector<int> order;
    // Work that is given to the host may take variables along.
    for (bool again = true; again;) {
      resident_ = resident_states(*env_.module, graph(), nodes, type, device);
      for (size_t k = 0; k < nodes.size(); ++k)
        if (const int state = state_of(*nodes[k].node); state >= 0)
          nodes[k].device = resident_[static_cast<size_t>(state)];
      order = partition(graph(), nodes, device.partition_cost());
      again = resident_states(*env_.module, graph(), nodes, type, device) != resident_;
    }
    for (size_t k = 0; k < drafts_.size(); ++k)
      if (!nodes[k].device) {
        drafts_[k].prepared.reset();
        drafts_[k].backend = kNoBackend;
      }
    take_steps(order);
  }

  Status choose(size_t at) {
    Step& step = plan_.steps[at];
    const Node& node = *step.node;
    const std::span<const ValueType> types = outputs(node, drafts_[at]);
    const int k = static_cast<int>(at);
    if (const int state = state_of(node); state >= 0 && !resident_.empty() && resident_[static_cast<size_t>(state)]) {
      step.work = DeviceStep{DeviceStep::Kind::kState};
      if (node.op == Op::kStateRead) home_[static_cast<size_t>(node.outputs[0])] = Home::kDevice;
      return Ok();
    }
    if (node.op == Op::kStateWrite) {
      step.work = StateStep{StateStep::Kind::kWrite};
      return Ok();
    }
    if (drafts_[at].prepared) {
      step.work = SegmentStep{env_.device()};
      for (ValueId id : node.outputs)
        if (id != kNoValue) home_[static_cast<size_t>(id)] = Home::kDevice;
      return Ok();
    }
    const bool fixed = is_static(node, type_of(), types);
    if (!fixed && drafts_[at].limited) return choose_limited(node, k, step);
    if (node.op == Op::kStateRead) return choose_read(node, k, fixed, step);
    if (!fixed) return Ok();
    if (is_view(node)) return choose_view(node, step);
    if (choose_parts(node, drafts_[at], step)) return Ok();
    if (device_ == kNoBackend && variables_.may_append(plan_.steps, k, last_use_)) {
      step.work = ReferenceStep{.in_place = true};
      home_[static_cast<size_t>(node.outputs[0])] = Home::kOutside;
      return Ok();
    }
    SMELT_ASSIGN(const bool appended, append_to_head(at));
    return appended ? Ok() : choose_kernel(node, k, step);
  }

  /// True if the segment of a step before, but for views of its output, computes this step as well and makes its output
  /// instead of its own. Values that a tap wants to see are all made.
  Result<bool> append_to_head(size_t at) {
    if (env_.tap || device_ != kNoBackend) return false;
    const auto use = only_use_before(plan_.steps, at, last_use_, views());
    if (!use || !drafts_[use->head].prepared) return false;
    const Draft& before = drafts_[use->head];
    const Compiler& c = compilers_[before.backend];
    const Step& step = plan_.steps[at];
    const char* name = c.compiler->append(*before.prepared, request(*step.node, drafts_[at]), use->operand);
    if (!name) return false;
    leave_arena(plan_.steps[use->head].out[0]);
    for (size_t k = use->maker; k < at; ++k)
      home_[static_cast<size_t>(plan_.steps[k].node->outputs[0])] = Home::kOutside;
    append_step(plan_, *use, at, {c.backend, nullptr, name});
    SMELT_TRY(in_arena(step.out[0], propagation_[step.out[0]].type, static_cast<int>(use->head)));
    return true;
  }

  Status choose_view(const Node& node, Step& step) {
    const auto out = static_cast<size_t>(node.outputs[0]), in = static_cast<size_t>(node.inputs[0]);
    home_[out] = home_[in] == Home::kConstant ? Home::kOutside : home_[in];
    arena_.alias(node.outputs[0], node.inputs[0]);
    step.in = step.in.first(1);
    step.work = DeviceStep{DeviceStep::Kind::kView};
    if (home_[out] != Home::kDevice) step.work = AliasStep{};
    return Ok();
  }

  /// True if the outputs are parts of a value in the arena. Where shapes grow from plan to plan, kernels copy them: a
  /// plan that becomes one for other shapes has places for each.
  bool choose_parts(const Node& node, const Draft& draft, Step& step) {
    if (!ArenaItems::kHasParts || device_ != kNoBackend) return false;
    const NodeRequest asked = request(node, draft);
    if (!asked.fixed_shapes || !arena_.add_parts(asked, last_use_, static_cast<int>(plan_.steps.size()))) return false;
    for (const ValueId id : node.outputs)
      if (id != kNoValue) home_[static_cast<size_t>(id)] = Home::kArena;
    step.in = step.in.first(1);
    step.work = AliasStep{.laid_out = true};
    return true;
  }

  /// For a node on the host whose outputs are laid out beforehand.
  Status choose_kernel(const Node& node, int k, Step& step) {
    Draft& draft = drafts_[static_cast<size_t>(k)];
    const std::span<const ValueType> types = outputs(node, draft);
    for (size_t i = 0; i < types.size(); ++i)
      if (node.outputs[i] != kNoValue) SMELT_TRY(in_arena(node.outputs[i], types[i], k));
    const bool empty = nothing_to_compute(node, [&](size_t i) { return types[i].shape.elements() == 0; });
    step.work = ReferenceStep{.empty = empty, .updates = input_used_up(graph(), plan_.steps, last_use_, k)};
    if (empty) return Ok();
    if (find_kernel(node, draft, step)) {
      if (draft.prepared && !env_.tap && device_ == kNoBackend)
        arena_.overwrite_input(request(node, draft), *draft.prepared, k, last_use_,
                               static_cast<int>(plan_.steps.size()));
      return Ok();
    }
    if (needs_float(node, type_of(), types)) {
      // The reference kernel works on real numbers: the runtime wraps it, allocating as it goes.
      step.work = DynamicStep{};
      for (ValueId id : node.outputs)
        if (id != kNoValue) leave_arena(id);
      return Ok();
    }
    if (!op_info(node.op).reference) return Unsupported("operator ", to_string(node.op), " has no kernel");
    return Ok();
  }

  /// For a node on the host whose shapes depend on data within limits: a kernel sets them in memory for the largest.
  /// Without a kernel the node allocates as it runs.
  Status choose_limited(const Node& node, int k, Step& step) {
    Draft& draft = drafts_[static_cast<size_t>(k)];
    if (find_kernel(node, draft, step))
      for (size_t i = 0; i < draft.types.size(); ++i)
        if (node.outputs[i] != kNoValue) SMELT_TRY(in_arena(node.outputs[i], draft.types[i], k));
    return Ok();
  }

  /// True if a back-end that works in the host's memory runs the node.
  bool find_kernel(const Node& node, Draft& draft, Step& step) {
    if (segment_as_before(node, step)) return true;
    for (size_t b = 0; b < compilers_.size(); ++b)
      if (compilers_[b].backend->memory() == MemorySpace::kHost && prepare(node, draft, b, nullptr)) {
        step.work = SegmentStep{compilers_[b].backend};
        return true;
      }
    return false;
  }

  /// Takes over the segment that does the same in the plan before, if there is one in the host's memory.
  bool segment_as_before(const Node& node, Step& step) const {
    if (!before_ || !propagation_.same_as_before(node)) return false;
    const SegmentStep* const same = own_segment(*before_, node, index_of(node));
    if (same) step.work = *same;
    return same != nullptr;
  }

  Status in_arena(ValueId id, const ValueType& type, int k) {
    const auto i = static_cast<size_t>(id);
    SMELT_ASSIGN(const int64_t n, type.shape.checked_elements());
    if (n > (int64_t{1} << 40)) return LimitReached("a tensor of shape ", type.shape.str(), " is too large");
    if (type.dtype == DType::kString) {
      SMELT_TRY(env_.control.check(Tensor::byte_size(type.dtype, n)));
      SMELT_ASSIGN(plan_.values[i], Tensor::allocate(type.dtype, type.shape));
      home_[i] = Home::kOutside;
      return Ok();
    }
    const size_t bytes = Tensor::byte_size(type.dtype, n) + kArenaSlack;
    // No kernel is prepared for what alone is too much for the arena.
    SMELT_TRY(env_.control.check_plan(bytes, plan_.role));
    plan_.values[i] = Datum(type_only(type));
    home_[i] = Home::kArena;
    const size_t capacity = bytes + bytes_to_grow(before_, id, type);
    arena_.add({.bytes = capacity, .first = k, .last = std::max(k, last_use_[i]), .id = id});
    return Ok();
  }

  void leave_arena(ValueId id) {
    const auto i = static_cast<size_t>(id);
    if (home_[i] != Home::kArena) return;
    home_[i] = Home::kHeap;
    arena_.remove(id);
  }

  /// A read may share the variable's storage only when nothing writes the variable while the value lives.
  Status choose_read(const Node& node, int k, bool is_static, Step& step) {
    const int state = static_cast<const StateAttrs&>(*node.attrs).state;
    const auto out = static_cast<size_t>(node.outputs[0]);
    if (node.outputs[0] == kNoValue) return Ok();
    if (!variables_.may_write(state, k, last_use_[out])) {
      step.work = StateStep{StateStep::Kind::kRead, is_static};
      home_[out] = Home::kOutside;
      return Ok();
    }
    if (!is_static) return Ok();
    step.work = StateStep{StateStep::Kind::kCopy, true};
    return in_arena(node.outputs[0], propagation_[node.outputs[0]].type, k);
  }

  Placement placement(size_t k, size_t backend) const {
    const Step& step = plan_.steps[k];
    if (drafts_[k].prepared && drafts_[k].backend == backend) return Placement::kHere;
    const auto* on_device = backend == device_ ? std::get_if<DeviceStep>(&step.work) : nullptr;
    if (!on_device) return Placement::kElsewhere;
    if (on_device->kind == DeviceStep::Kind::kView) return Placement::kView;
    return step.node->op == Op::kStateRead ? Placement::kStateRead : Placement::kStateWrite;
  }

  /// The graph's values as the device's part of the plan sees them.
  std::vector<PlannedValue> planned_values() const {
    std::vector<PlannedValue> values(graph().values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const ValueFacts v = propagation_[i];
      values[i] = {&v.type, v.content, requests_.is_of_model(static_cast<ValueId>(i)) && v.content,
                   home_[i] == Home::kDevice};
    }
    for (size_t k = 0; k < plan_.steps.size(); ++k)
      if (placement(k, device_) == Placement::kStateRead)
        values[static_cast<size_t>(plan_.steps[k].out[0])].state = state_of(*plan_.steps[k].node);
    return values;
  }

  /// Makes the segments of one back-end.
  Status compile(size_t backend) {
    std::vector<PlannedNode> nodes;
    std::vector<size_t> at;  // in the steps
    std::vector<NodeRange> partitions;
    std::vector<PlannedValue> values;
    const bool device = backend == device_;
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const Placement p = placement(k, backend);
      if (!device && p != Placement::kHere) continue;
      if (!device) partitions.push_back({static_cast<int>(nodes.size()), static_cast<int>(nodes.size())});
      nodes.push_back({plan_.steps[k].node, p, p == Placement::kHere ? std::move(drafts_[k].prepared) : nullptr});
      at.push_back(k);
    }
    if (device) {
      partitions = find_partitions(nodes);
      values = planned_values();
    }
    if (partitions.empty()) return Ok();
    SMELT_ASSIGN(CompiledPlan made, compilers_[backend].compiler->compile({graph(), nodes, values, partitions}));
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].placement != Placement::kHere) continue;
      auto& work = std::get<SegmentStep>(plan_.steps[at[i]].work);
      work.kernel = made.nodes[i].kernel;
      work.storage = std::move(made.nodes[i].storage);
    }
    for (size_t i = 0; i < partitions.size(); ++i)
      std::get<SegmentStep>(plan_.steps[at[static_cast<size_t>(partitions[i].first)]].work).segment =
          std::move(made.segments[i]);
    if (!device) return Ok();
    plan_.device = made.use;
    for (const auto& [id, data] : made.views) {
      const ValueType& t = propagation_[id].type;
      Tensor view = Tensor::view(t.dtype, t.shape, data, nullptr);
      view.set_quant(t.quant);
      plan_.values[static_cast<size_t>(id)] = Datum(std::move(view));
    }
    return Ok();
  }

  Status lay_out() {
    arena_.add_scratch(plan_.steps);
    plan_.arena_lower_bound = smelt::arena_lower_bound(arena_.items());
    plan_.arena_bytes = plan_arena(arena_.items());
    if (auto s = env_.control.check_plan(plan_.arena_bytes, plan_.role); !s.ok())
      return arena_.at_largest(s.error(), plan_.steps);
    if (plan_.arena_bytes > 0) {
      plan_.arena = plan_.role == GraphRole::kEntry ? env_.entry_arena(plan_.arena_bytes, !any_limited_)
                                                    : ArenaMemory::make(plan_.arena_bytes);
      if (!plan_.arena) return LimitReached("no memory for ", plan_.arena_bytes, " bytes of activations");
    }
    arena_.lay_out(plan_, type_of(), last_use_);
    // Values on the heap go after their last step; so do views of them.
    for (size_t i = 0; i < home_.size(); ++i) {
      if (home_[i] != Home::kHeap || last_use_[i] < 0 || last_use_[i] >= static_cast<int>(plan_.steps.size())) continue;
      plan_.steps[static_cast<size_t>(last_use_[i])].dead.push_back(static_cast<int32_t>(i));
    }
    return Ok();
  }

  PlannedEnvironment& env_;
  bool any_limited_ = false;  ///< Draft::limited
  const Graph& graph_;
  PlanParts plan_;
  const Plan* before_;  ///< null: none to go on from
  ConstantPropagation propagation_;
  std::vector<Compiler> compilers_;  ///< aligned with the environment's back-ends
  size_t device_ = kNoBackend;       ///< of compilers_: the one with memory of its own
  std::vector<Home> home_;
  std::vector<int> last_use_;
  VariableSteps variables_;
  ArenaItems arena_;
  std::vector<Draft> drafts_;  ///< aligned with the plan's steps
  NodeRequests requests_;
  std::vector<bool> resident_;  ///< variables of the module that stay on the device; empty without one
};

}  // namespace

Result<std::unique_ptr<Plan>> build_plan(PlannedEnvironment& env, int graph, std::span<const ValueType> inputs,
                                         std::span<const Datum> given, GraphRole role, const Plan* before) {
  return PlanBuilder(env, graph, inputs, given, role, before).build();
}

}  // namespace smelt
