// Weights that the first run packs for itself, and the second one for good.
#include "backends/cpu/core/segment_kernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
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

/// A 3x3 convolution, one of 1x1 filters that reads it, an addition behind, and a product of its own rows and of a
/// constant.
std::shared_ptr<const Module> module_of_convolutions() {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId image = b.input("image", ValueType::tensor(DType::kF32, kImage));
  ValueId x = image;
  for (const int64_t kernel : {3, 1}) {
    ConvAttrs a;
    a.strides = {1, 1};
    a.dilations = {1, 1};
    a.pads = std::vector<int64_t>(4, kernel / 2);
    a.layout = Layout::kChannelsLast;
    a.filter = FilterLayout::kOSI;
    const Shape filter{kChannels, kernel, kernel, kChannels};
    x = b.op(Op::kConv, make_attrs<ConvAttrs>(a),
             {x, b.constant(Cat("filter", kernel), random_tensor(DType::kF32, filter, -1, 1, 2)),
              b.constant(Cat("bias", kernel), random_tensor(DType::kF32, {kChannels}, -1, 1, 3))})
            .value();
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
  explicit Runs(Isa isa, int threads = 1)
      : module_(module_of_convolutions()),
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
