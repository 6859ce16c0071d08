#include "backends/vulkan/decompose/decomposed_kernel.h"

#include <algorithm>
#include <optional>

#include "backends/vulkan/device/alignment.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/record/kernel_recorder.h"

namespace smelt::vulkan {
namespace {

bool is_view(Op op) { return op == Op::kReshape || op == Op::kSqueeze || op == Op::kUnsqueeze || op == Op::kFlatten; }

/// The memory of a value.
struct Place {
  enum Kind : uint8_t { kNowhere, kOperand, kConstant, kScratch, kOutput } kind = kNowhere;
  size_t index = 0;  ///< of the operand, the constant, or the output
  size_t offset = 0, bytes = 0;
};

struct Stage {
  std::unique_ptr<Kernel> kernel;
  std::vector<ValueId> inputs, outputs;
};

class DecomposedKernel final : public Kernel {
 public:
  std::vector<Place> places;  ///< by value
  std::vector<Stage> stages;
  struct Constant {
    std::unique_ptr<Tensor> content;
    std::optional<Decomposition::Derived> derived;
  };
  std::vector<Constant> constants;
  bool binds_slices(size_t i) const override {
    return std::ranges::any_of(constants, [&](const Constant& c) { return c.derived && c.derived->operand == i; });
  }
  size_t scratch = 0;  ///< bytes of values; that of kernels follows

  bool reads(size_t i) const override {
    for (const Stage& s : stages)
      for (size_t k = 0; k < s.inputs.size(); ++k) {
        if (s.inputs[k] == kNoValue || !s.kernel->reads(k)) continue;
        const Place& p = places[static_cast<size_t>(s.inputs[k])];
        if (p.kind == Place::kOperand && p.index == i) return true;
      }
    return false;
  }
  size_t scratch_bytes() const override {
    size_t most = 0;
    for (const Stage& s : stages) most = std::max(most, s.kernel->scratch_bytes());
    return scratch + most;
  }
  Status record(KernelRecorder& r) const override {
    for (const Stage& s : stages) {
      std::vector<KernelRecorder::Operand> inputs;
      for (ValueId id : s.inputs) inputs.push_back(id == kNoValue ? KernelRecorder::Operand{} : operand(r, id));
      std::vector<Binding> outputs;
      for (ValueId id : s.outputs) outputs.push_back(operand(r, id).binding);
      KernelRecorder inner = r.nested(inputs, outputs, r.scratch(scratch, s.kernel->scratch_bytes(), false));
      SMELT_TRY(s.kernel->record(inner));
    }
    return Ok();
  }

 private:
  KernelRecorder::Operand operand(KernelRecorder& r, ValueId id) const {
    const Place& p = places[static_cast<size_t>(id)];
    switch (p.kind) {
      case Place::kOperand:
        return r.operand(p.index);
      case Place::kConstant: {
        const Constant& c = constants[p.index];
        if (!c.derived || r.operand(c.derived->operand).of) return {{}, c.content.get(), &r.plan_store()};
        const KernelRecorder::Operand& whole = r.operand(c.derived->operand);
        return {{}, c.content.get(), whole.store, whole.constant->raw(), c.derived->name.c_str()};
      }
      case Place::kOutput:
        return {r.place(p.index)};
      default:
        return {r.scratch(p.offset, p.bytes, false)};
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> decomposed_kernel(const KernelSpec& spec, const Decomposition& parts,
                                          const std::vector<ValueId>& results) {
  if (!parts.gives(results)) return nullptr;
  const Graph& g = parts.graph();
  const std::vector<ValueId>& operands = parts.inputs();
  auto k = std::make_unique<DecomposedKernel>();
  k->places.resize(g.values.size());
  const auto at = [&](ValueId id) -> Place& { return k->places[static_cast<size_t>(id)]; };
  std::vector<const Tensor*> contents(g.values.size(), nullptr);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == kNoValue) continue;
    at(operands[i]) = {Place::kOperand, i};
    contents[static_cast<size_t>(operands[i])] = spec.constant(i);
  }
  for (size_t id = 0; id < g.values.size(); ++id) {
    if (!g.values[id].constant || k->places[id].kind != Place::kNowhere) continue;
    k->places[id] = {Place::kConstant, k->constants.size()};
    DecomposedKernel::Constant& c =
        k->constants.emplace_back(DecomposedKernel::Constant{std::make_unique<Tensor>(*g.values[id].constant), {}});
    if (const auto it = parts.derived().find(static_cast<ValueId>(id)); it != parts.derived().end())
      c.derived = it->second;
    contents[id] = c.content.get();
  }
  // Results, and the values that they are views of, are written to the node's outputs.
  for (size_t i = 0; i < results.size(); ++i) {
    ValueId id = results[i];
    if (spec.node.outputs[i] == kNoValue) continue;
    for (size_t n = g.nodes.size(); n-- > 0;)
      if (is_view(g.nodes[n].op) && g.nodes[n].outputs[0] == id) id = g.nodes[n].inputs[0];
    if (at(id).kind != Place::kNowhere) return nullptr;
    at(id) = {Place::kOutput, i};
  }
  for (const Node& n : g.nodes) {
    const ValueId out = n.outputs[0];
    if (is_view(n.op)) {
      at(out) = at(n.inputs[0]);
      if (contents[static_cast<size_t>(n.inputs[0])])
        return nullptr;  // reshape() makes constants in the shape that they need
      continue;
    }
    std::vector<ValueType> types;
    std::vector<const Tensor*> constants;
    for (ValueId id : n.inputs) {
      types.push_back(id == kNoValue ? ValueType{} : g.value(id).type);
      constants.push_back(id == kNoValue ? nullptr : contents[static_cast<size_t>(id)]);
    }
    const ValueType& type = g.value(out).type;
    const KernelSpec part = spec.part({n, types, constants, {&type, 1}});
    auto made = make_kernel(part);
    if (!made) return spec.why ? spec.refuse("of its parts, ", refusal(part)) : nullptr;
    if (Place& p = at(out); p.kind == Place::kNowhere) {
      p = {Place::kScratch, 0, k->scratch, Tensor::byte_size(type.dtype, type.shape.elements())};
      k->scratch += align_binding(p.bytes);
    }
    k->stages.push_back({std::move(made), n.inputs, n.outputs});
  }
  return k;
}

}  // namespace smelt::vulkan
