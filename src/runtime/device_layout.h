#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/record/program.h"
#include "runtime/plan.h"

namespace smelt {

/// A value as the device's part of a plan sees it.
struct DeviceValue {
  ValueType type;
  const Tensor* content = nullptr;  ///< known while planning
  bool lasting = false;             ///< the content lives as long as the model
  bool on_device = false;           ///< made there
  int state = -1;                   ///< the variable whose memory there it is
};

/// The device's part of a plan: segments, lifetimes, the arena.
struct DeviceLayout {
  std::unique_ptr<vulkan::Program> program;  ///< null: nothing runs on the device, or `gpu.weights` is null
  size_t arena_bytes = 0, arena_lower_bound = 0;
  Copies copies;
  /// Values that the host reads after their segment ran, and where.
  struct View {
    ValueId id;
    void* data;
  };
  std::vector<View> views;
};

/// Numbers the segments of the steps of kind kDevice, lays out their values and records their commands. `kernels` is
/// aligned with `steps`, `values` with the graph's values.
Result<DeviceLayout> lay_out_device(const Graph& graph, std::span<Step> steps,
                                    std::span<const std::unique_ptr<vulkan::Kernel>> kernels,
                                    std::span<const DeviceValue> values, PlannedEnvironment& env);

}  // namespace smelt
