#pragma once

#include <memory>
#include <mutex>

#include "cpu/pack_cache.h"
#include "graph/graph.h"

namespace smelt {

/// What sessions of one model share: the optimised graph and the packed weights.
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<const Module> module)
      : module_(std::move(module)), packs_(std::make_shared<PackCache>()) {}
  /// The module after the passes; made once.
  Result<std::shared_ptr<const Module>> optimised();
  const std::shared_ptr<PackCache>& packs() const { return packs_; }

 private:
  std::shared_ptr<const Module> module_;
  std::shared_ptr<PackCache> packs_;
  std::mutex mutex_;
  std::shared_ptr<const Module> optimised_;
};

}  // namespace smelt
