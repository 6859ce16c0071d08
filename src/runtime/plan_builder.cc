// Turns a graph and concrete input types into a plan: what is known of values (known_values.h), choice of kernels,
// lifetimes, arena; with a device, what runs there.
#include <algorithm>
#include <cmath>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/record/program.h"
#include "base/error.h"
#include "ops/control/control.h"
#include "ops/shape/shape.h"
#include "runtime/constant_propagation.h"
#include "runtime/device_layout.h"
#include "runtime/device_storage.h"
#include "runtime/partition.h"
#include "runtime/plan.h"
#include "runtime/resident_states.h"
#include "runtime/work.h"

namespace smelt {
namespace {

/// Whether every element stays in its place: bytes seen as another type, a transposition that moves dimensions of 1,
/// an expansion to the same shape.
bool moves_nothing(const Node& node, const ValueType& from, const ValueType& to) {
  const Shape& x = from.shape;
  if (node.op == Op::kBitCast) return bit_width(from.dtype) == bit_width(to.dtype) && x == to.shape;
  if (node.op == Op::kExpand) return x == to.shape;
  if (node.op != Op::kTranspose || node.inputs.size() != 1) return false;
  const auto& perm = static_cast<const TransposeAttrs&>(*node.attrs).perm;
  if (static_cast<int>(perm.size()) != x.rank()) return false;
  int64_t before = -1;
  for (int64_t axis : perm) {
    if (axis < 0) axis += x.rank();
    if (x[static_cast<int>(axis)] == 1) continue;
    if (axis < before) return false;
    before = axis;
  }
  return true;
}
}  // namespace

class PlanBuilder {
 public:
  PlanBuilder(PlannedEnvironment& env, int graph, std::span<const ValueType> inputs, std::span<const Datum> given,
              Plan& plan, int depth, const Plan* before)
      : env_(env),
        graph_(env.module->graphs[static_cast<size_t>(graph)]),
        plan_(plan),
        depth_(depth),
        before_(before && before->complete_ ? before : nullptr),
        known_(env, graph_, inputs, given, plan.slots_, before_) {
    plan_.outermost_ = depth == 0;
    plan_.graph_ = &graph_;
    plan_.inputs_.assign(inputs.begin(), inputs.end());
  }

  Status build() {
    const size_t n = graph_.values.size();
    home_.assign(n, Home::kHeap);
    for (const Node& node : graph_.nodes)
      if (auto s = add(node); !s.ok()) return s.error().within(node_label(node));
    for (size_t i = 0; i < n; ++i)
      if (known_[i].settled) home_[i] = Home::kConstant;
    for (ValueId id : graph_.inputs) home_[static_cast<size_t>(id)] = Home::kOutside;
    plan_.guards_ = known_.guards();
    put_in_order();
    find_last_uses();
    for (size_t k = 0; k < plan_.steps_.size(); ++k)
      if (auto s = choose(k); !s.ok()) return s.error().within(node_label(*plan_.steps_[k].node));
    note_findings();
    SMELT_TRY(lay_out_on_device());
    return lay_out();
  }

 private:
  /// What the next plan may take over.
  void note_findings() {
    const size_t n = graph_.values.size();
    plan_.types_.reserve(n);
    plan_.settled_.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      plan_.types_.push_back(known_[i].type);
      plan_.settled_.push_back(known_[i].settled);
    }
    plan_.complete_ = known_.complete();
    plan_.step_of_.assign(graph_.nodes.size(), -1);
    for (size_t k = 0; k < plan_.steps_.size(); ++k)
      plan_.step_of_[static_cast<size_t>(plan_.steps_[k].node - graph_.nodes.data())] = static_cast<int32_t>(k);
  }

  enum class Home : uint8_t { kHeap, kConstant, kOutside /* input or variable */, kArena, kDevice };

  /// What add() learned about the node of a step.
  struct Draft {
    std::vector<ValueType> types;  ///< of the outputs
    const char* device_kernel = "";
  };

  /// Whether the output is the input's storage under another type. Precondition: add() was called for the node.
  bool is_view(const Node& node) const {
    if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.empty() || node.outputs[0] == kNoValue)
      return false;
    const ValueType& from = known_[node.inputs[0]].type;
    const ValueType& to = known_[node.outputs[0]].type;
    return from.is_static() && to.is_static() &&
           ((op_info(node.op).flags & kView) != 0 || moves_nothing(node, from, to));
  }

  /// By position in the steps; a graph's output is used after the last one.
  void find_last_uses() {
    const int steps = static_cast<int>(plan_.steps_.size());
    last_use_.assign(graph_.values.size(), -1);
    for (int k = 0; k < steps; ++k)
      for (ValueId id : plan_.steps_[static_cast<size_t>(k)].node->inputs)
        if (id != kNoValue) last_use_[static_cast<size_t>(id)] = k;
    for (ValueId id : graph_.outputs)
      if (id != kNoValue) last_use_[static_cast<size_t>(id)] = steps;
    // What aliases keep alive: an alias extends its source.
    for (int k = steps - 1; k >= 0; --k) {
      const Node& n = *plan_.steps_[static_cast<size_t>(k)].node;
      if (!is_view(n)) continue;
      int& source = last_use_[static_cast<size_t>(n.inputs[0])];
      source = std::max(source, last_use_[static_cast<size_t>(n.outputs[0])]);
    }
  }

  /// Types of the node's outputs, or their contents; else a step and its draft.
  Status add(const Node& node) {
    Draft draft;
    SMELT_TRY(known_.infer(node, draft.types));
    SMELT_ASSIGN(const bool folded, known_.fold(node, draft.types));
    if (folded) return Ok();
    std::unique_ptr<vulkan::Kernel> kernel;
    std::string reason;
    if (env_.gpu.device && !is_static(node, draft.types)) {
      reason = "shapes depend on data, or control flow";
    } else if (env_.gpu.device && !is_view(node)) {
      const Operands ops = operands(node);
      vulkan::KernelSpec spec{{node, ops.types, ops.constants, draft.types}, *env_.gpu.device};
      spec.fp16 = env_.options.fp16;
      const vulkan::KernelInfo* chosen = nullptr;
      kernel = vulkan::make_kernel(spec, &chosen);
      if (kernel) draft.device_kernel = chosen->name;
      reason = kernel ? "too little work between steps of the host" : vulkan::refusal(spec);
    }
    Step step;
    step.node = &node;
    step.host_reason = std::move(reason);
    for (ValueId id : node.inputs) step.in.push_back(id);
    for (ValueId id : node.outputs) step.out.push_back(id);
    plan_.steps_.push_back(std::move(step));
    drafts_.push_back(std::move(draft));
    device_kernels_.push_back(std::move(kernel));
    return Ok();
  }

  /// Shapes known, outputs to be allocated beforehand.
  bool is_static(const Node& node, const std::vector<ValueType>& types) const {
    const uint32_t flags = op_info(node.op).flags;
    if ((flags & (kControl | kContainer | kDynamic)) && node.op != Op::kStateRead && node.op != Op::kIndexTensors)
      return false;
    for (size_t i = 0; i < types.size(); ++i)
      if (node.outputs[i] != kNoValue && !types[i].is_static()) return false;
    for (ValueId id : node.inputs)
      if (id != kNoValue && !known_[id].type.is_static()) return false;
    return true;
  }

  /// Elements of a type as a number that may be large; 0 when unknown.
  static double size(const ValueType& t) {
    double n = t.is_static() ? 1 : 0;
    for (int i = 0; n > 0 && i < t.shape.rank(); ++i) n *= static_cast<double>(t.shape[i]);
    return n;
  }

  double work(const Node& node, const std::vector<ValueType>& types) const {
    double n = 0;
    for (const ValueType& t : types) n += size(t);
    const bool sums = node.op == Op::kConv || node.op == Op::kMatMul || node.op == Op::kConvTranspose;
    if (!sums || node.inputs.size() < 2 || node.inputs[1] == kNoValue) return n;
    return n * std::max<double>(1, std::sqrt(size(known_[node.inputs[1]].type)));
  }

  /// With a device: device nodes side by side.
  void put_in_order() {
    if (!env_.gpu.device) return;
    std::vector<SplitNode> nodes;
    for (size_t k = 0; k < drafts_.size(); ++k) {
      const Node& node = *plan_.steps_[k].node;
      nodes.push_back({&node, device_kernels_[k] != nullptr, is_view(node), work(node, drafts_[k].types)});
    }
    std::vector<int> order;
    // Work that is given to the host may take variables along.
    for (bool again = true; again;) {
      resident_ = resident_states(*env_.module, graph_, nodes, known_, *env_.gpu.device);
      for (size_t k = 0; k < nodes.size(); ++k)
        if (const int state = state_of(*nodes[k].node); state >= 0)
          nodes[k].device = resident_[static_cast<size_t>(state)];
      order = split(graph_, nodes);
      again = resident_states(*env_.module, graph_, nodes, known_, *env_.gpu.device) != resident_;
    }
    std::vector<Step> steps;
    std::vector<Draft> drafts;
    std::vector<std::unique_ptr<vulkan::Kernel>> kernels;
    for (int i : order) {
      const auto k = static_cast<size_t>(i);
      if (!nodes[k].device) device_kernels_[k].reset();
      steps.push_back(std::move(plan_.steps_[k]));
      drafts.push_back(std::move(drafts_[k]));
      kernels.push_back(std::move(device_kernels_[k]));
    }
    plan_.steps_ = std::move(steps);
    device_kernels_ = std::move(kernels);
    drafts_ = std::move(drafts);
  }

  Status choose(size_t at) {
    Step& step = plan_.steps_[at];
    const Node& node = *step.node;
    const std::vector<ValueType>& types = drafts_[at].types;
    const int k = static_cast<int>(at);
    const OpInfo& info = op_info(node.op);
    if (const int state = state_of(node); state >= 0 && !resident_.empty() && resident_[static_cast<size_t>(state)]) {
      step.kind = node.op == Op::kStateRead ? Step::Kind::kDeviceRead : Step::Kind::kDeviceWrite;
      if (node.op == Op::kStateRead) home_[static_cast<size_t>(node.outputs[0])] = Home::kDevice;
      return Ok();
    }
    if (node.op == Op::kStateWrite) {
      step.kind = Step::Kind::kStateWrite;
      return Ok();
    }
    if (device_kernels_[at]) {
      step.kind = Step::Kind::kDevice;
      step.kernel_name = drafts_[at].device_kernel;
      for (ValueId id : node.outputs)
        if (id != kNoValue) home_[static_cast<size_t>(id)] = Home::kDevice;
      return Ok();
    }
    const bool fixed = is_static(node, types);
    if (node.op == Op::kStateRead) return choose_read(node, k, types, fixed, step);
    if (!fixed) return Ok();
    if (is_view(node)) {
      step.kind = Step::Kind::kAlias;
      step.in.resize(1);
      step.shape = types[0].shape;
      step.dtype = types[0].dtype;
      step.quant = types[0].quant;
      const auto out = static_cast<size_t>(node.outputs[0]), in = static_cast<size_t>(node.inputs[0]);
      home_[out] = home_[in] == Home::kConstant ? Home::kOutside : home_[in];
      if (home_[out] == Home::kDevice) step.kind = Step::Kind::kDeviceAlias;
      return Ok();
    }
    for (size_t i = 0; i < types.size(); ++i)
      if (node.outputs[i] != kNoValue) SMELT_TRY(in_arena(node.outputs[i], types[i], k));
    step.kind = Step::Kind::kReference;
    step.empty = nothing_to_compute(node, [&](size_t i) { return types[i].shape.elements() == 0; });
    if (step.empty) return Ok();
    if (needs_float(info, node, types)) {
      // The reference kernel works on real numbers: the runtime wraps it, allocating as it goes.
      if (!fast_kernel(node, types, step)) {
        step.kind = Step::Kind::kGeneric;
        for (ValueId id : node.outputs)
          if (id != kNoValue) leave_arena(id);
      }
      return Ok();
    }
    if (!fast_kernel(node, types, step) && !info.reference)
      return Unsupported("operator ", info.name, " has no kernel");
    return Ok();
  }

  bool needs_float(const OpInfo& info, const Node& node, const std::vector<ValueType>& types) const {
    if (info.flags & (kDataMovement | kQuantized | kEffect)) return false;
    for (ValueId id : node.inputs)
      if (id != kNoValue && known_[id].type.quant) return true;
    for (const ValueType& t : types)
      if (t.quant) return true;
    return false;
  }

  /// The contents of a value as kernels see them: constants of the model, and what planning computed.
  const Tensor* constant_for_kernel(size_t id) const {
    const Tensor* content = known_[id].content;
    return content && graph_.values[id].constant ? graph_.values[id].constant.get() : content;
  }

  struct Operands {
    std::vector<ValueType> types;
    std::vector<const Tensor*> constants;
    bool lasting = true;  ///< every content lives as long as the model
  };
  Operands operands(const Node& node) const {
    Operands o;
    for (ValueId id : node.inputs) {
      const Tensor* content = id == kNoValue ? nullptr : constant_for_kernel(static_cast<size_t>(id));
      if (content && !graph_.value(id).constant) o.lasting = false;
      o.types.push_back(id == kNoValue ? ValueType{} : known_[id].type);
      o.constants.push_back(content);
    }
    return o;
  }

  bool fast_kernel(const Node& node, const std::vector<ValueType>& types, Step& step) {
    if (env_.options.backend == BackendKind::kReference) return false;
    if (kernel_as_before(node, step)) return true;
    const Operands o = operands(node);
    // Kernels pack constants by address: what this plan computed lives no longer than the plan.
    PackCache& packs = o.lasting ? env_.packs() : own_packs();
    const KernelInfo* chosen = nullptr;
    const int threads = worthwhile_threads(env_.threads.threads(), node, o.types, types, env_.isa());
    step.alone = threads == 1;
    step.kernel = make_kernel({{node, o.types, o.constants, types}, env_.isa(), threads, packs}, &chosen);
    if (!step.kernel) return false;
    step.kind = Step::Kind::kKernel;
    step.kernel_name = chosen->name;
    return true;
  }

  /// The kernel that does the same in the plan before, if there is one.
  bool kernel_as_before(const Node& node, Step& step) const {
    if (!before_ || !known_.as_before(node)) return false;
    const int32_t at = before_->step_of_[static_cast<size_t>(&node - graph_.nodes.data())];
    if (at < 0) return false;
    const Step& same = before_->steps_[static_cast<size_t>(at)];
    if (same.kind != Step::Kind::kKernel) return false;
    step.kind = same.kind;
    step.kernel = same.kernel;
    step.kernel_name = same.kernel_name;
    step.alone = same.alone;
    return true;
  }

  PackCache& own_packs() {
    if (!plan_.packs_) plan_.packs_ = std::make_unique<PackCache>(env_.packs().mode());
    return *plan_.packs_;
  }

  Status in_arena(ValueId id, const ValueType& type, int k) {
    const auto i = static_cast<size_t>(id);
    SMELT_ASSIGN(const int64_t n, type.shape.checked_elements());
    if (n > (int64_t{1} << 40)) return LimitReached("a tensor of shape ", type.shape.str(), " is too large");
    if (type.dtype == DType::kString) {
      const size_t bytes = Tensor::byte_size(type.dtype, n);
      SMELT_TRY(env_.control.charge(bytes));
      env_.control.release(bytes);
      SMELT_ASSIGN(Tensor t, Tensor::allocate(type.dtype, type.shape));
      plan_.slots_[i] = Datum(std::move(t));
      home_[i] = Home::kOutside;
      return Ok();
    }
    // 64 bytes of slack let vector kernels read past the end.
    const size_t bytes = Tensor::byte_size(type.dtype, n) + 64;
    // No kernel is prepared for what alone is too much for the arena.
    SMELT_TRY(env_.control.charge_plan(bytes, depth_));
    env_.control.release(bytes);
    plan_.slots_[i] = Datum(type_only(type));
    home_[i] = Home::kArena;
    items_.push_back({.bytes = bytes, .first = k, .last = std::max(k, last_use_[i])});
    item_value_.push_back(id);
    return Ok();
  }

  void leave_arena(ValueId id) {
    const auto i = static_cast<size_t>(id);
    if (home_[i] != Home::kArena) return;
    home_[i] = Home::kHeap;
    for (size_t j = items_.size(); j-- > 0;) {
      if (item_value_[j] != id) continue;
      items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(j));
      item_value_.erase(item_value_.begin() + static_cast<std::ptrdiff_t>(j));
      break;
    }
  }

  /// A read may share the variable's storage only when nothing writes the variable while the value lives.
  Status choose_read(const Node& node, int k, const std::vector<ValueType>& types, bool is_static, Step& step) {
    const int state = static_cast<const StateAttrs&>(*node.attrs).state;
    const auto out = static_cast<size_t>(node.outputs[0]);
    if (node.outputs[0] == kNoValue) return Ok();
    const int last = last_use_[out];
    bool written = last >= static_cast<int>(plan_.steps_.size());
    for (int j = k + 1; !written && j < last; ++j) {
      const Node& n = *plan_.steps_[static_cast<size_t>(j)].node;
      if (n.op == Op::kStateWrite && static_cast<const StateAttrs&>(*n.attrs).state == state) written = true;
      if (op_info(n.op).flags & kControl) written = true;
    }
    if (!written) {
      step.kind = Step::Kind::kStateRead;
      home_[out] = Home::kOutside;
      return Ok();
    }
    if (!is_static) return Ok();
    step.kind = Step::Kind::kStateCopy;
    return in_arena(node.outputs[0], types[0], k);
  }

  Status lay_out_on_device() {
    if (!env_.gpu.device) return Ok();
    choose_storage(
        graph_, plan_.steps_, device_kernels_, env_.options.device_storage, vulkan::device_info(*env_.gpu.device),
        [&](size_t k, const vulkan::TextureForm& form, const InputImages& inputs, const char** name) {
          const Node& node = *plan_.steps_[k].node;
          const Operands ops = operands(node);
          const vulkan::KernelInfo* chosen = nullptr;
          vulkan::KernelSpec spec{{node, ops.types, ops.constants, drafts_[k].types}, *env_.gpu.device, form};
          spec.images = inputs;
          spec.fp16 = spec.form.halves = env_.options.fp16;
          auto kernel = vulkan::make_texture_kernel(spec, &chosen);
          if (kernel) *name = chosen->name;
          return kernel;
        });
    std::vector<DeviceValue> values(graph_.values.size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = {known_[i].type, known_[i].content, graph_.values[i].constant && known_[i].content,
                   home_[i] == Home::kDevice};
    for (const Step& step : plan_.steps_)
      if (step.kind == Step::Kind::kDeviceRead) values[static_cast<size_t>(step.out[0])].state = state_of(*step.node);
    SMELT_ASSIGN(DeviceLayout layout, lay_out_device(graph_, plan_.steps_, device_kernels_, values, env_));
    plan_.copies_ = layout.copies;
    plan_.device_arena_bytes_ = layout.arena_bytes;
    plan_.device_arena_lower_bound_ = layout.arena_lower_bound;
    plan_.program_ = std::move(layout.program);
    for (const auto& [id, data] : layout.views) {
      const ValueType& t = known_[id].type;
      Tensor view = Tensor::view(t.dtype, t.shape, data, nullptr);
      view.set_quant(t.quant);
      plan_.slots_[static_cast<size_t>(id)] = Datum(std::move(view));
    }
    return Ok();
  }

  /// A fault of the whole arena, told where its largest value is made.
  Error at_largest(const Error& e) const {
    size_t most = 0;
    for (size_t j = 1; j < items_.size(); ++j)
      if (items_[j].bytes > items_[most].bytes) most = j;
    for (const Node& n : graph_.nodes)
      if (!items_.empty() && std::find(n.outputs.begin(), n.outputs.end(), item_value_[most]) != n.outputs.end())
        return e.within(node_label(n));
    return e;
  }

  Status lay_out() {
    plan_.arena_lower_bound_ = smelt::arena_lower_bound(items_);
    plan_.arena_bytes_ = plan_arena(items_);
    if (auto s = env_.control.charge_plan(plan_.arena_bytes_, depth_); !s.ok()) return at_largest(s.error());
    env_.control.release(plan_.arena_bytes_);
    if (plan_.arena_bytes_ > 0) {
      plan_.arena_ =
          plan_.outermost_ ? env_.outermost_arena(plan_.arena_bytes_) : ArenaMemory::make(plan_.arena_bytes_);
      if (!plan_.arena_) return LimitReached("no memory for ", plan_.arena_bytes_, " bytes of activations");
    }
    for (size_t j = 0; j < items_.size(); ++j) {
      Tensor& t = plan_.slots_[static_cast<size_t>(item_value_[j])].tensor;
      QuantPtr quant = t.quant();
      t = Tensor::view(t.dtype(), t.shape(), plan_.arena_->data() + items_[j].offset, nullptr);
      t.set_quant(std::move(quant));
    }
    // Values on the heap go after their last step; so do views of them.
    for (size_t i = 0; i < home_.size(); ++i) {
      if (home_[i] != Home::kHeap || last_use_[i] < 0 || last_use_[i] >= static_cast<int>(plan_.steps_.size()))
        continue;
      plan_.steps_[static_cast<size_t>(last_use_[i])].dead.push_back(static_cast<int32_t>(i));
    }
    return Ok();
  }

  PlannedEnvironment& env_;
  const Graph& graph_;
  Plan& plan_;
  int depth_;
  const Plan* before_;  ///< null: none to go on from
  KnownValues known_;
  std::vector<Home> home_;
  std::vector<int> last_use_;
  std::vector<ArenaItem> items_;
  std::vector<ValueId> item_value_;
  // Aligned with the plan's steps:
  std::vector<Draft> drafts_;
  std::vector<std::unique_ptr<vulkan::Kernel>> device_kernels_;  ///< null: runs on the host
  std::vector<bool> resident_;  ///< variables of the module that stay on the device; empty without one
};

Result<std::unique_ptr<Plan>> Plan::build(PlannedEnvironment& env, int graph, std::span<const ValueType> inputs,
                                          std::span<const Datum> given, int depth, const Plan* before) {
  auto plan = std::make_unique<Plan>();
  SMELT_TRY(PlanBuilder(env, graph, inputs, given, *plan, depth, before).build());
  return plan;
}

}  // namespace smelt
