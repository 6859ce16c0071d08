#include "runtime/compiled.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/selection.h"
#include "passes/passes.h"
#include "runtime/executor.h"

namespace smelt {
namespace {

/// `original`: the module that the copy is one of, or the copy.
Result<std::shared_ptr<const Module>> run_passes(std::shared_ptr<const Module> original, std::shared_ptr<Module> copy) {
  SessionOptions options;
  options.limit_seconds = 20;
  Executor executor(std::move(original), options);
  executor.control.begin(options, executor.size, {});
  const Evaluate evaluate = [&](const Graph& graph, const Node& node, std::vector<Datum> in,
                                std::vector<Datum>& out) -> Status {
    SMELT_TRY(executor.control.tick());
    return execute_node(executor, graph, node, std::move(in), out, 0);
  };
  SMELT_TRY(optimise(*copy, evaluate));
  return std::shared_ptr<const Module>(std::move(copy));
}

/// Calls f(id) with each place of the graph that names a value.
template <class F>
void each_id(Graph& g, const F& f) {
  const auto each_of = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids)
      if (id != kNoValue) f(id);
  };
  each_of(g.inputs);
  each_of(g.outputs);
  for (Node& n : g.nodes) {
    each_of(n.inputs);
    each_of(n.outputs);
  }
}

/// Leaves the values that are named, in their order, and no unused memory: plans know something of every value.
void fit(Graph& g) {
  std::vector<ValueId> now(g.values.size(), kNoValue);
  each_id(g, [&](ValueId id) { now[static_cast<size_t>(id)] = 0; });
  std::vector<Value> kept;
  kept.reserve(now.size() - static_cast<size_t>(std::ranges::count(now, kNoValue)));
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] == kNoValue) continue;
    const ValueId read_as = g.read_as(static_cast<ValueId>(i));
    now[i] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(g.values[i]));
    kept.back().read_as = read_as;
  }
  g.values.swap(kept);
  each_id(g, [&](ValueId& id) { id = now[static_cast<size_t>(id)]; });
  g.nodes.shrink_to_fit();
}

Error taken() { return Unsupported("the model was opened for sessions of other options"); }

}  // namespace

Result<std::vector<OpenBackend>> open_backends(const SessionOptions& options) {
  std::vector<OpenBackend> open;
  const std::string& name = options.backend.name();
  const Backend* first = find_backend(name);
  if (!first && options.backend != BackendKind::kReference) {
    std::string names = BackendKind::kReference.name();
    for (const Backend* b : all_backends()) names += Cat(", ", b->name());
    return InvalidInput("SessionOptions::backend is '", name, "'; there are ", names);
  }
  if (!first) {
    if (options.fp16) return InvalidInput("back-end '", name, "' does not multiply in float16");
    return open;
  }
  SMELT_ASSIGN(auto device, first->open(options));
  open.push_back({first, std::move(device)});
  // What options ask of a device concerns the first choice alone.
  SessionOptions host = options;
  host.fp16 = false;
  for (const Backend* b : all_backends()) {
    if (b == first || b->memory() != MemorySpace::kHost) continue;
    SMELT_ASSIGN(auto fallback, b->open(host));
    open.push_back({b, std::move(fallback)});
  }
  return open;
}

GraphRequirements requirements(const std::vector<OpenBackend>& backends, const SessionOptions& options) {
  GraphRequirements required;
  if (!backends.empty()) required = backends.front().backend->requirements();
  required.litert_xnnpack = options.arithmetic == Arithmetic::kLiteRtXnnpack;
  required.widen_float16 = required.widen_float16 && !options.strict_types;
  return required;
}

std::shared_ptr<const Module> legalized(std::shared_ptr<const Module> module, const GraphRequirements& required) {
  if (builds_format("tflite") && required.litert_xnnpack) module = litert_xnnpack(std::move(module));
  return builds_op("DynamicQuantize") && required.dynamic_quantize ? dynamic_quantize(std::move(module)) : module;
}

Result<std::shared_ptr<const Module>> Compiled::compile(InputDefaults defaults, const GraphRequirements& required) {
  auto copy = module_ ? std::make_shared<Module>(*module_) : std::exchange(own_, nullptr);
  if (!copy) return taken();
  for (const Method& m : copy->methods) {
    Graph& g = copy->graphs[static_cast<size_t>(m.graph)];
    if (defaults == InputDefaults::kConstant) {
      std::erase_if(g.inputs, [&](ValueId id) { return id != kNoValue && g.value(id).constant; });
      continue;
    }
    for (ValueId id : g.inputs)
      if (id != kNoValue) g.value(id).constant = nullptr;
  }
  if (builds_op("Call")) inline_calls(*copy);
  if (builds_op("Cast") && required.widen_float16)
    for (Graph& g : copy->graphs) widen_float16(g);
  SMELT_ASSIGN(auto optimised, run_passes(module_ ? module_ : copy, copy));
  copy.reset();
  auto module = legalized(std::move(optimised), required);
  if (required.widen_weights) module = widen_weights(std::move(module));
  if (builds_op("Quantize") && required.share_dynamic_quantization)
    module = share_dynamic_quantization(std::move(module));
  if ((builds_op("MatMulInteger") || builds_op("ConvInteger") || builds_op("Recurrent")) &&
      required.fuse_integer_products)
    module = fuse_integer_products(std::move(module));
  if (builds_op("TableFind") && required.tabulate_byte_functions) module = tabulate_byte_functions(std::move(module));
  if (builds_op("Dequantize") || builds_op("DequantizeLinear")) module = dequantize_weights(std::move(module));
  auto fitted = own_module(std::move(module));
  for (Graph& g : fitted->graphs) fit(g);
  return std::shared_ptr<const Module>(std::move(fitted));
}

Result<std::shared_ptr<const Module>> Compiled::original() {
  const std::lock_guard lock(mutex_);
  if (own_) module_ = std::move(own_);
  if (!module_) return taken();
  return module_;
}

Result<std::shared_ptr<const Module>> Compiled::module(InputDefaults defaults, const GraphRequirements& required) {
  const std::lock_guard lock(mutex_);
  for (const Made& m : made_)
    if (m.defaults == defaults && m.requirements == required) return m.module;
  SMELT_ASSIGN(auto module, compile(defaults, required));
  made_.push_back({defaults, required, module});
  return module;
}

const std::shared_ptr<BackendModel>& Compiled::model_on(const OpenBackend& on) {
  for (const OnDevice& m : models_)
    if (m.on.backend == on.backend && m.on.device->same(*on.device)) return m.model;
  return models_.emplace_back(OnDevice{on, on.backend->make_model(on.device, CompileMode::kRun)}).model;
}

std::vector<std::shared_ptr<BackendModel>> Compiled::models(const std::vector<OpenBackend>& backends) {
  const std::lock_guard lock(mutex_);
  std::erase_if(models_, [](const OnDevice& m) { return m.on.device->lost(); });
  std::vector<std::shared_ptr<BackendModel>> out;
  for (const OpenBackend& b : backends) out.push_back(model_on(b));
  return out;
}

}  // namespace smelt
