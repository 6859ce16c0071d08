// What nets of the corpus hold on a Vulkan device: their weights and little more than the activations that live at
// once.
#include <gtest/gtest.h>

#include <filesystem>

#include "backends/vulkan/record/program.h"
#include "cli/golden_case.h"
#include "runtime/compiled.h"
#include "runtime/plan.h"
#include "smelt/model.h"
#include "tests/support/paths.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

/// The model file of a case folder; empty: none.
fs::path model_of(const fs::path& folder) {
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(folder, ec))
    if (e.is_regular_file() && e.path().stem() == "model") return e.path();
  return {};
}

/// Unknown dimensions as 1.
std::vector<ValueType> input_types(const Graph& g) {
  std::vector<ValueType> types;
  for (ValueId id : g.inputs) {
    ValueType t = g.value(id).type;
    for (int i = 0; i < t.shape.rank(); ++i)
      if (t.shape[i] < 0) t.shape[i] = 1;
    types.push_back(std::move(t));
  }
  return types;
}

TEST(DeviceMemory, WeightsAndLittleMoreThanWhatLivesAtOnce) {
  const auto opened = vulkan::open_device(-1);
  if (!opened.ok()) GTEST_SKIP() << opened.error().message();
  size_t nets = 0;
  for (const char* group : {"tflite/nets", "onnx/nets", "xnnpack/seed", "pte/vulkan", "pte/xnnpack", "vulkan/seed"}) {
    std::error_code ec;
    for (const auto& e : fs::directory_iterator(corpus_folder() / group, ec)) {
      const auto model = Model::load(model_of(e.path()).string());
      if (!model.ok()) continue;
      SCOPED_TRACE(e.path().string());
      const auto module = model->compiled()->optimised();
      ASSERT_TRUE(module.ok());
      SessionOptions options;
      options.backend = BackendKind::kVulkan;
      const size_t before = vulkan::memory_held(**opened);
      PlannedEnvironment::Gpu gpu{*opened, vulkan::make_weight_store(*opened)};
      PlannedEnvironment env(*module, options, std::make_shared<PackCache>(), gpu);
      const int graph = (*module)->methods[0].graph;
      env.control.begin(options, env.size, {});
      const auto plan = env.prepare(graph, input_types((*module)->graphs[static_cast<size_t>(graph)]));
      if (!plan.ok() || !(*plan)->program()) continue;
      ++nets;
      const size_t bound = (*plan)->device_arena_lower_bound();
      EXPECT_LE(static_cast<double>((*plan)->device_arena_bytes()), 1.2 * static_cast<double>(bound));
      // Small things share blocks of a megabyte.
      const size_t constants = vulkan::weight_bytes(*gpu.weights) + (*plan)->program()->table_bytes();
      const size_t variables = vulkan::state_bytes(*env.device_states);
      EXPECT_LE(vulkan::memory_held(**opened) - before, constants + variables + bound * 6 / 5 + (size_t{2} << 20));
    }
  }
  if (fs::exists(corpus_folder() / "onnx")) {
    EXPECT_GT(nets, 20u);
  }
}

}  // namespace
}  // namespace smelt
