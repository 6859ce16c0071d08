// What nets of the corpus hold on a Vulkan device: their weights and little more than the activations that live at
// once.
#include <gtest/gtest.h>

#include <filesystem>

#include "backends/vulkan/device/backend.h"
#include "cli/golden_case.h"
#include "runtime/compiled.h"
#include "runtime/model_access.h"
#include "runtime/planned_environment.h"
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
      const auto module = ModelAccess::compiled(*model)->module(InputDefaults::kConstant, {});
      ASSERT_TRUE(module.ok());
      SessionOptions options;
      options.backend = BackendKind::kVulkan;
      const size_t before = vulkan::memory_held(**opened);
      const auto backends = open_backends(options);
      ASSERT_TRUE(backends.ok());
      PlannedEnvironment env(*module, options, Compiled(*module).models(*backends));
      const int graph = (*module)->methods[0].graph;
      env.control.begin(options, env.size, {});
      const auto plan = env.prepare(graph, input_types((*module)->graphs[static_cast<size_t>(graph)]));
      if (!plan.ok() || (*plan)->device().arena_bytes == 0) continue;
      ++nets;
      const DeviceUse& use = (*plan)->device();
      const size_t bound = use.arena_lower_bound;
      EXPECT_LE(static_cast<double>(use.arena_bytes), 1.2 * static_cast<double>(bound));
      // Small things share blocks of a megabyte.
      const size_t constants = env.models().front()->weight_bytes() + use.constant_bytes;
      const size_t variables = env.device()->state_bytes();
      EXPECT_LE(vulkan::memory_held(**opened) - before, constants + variables + bound * 6 / 5 + (size_t{2} << 20));
    }
  }
  if (fs::exists(corpus_folder() / "onnx")) {
    EXPECT_GT(nets, 20u);
  }
}

}  // namespace
}  // namespace smelt
