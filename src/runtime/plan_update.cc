#include "runtime/plan_update.h"

#include <algorithm>

#include "ops/core/node_infer.h"
#include "runtime/constant_propagation.h"
#include "runtime/node_facts.h"
#include "runtime/node_request.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// A value that differs.
struct Difference {
  ValueType type;
  Datum content;  ///< of a folded value
};

class Updater {
 public:
  Updater(PlannedEnvironment& env, PlanParts& parts)
      : env_(env), parts_(parts), graph_(*parts.graph), differs_(parts.values.size(), -1) {
    differences_.reserve(parts.values.size() / 2);
  }

  PlanUpdate run(std::span<const ValueType> inputs) {
    if (!may_update()) return PlanUpdate::kUnchanged;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!same_value_type(inputs[i], parts_.inputs[i])) note(graph_.inputs[i], {inputs[i], {}});
    for (const Node& node : graph_.nodes) {
      const auto affected = [this](ValueId id) { return id != kNoValue && differs_[static_cast<size_t>(id)] >= 0; };
      if (std::ranges::any_of(node.inputs, affected) && !infer(node)) return PlanUpdate::kUnchanged;
    }
    if (!all_fit_) return PlanUpdate::kTooSmall;
    commit(inputs);
    return make_kernels() ? PlanUpdate::kDone : PlanUpdate::kBroken;
  }

 private:
  /// A step whose inputs differ, and the types of its node's outputs.
  struct Affected {
    Step* step;
    std::vector<ValueType> types;
  };

  class Infer final : public NodeInfer {
   public:
    Infer(const Updater& u, const Node& node, std::vector<ValueType>& out)
        : NodeInfer(*u.env_.module, u.graph_, node, out), updater_(u) {}
    const ValueType& input(int i) const override { return updater_.type(value_of(i)); }
    const Tensor* constant(int i) const override { return has(i) ? updater_.content(value_of(i)) : nullptr; }

   private:
    const Updater& updater_;
  };

  bool may_update() const {
    return parts_.findings.complete && !parts_.decomposed && parts_.guards.empty() && !env_.device() && !env_.tap &&
           env_.mode() == CompileMode::kRun;
  }

  void note(ValueId id, Difference d) {
    differs_[static_cast<size_t>(id)] = static_cast<int32_t>(differences_.size());
    differences_.push_back(std::move(d));
    ids_.push_back(id);
  }
  const ValueType& type(size_t i) const {
    return differs_[i] >= 0 ? differences_[static_cast<size_t>(differs_[i])].type : parts_.findings.types[i];
  }
  TypeOf types_of_values() const {
    return [this](ValueId id) -> const ValueType& { return type(static_cast<size_t>(id)); };
  }
  const Tensor* content(size_t i) const {
    if (graph_.values[i].constant) return graph_.values[i].constant.get();
    if (!parts_.findings.folded[i]) return nullptr;
    const Datum& d = differs_[i] >= 0 ? differences_[static_cast<size_t>(differs_[i])].content : parts_.values[i];
    return d.is_tensor() && d.tensor.defined() ? &d.tensor : nullptr;
  }
  bool is_folded(ValueId id) const { return parts_.findings.folded[static_cast<size_t>(id)]; }

  /// Notes what of the node's outputs differs. False: the node is none that can be updated.
  bool infer(const Node& node) {
    const OpInfo& info = op_info(node.op);
    if (!info.infer || (info.flags & kEffect)) return false;
    std::vector<ValueType> types(node.outputs.size());
    Infer ctx(*this, node, types);
    if (!info.infer(ctx).ok()) return false;
    complete_types(graph_, node, types);
    const auto wanted = std::ranges::find_if(node.outputs, [](ValueId id) { return id != kNoValue; });
    if (wanted == node.outputs.end()) return false;
    return is_folded(*wanted) ? fold(node, std::move(types)) : plan(node, std::move(types));
  }

  /// Computes a node whose output was computed before, from contents or a shape.
  bool fold(const Node& node, std::vector<ValueType> types) {
    std::vector<Datum> in, out;
    in.reserve(node.inputs.size());
    if (follows_from_shape(node.op)) {
      const ValueType& t = type(static_cast<size_t>(node.inputs[0]));
      in.emplace_back(Tensor::view(t.dtype, t.shape, nullptr, nullptr));
    } else {
      // What moves elements takes no more time than its results are large.
      const bool moves = (op_info(node.op).flags & kDataMovement) != 0;
      for (ValueId id : node.inputs) {
        const Tensor* known = id == kNoValue ? nullptr : content(static_cast<size_t>(id));
        if (id != kNoValue && (!known || (!moves && known->bytes() > kKeptOpenBytes))) return false;
        in.push_back(known ? Datum(*known) : Datum{});
      }
      for (const ValueType& t : types)
        if (t.is_static() ? Tensor::byte_size(t.dtype, t.shape.elements()) > kKeptOpenBytes : moves) return false;
    }
    if (!env_.fold_node(graph_, node, std::move(in), std::move(types), out).ok() || out.size() != node.outputs.size())
      return false;
    for (size_t i = 0; i < out.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id == kNoValue) continue;
      if (!is_folded(id) || !out[i].is_tensor()) return false;
      const Datum& before = parts_.values[static_cast<size_t>(id)];
      ValueType now = type_of(out[i]);
      if (before.is_tensor() && same_value_type(now, type(static_cast<size_t>(id))) &&
          same_contents(out[i].tensor, before.tensor))
        continue;
      note(id, {std::move(now), std::move(out[i])});
    }
    return true;
  }

  /// Notes a node that a step runs.
  bool plan(const Node& node, std::vector<ValueType> types) {
    const auto at = parts_.findings.step_of[static_cast<size_t>(&node - graph_.nodes.data())];
    Step* const found = at < 0 ? nullptr : &parts_.steps[static_cast<size_t>(at)];
    if (!found || found->is<DynamicStep>()) {  // of a node without a step nobody reads the outputs
      for (size_t i = 0; i < types.size(); ++i) {
        const ValueId id = node.outputs[i];
        if (id != kNoValue && !same_value_type(types[i], type(static_cast<size_t>(id)))) note(id, {types[i], {}});
      }
      return true;
    }
    Step& step = *found;
    if (!is_static(node, types_of_values(), types)) return false;
    if (step.joined >= 0 || step.part_of || step.in.data() != node.inputs.data() ||
        step.out.data() != node.outputs.data())
      return false;
    const auto* segment = std::get_if<SegmentStep>(&step.work);
    const auto* reference = std::get_if<ReferenceStep>(&step.work);
    const bool alias = step.is<AliasStep>();
    if (!alias && !(segment && segment->segment) && !(reference && !reference->empty && !reference->in_place))
      return false;
    const ValueType& from = type(static_cast<size_t>(node.inputs[0]));
    if (alias != ((op_info(node.op).flags & kView) != 0 || moves_nothing(node, from, types[0]))) return false;
    for (size_t i = 0; i < types.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id == kNoValue) continue;
      if (is_folded(id) || types[i].shape.elements() == 0) return false;
      if (same_value_type(types[i], type(static_cast<size_t>(id)))) continue;
      if (!alias) all_fit_ = all_fit_ && fits(id, types[i]);
      note(id, {types[i], {}});
    }
    affected_.push_back({&step, std::move(types)});
    return true;
  }

  /// True if a value of this type fits where the plan has the value.
  bool fits(ValueId id, const ValueType& t) const {
    return t.dtype != DType::kString && parts_.has_memory_for(id, t.dtype, t.shape);
  }

  void commit(std::span<const ValueType> inputs) {
    for (size_t k = 0; k < ids_.size(); ++k) {
      const auto i = static_cast<size_t>(ids_[k]);
      Difference& d = differences_[k];
      Datum& value = parts_.values[i];
      if (parts_.findings.folded[i]) {
        value = std::move(d.content);
      } else if (parts_.slot_of(ids_[k])) {
        Tensor t = Tensor::view(d.type.dtype, d.type.shape, value.tensor.raw(), nullptr);
        t.set_quant(d.type.quant);
        value = Datum(std::move(t));
      }
      parts_.findings.types[i] = std::move(d.type);
    }
    differs_.assign(differs_.size(), -1);
    parts_.inputs.assign(inputs.begin(), inputs.end());
  }

  /// Chooses what runs the affected steps. False: not all of them can be run so.
  bool make_kernels() {
    std::vector<Affected*> left;
    for (Affected& a : affected_) {
      if (a.step->is<AliasStep>())
        a.step->work = AliasStep{};
      else
        left.push_back(&a);
    }
    for (const auto& backend : env_.backends()) {
      const auto compiler = backend->begin_plan([this](size_t bytes) { return env_.control.check(bytes); });
      if (!make_kernels_of(*backend, *compiler, left)) return false;
    }
    for (Affected* a : left) {
      const Node& node = *a->step->node;
      if (needs_float(node, types_of_values(), a->types) || !op_info(node.op).reference) return false;
      a->step->work = ReferenceStep{};
    }
    return true;
  }
  /// Those that the back-end runs leave `left`.
  bool make_kernels_of(const BackendSession& backend, PlanCompiler& compiler, std::vector<Affected*>& left) {
    std::vector<PlannedNode> nodes;
    std::vector<NodeRange> partitions;
    std::vector<Step*> steps;
    std::erase_if(left, [&](Affected* a) {
      auto prepared = prepare(compiler, *a);
      if (!prepared) return false;
      partitions.push_back({static_cast<int>(nodes.size()), static_cast<int>(nodes.size())});
      nodes.push_back({a->step->node, Placement::kHere, std::move(prepared)});
      steps.push_back(a->step);
      return true;
    });
    if (nodes.empty()) return true;
    auto made = compiler.compile({graph_, nodes, {}, partitions});
    if (!made.ok()) return false;
    for (size_t i = 0; i < steps.size(); ++i) {
      CompiledPlan::NodeReport& node = made->nodes[i];
      steps[i]->work = SegmentStep{&backend, std::move(made->segments[i]), node.kernel, std::move(node.storage)};
    }
    return true;
  }
  std::unique_ptr<PreparedNode> prepare(PlanCompiler& compiler, const Affected& a) {
    const auto request = requests_.make(
        *a.step->node, [this](ValueId id) -> const ValueType& { return type(static_cast<size_t>(id)); },
        [this](ValueId id) { return content(static_cast<size_t>(id)); }, a.types);
    return compiler.prepare(request, nullptr);
  }

  PlannedEnvironment& env_;
  PlanParts& parts_;
  const Graph& graph_;
  std::vector<int32_t> differs_;  ///< by value, its place in differences_; -1: none
  std::vector<Difference> differences_;
  std::vector<ValueId> ids_;  ///< aligned with differences_
  std::vector<Affected> affected_;
  bool all_fit_ = true;
  NodeRequests requests_{graph_};
};

}  // namespace

bool grows(std::span<const ValueType> before, std::span<const ValueType> now) {
  if (before.size() != now.size()) return false;
  bool any = false;
  for (size_t i = 0; i < now.size(); ++i) {
    const ValueType &a = before[i], &b = now[i];
    if (a.kind != b.kind || a.dtype != b.dtype || a.ranked != b.ranked || a.shape.rank() != b.shape.rank())
      return false;
    for (int k = 0; k < b.shape.rank(); ++k) {
      if (b.shape[k] < a.shape[k]) return false;
      any = any || b.shape[k] > a.shape[k];
    }
  }
  return any;
}

size_t bytes_to_grow(const Plan* before, ValueId id, const ValueType& now) {
  if (!before) return 0;
  const ValueType& was = before->findings().types[static_cast<size_t>(id)];
  if (was.dtype != now.dtype || !was.is_static()) return 0;
  const int64_t has = now.shape.elements(), more = has - was.shape.elements();
  constexpr size_t kSome = 16384;
  if (more <= 0 || more > has / 2) return 0;
  return kSome + (more <= has / 8 ? Tensor::byte_size(now.dtype, has) / 4 : 0);
}

const SegmentStep* own_segment(const Plan& plan, const Node& node, size_t index) {
  const int32_t at = plan.findings().step_of[index];
  if (at < 0) return nullptr;
  const Step& step = plan.steps()[static_cast<size_t>(at)];
  const auto* segment = std::get_if<SegmentStep>(&step.work);
  const bool joined = segment && (!segment->segment || step.out.data() != node.outputs.data());
  return segment && !joined && !step.on_device() ? segment : nullptr;
}

PlanUpdate update_plan(PlannedEnvironment& env, Plan& plan, std::span<const ValueType> inputs) {
  return Updater(env, plan.parts()).run(inputs);
}

}  // namespace smelt
