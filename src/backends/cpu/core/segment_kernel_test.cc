// Weights that the first run packs for itself, and the second one for good.
#include "backends/cpu/core/segment_kernel.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <variant>
#include <vector>

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "runtime/compiled.h"
#include "runtime/planned_environment.h"
#include "tests/support/op_case.h"
#include "tests/support/tested_levels.h"

namespace smelt {
namespace {
using namespace smelt::test;

constexpr int64_t kChannels = 160;  ///< a matrix of so many rows and columns of floats is a large constant

const Shape kImage{1, 40, 40, kChannels};

/// Where the filters of the depthwise convolution come from.
enum class Filters : uint8_t {
  kConstant,
  kPlanned,  ///< computed from a constant as the plan is made
};

/// A 3x3 convolution; one of 1x1 filters, a depthwise and one more of 1x1 filters, which run by bands of rows; an
/// addition behind; a product of its own rows and of a constant.
std::shared_ptr<const Module> module_of_convolutions(Filters depthwise) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId image = b.input("image", ValueType::tensor(DType::kF32, kImage));
  ValueId x = image;
  struct Layer {
    int64_t kernel, inputs, outputs, groups;
  };
  for (const auto& [kernel, inputs, outputs, groups] : {Layer{3, kChannels, kChannels, 1},
                                                        {1, kChannels, 2 * kChannels, 1},
                                                        {3, 2 * kChannels, 2 * kChannels, 2 * kChannels},
                                                        {1, 2 * kChannels, kChannels, 1}}) {
    ConvAttrs a;
    a.strides = {1, 1};
    a.dilations = {1, 1};
    a.pads = std::vector<int64_t>(4, kernel / 2);
    a.layout = Layout::kChannelsLast;
    a.filter = FilterLayout::kOSI;
    a.groups = groups;
    const Shape shape{outputs, kernel, kernel, inputs / groups};
    const std::string name = Cat(kernel, "x", kernel, "x", inputs, "x", outputs, "/", groups);
    ValueId filter = b.constant("filter " + name, random_tensor(DType::kF32, shape, -1, 1, 2));
    if (groups > 1 && depthwise == Filters::kPlanned)
      filter = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {filter}).value();
    const ValueId bias = b.constant("bias " + name, random_tensor(DType::kF32, {outputs}, -1, 1, 3));
    x = b.op(Op::kConv, make_attrs<ConvAttrs>(a), {x, filter, bias}).value();
  }
  x = b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, image}).value();
  const Shape weights{kChannels, kChannels};
  x = b.op(Op::kMatMul, make_attrs<MatMulAttrs>(),
           {x, b.constant("weights", random_tensor(DType::kF32, weights, -1, 1, 4))})
          .value();
  b.graph().outputs = {x};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

/// A session on the CPU, and what it holds.
class Runs {
 public:
  explicit Runs(Isa isa, int threads = 1, Filters depthwise = Filters::kConstant)
      : module_(module_of_convolutions(depthwise)),
        options_{.threads = threads, .isa = to_string(isa)},
        models_(Compiled(module_).models(open_backends(options_).value())) {
    add_session();
  }
  void add_session() { env_ = std::make_unique<PlannedEnvironment>(module_, options_, models_); }
  PlannedEnvironment& env() { return *env_; }
  const std::vector<Datum>& inputs() const { return inputs_; }
  void prepare() {
    env_->control.begin(options_, env_->size, inputs_);
    EXPECT_TRUE(env_->plan_for(0, inputs_, GraphRole::kEntry, ContentUse::kTypesOnly).ok());
  }
  Tensor run() {
    std::vector<Datum> out;
    env_->control.begin(options_, env_->size, inputs_);
    const Status s = env_->run(0, inputs_, {}, out);
    EXPECT_TRUE(s.ok()) << s.error().message();
    return s.ok() ? out[0].tensor.clone() : Tensor();
  }
  size_t packed() const {
    size_t bytes = 0;
    for (const auto& model : models_) bytes += model->weight_bytes();
    return bytes;
  }

 private:
  std::shared_ptr<const Module> module_;
  SessionOptions options_;
  std::vector<std::shared_ptr<BackendModel>> models_;
  std::unique_ptr<PlannedEnvironment> env_;
  std::vector<Datum> inputs_{random_tensor(DType::kF32, kImage, -1, 1, 1)};
};

constexpr size_t kWeights = size_t{11} * kChannels * kChannels * sizeof(float);

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

TEST(LatePacking, EveryRunGivesTheSameBits) {
  for (const Isa isa : best_level_only() ? tested_isas() : named_isas())
    for (const int threads : {1, 3}) {
      if (threads > 1 && isa != best_isa()) continue;
      SCOPED_TRACE(Cat(to_string(isa), ", threads ", threads));
      Runs runs(isa, threads), at_once(isa, threads);
      at_once.prepare();
      const Tensor expected = at_once.run();
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(runs.run(), expected)) << "run " << i;
    }
}

TEST(LatePacking, TheFirstRunBorrowsWhatNoValueHas) {
  Runs runs(best_isa());
  runs.env().control.begin({}, runs.env().size, runs.inputs());
  Plan* const plan = runs.env().plan_for(0, runs.inputs(), GraphRole::kEntry, ContentUse::kRead).value();
  const PlanParts& parts = plan->parts();
  ASSERT_FALSE(parts.lent.empty());
  for (const auto& [segment, memory] : parts.lent) {
    ASSERT_FALSE(memory.empty());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
    EXPECT_GE(memory.data(), parts.arena->data());
    EXPECT_LE(memory.data() + memory.size(), parts.arena->data() + parts.arena_bytes);
    for (const Step& step : parts.steps) {
      const auto* const work = std::get_if<SegmentStep>(&step.work);
      if (!work || work->segment.get() != segment) continue;
      for (const auto& ids : {step.in, step.out})
        for (const ValueId id : ids) {
          const Tensor& value = parts.values[static_cast<size_t>(id)].tensor;
          const auto* const bytes = static_cast<const std::byte*>(value.raw());
          EXPECT_TRUE(bytes + value.bytes() <= memory.data() || memory.data() + memory.size() <= bytes) << id;
        }
    }
  }
  runs.run();
  EXPECT_TRUE(parts.lent.empty());
}

TEST(LatePacking, TheSecondRunKeepsWhatItPacks) {
  Runs runs(best_isa());
  runs.run();
  EXPECT_LT(runs.packed(), kLargeConstant);
  runs.run();
  const size_t packed = runs.packed();
  EXPECT_GE(packed, kWeights);
  runs.run();
  EXPECT_EQ(runs.packed(), packed);
}

TEST(LatePacking, APlanThatIsAskedForIsPackedAtOnce) {
  Runs runs(best_isa());
  runs.prepare();
  EXPECT_GE(runs.packed(), kWeights);
}

TEST(LatePacking, ASessionTakesWhatAnotherHasPacked) {
  Runs runs(best_isa());
  runs.run();
  const Tensor expected = runs.run();
  const size_t packed = runs.packed();
  runs.add_session();
  EXPECT_TRUE(same_bits(runs.run(), expected));
  EXPECT_EQ(runs.packed(), packed);
}

TEST(LatePacking, WhatAPlanComputesStaysWithIt) {
  for (const Isa isa : tested_isas()) {
    SCOPED_TRACE(to_string(isa));
    Runs runs(isa, 1, Filters::kPlanned), at_once(isa, 1, Filters::kPlanned);
    at_once.prepare();
    const Tensor expected = at_once.run();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(runs.run(), expected)) << "run " << i;
    EXPECT_EQ(runs.packed(), at_once.packed());
  }
}

/// Ends a run at a node.
struct Stop final : ValueTap {
  explicit Stop(Op op) : at(op) {}
  Status made(const Node& node, ValueId /*id*/, Datum& /*value*/, bool /*shared*/) override {
    return node.op == at ? Error(ErrorCode::kCancelled, "stopped") : Ok();
  }
  Op at;
};

TEST(LatePacking, AFirstRunMayEndEarly) {
  Runs runs(best_isa());
  Stop stop(Op::kConv);
  runs.env().tap = &stop;
  std::vector<Datum> out;
  runs.env().control.begin({}, runs.env().size, runs.inputs());
  EXPECT_EQ(runs.env().run(0, runs.inputs(), {}, out).error().code(), ErrorCode::kCancelled);
  runs.env().tap = nullptr;
  const Tensor second = runs.run(), third = runs.run();
  EXPECT_TRUE(same_bits(second, third));
  EXPECT_GE(runs.packed(), kWeights);
}

}  // namespace
}  // namespace smelt
