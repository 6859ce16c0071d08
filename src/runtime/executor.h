#pragma once

#include "runtime/environment.h"

namespace smelt {

/// Runs graphs node by node with the reference kernels, allocating as it goes: the obvious way, which the planned way
/// (plan.h) is tested against.
class Executor final : public Environment {
 public:
  using Environment::Environment;
  Result<std::vector<Datum>> call(int graph, std::span<const Datum> inputs, int depth) override;
};

}  // namespace smelt
