#include "runtime/compiled.h"

#include "passes/passes.h"
#include "runtime/executor.h"

namespace smelt {

Result<std::shared_ptr<const Module>> Compiled::passed(std::shared_ptr<Module> copy) {
  SessionOptions options;
  options.limit_seconds = 20;
  Executor executor(module_, options);
  executor.control.begin(options, executor.size, {});
  const Evaluate evaluate = [&](const Graph& graph, const Node& node, std::vector<Datum> in,
                                std::vector<Datum>& out) -> Status {
    SMELT_TRY(executor.control.tick());
    return execute_node(executor, graph, node, std::move(in), out, 0);
  };
  SMELT_TRY(optimise(*copy, evaluate));
  return std::shared_ptr<const Module>(std::move(copy));
}

Result<std::shared_ptr<const Module>> Compiled::optimised() {
  const std::lock_guard lock(mutex_);
  if (optimised_) return optimised_;
  auto copy = std::make_shared<Module>(*module_);
  for (const Method& m : copy->methods) {
    Graph& g = copy->graphs[static_cast<size_t>(m.graph)];
    std::erase_if(g.inputs, [&](ValueId id) { return id != kNoValue && g.value(id).constant; });
  }
  SMELT_ASSIGN(optimised_, passed(std::move(copy)));
  return optimised_;
}

Result<std::shared_ptr<const Module>> Compiled::overridable() {
  const std::lock_guard lock(mutex_);
  if (overridable_) return overridable_;
  auto copy = std::make_shared<Module>(*module_);
  for (const Method& m : copy->methods) {
    Graph& g = copy->graphs[static_cast<size_t>(m.graph)];
    for (ValueId id : g.inputs)
      if (id != kNoValue) g.value(id).constant = nullptr;
  }
  SMELT_ASSIGN(overridable_, passed(std::move(copy)));
  return overridable_;
}

Result<std::shared_ptr<const Module>> Compiled::for_gpu(bool overridable) {
  SMELT_ASSIGN(const auto module, overridable ? this->overridable() : optimised());
  const std::lock_guard lock(mutex_);
  auto& made = for_gpu_[overridable ? 1 : 0];
  if (made) return made;
  return made = dynamic_quantize(module);
}

std::shared_ptr<vulkan::WeightStore> Compiled::weights(const std::shared_ptr<vulkan::Device>& device) {
  const std::lock_guard lock(mutex_);
  std::erase_if(weights_, [](const auto& w) { return vulkan::lost(*w.first); });
  auto& store = weights_[device];
  if (!store) store = vulkan::make_weight_store(device);
  return store;
}

}  // namespace smelt
