#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "backends/cpu/core/pack_cache.h"
#include "backends/vulkan/device/backend.h"
#include "graph/graph.h"

namespace smelt {

/// What sessions of one model share: the optimised graph and the packed weights.
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<const Module> module)
      : module_(std::move(module)), packs_(std::make_shared<PackCache>()) {}
  /// The module after the passes; made once. Inputs with defaults are constants there, and no inputs any more.
  Result<std::shared_ptr<const Module>> optimised();
  /// The same for callers that override a default: all inputs of the module are inputs, none is a constant.
  Result<std::shared_ptr<const Module>> overridable();
  /// One of these as the GPU takes it.
  Result<std::shared_ptr<const Module>> for_gpu(bool overridable);
  const std::shared_ptr<PackCache>& packs() const { return packs_; }
  /// The weights on a device; made once a device.
  std::shared_ptr<vulkan::WeightStore> weights(const std::shared_ptr<vulkan::Device>& device);

 private:
  Result<std::shared_ptr<const Module>> passed(std::shared_ptr<Module> copy);

  std::shared_ptr<const Module> module_;
  std::shared_ptr<PackCache> packs_;
  std::mutex mutex_;
  std::shared_ptr<const Module> optimised_, overridable_, for_gpu_[2];
  std::map<std::shared_ptr<vulkan::Device>, std::shared_ptr<vulkan::WeightStore>> weights_;
};

}  // namespace smelt
