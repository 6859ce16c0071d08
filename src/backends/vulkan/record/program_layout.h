#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/vulkan/layout/program_node.h"
#include "backends/vulkan/record/program.h"

namespace smelt::vulkan {

/// What the programs of one session have in common.
struct ProgramOptions {
  std::shared_ptr<Device> device;
  std::shared_ptr<WeightStore> weights;  ///< null: programs are laid out, never recorded
  std::shared_ptr<StateStore> states;
  DeviceStorage storage = DeviceStorage::kAuto;
  bool fp16 = false;
  bool profile = false;  ///< timestamps between nodes
  int threads = 1;       ///< that make pipelines
};

struct ProgramLayout {
  std::unique_ptr<Program> program;  ///< null without weights
  std::vector<CompiledPlan::HostView> views;
  DeviceUse use;
};

/// Lays out the values of the plan's partitions in one arena and records their commands, one segment a partition.
/// `nodes` is aligned with plan.nodes. An error where `check_memory` refuses the arena's bytes.
Result<ProgramLayout> lay_out_program(const PlanOutline& plan, std::span<const ProgramNode> nodes,
                                      const ProgramOptions& options,
                                      const std::function<Status(size_t bytes)>& check_memory);

}  // namespace smelt::vulkan
