// A planned run allocates nothing with operator new. Where something does allocate, memory may run out.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/detection/detection.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/softmax/softmax.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/allocations.h"
#include "tests/support/backends.h"
#include "tests/support/op_case.h"
#include "tests/support/paths.h"

namespace smelt {
namespace {

/// A product and an activation behind a variable that is added to.
Model model_with_state() {
  auto module = std::make_shared<Module>();
  const ValueType type = ValueType::tensor(DType::kF32, Shape{16, 16});
  module->states.push_back({.name = "total", .type = type});
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId x = b.input("x", type);
  const std::vector<float> weights(256, 0.25f);
  const ValueId w = b.constant("w", Tensor::from<float>(DType::kF32, Shape{16, 16}, weights));
  const ValueId old = b.op(Op::kStateRead, make_attrs<StateAttrs>(0), {}).value();
  const ValueId sum = b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {old, x}).value();
  EXPECT_TRUE(b.node_to(Op::kStateWrite, make_attrs<StateAttrs>(0), {sum}, {}).ok());
  const ValueId y = b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {sum, w}).value();
  b.graph().outputs.push_back(b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {y}).value());
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

/// A selection of boxes, whose number depends on data.
Model model_of_boxes(const ValueType& boxes, const ValueType& scores) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const std::vector<ValueId> in{b.input("boxes", boxes), b.input("scores", scores),
                                b.constant("most", test::tensor(DType::kI64, {}, {5})),
                                b.constant("overlap", test::floats({}, {0.5}))};
  b.graph().outputs.push_back(b.op(Op::kNonMaxSuppression, make_attrs<NmsAttrs>(), in).value());
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

void check_allocates_nothing(BackendKind backend, const Model& model, const std::vector<Datum>& inputs) {
  SessionOptions options;
  options.backend = backend;
  auto session = Session::create(model, options);
  ASSERT_TRUE(session.ok());
  Allocations::counted = 0;
  Allocations::counting = true;
  bool ok = session->run_in_place(inputs).ok();
  Allocations::counting = false;
  EXPECT_GT(Allocations::counted, 0) << "the first run makes a plan";
  ok = ok && session->run_in_place(inputs).ok();
  Allocations::counted = 0;
  Allocations::counting = true;
  for (int i = 0; i < 5; ++i) ok = ok && session->run_in_place(inputs).ok();
  Allocations::counting = false;
  EXPECT_TRUE(ok);
  EXPECT_EQ(Allocations::counted, 0);
}

void check_state_allocates_nothing(BackendKind backend) {
  const std::vector<float> values(256, 0.5f);
  check_allocates_nothing(backend, model_with_state(), {Tensor::from<float>(DType::kF32, Shape{16, 16}, values)});
}

TEST(Allocation, ARunOnTheCpuAllocatesNothing) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  check_state_allocates_nothing(BackendKind::kCpu);
}

TEST(Allocation, ASelectionWithinLimitsAllocatesNothing) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  const ValueType boxes = ValueType::tensor(DType::kF32, Shape{1, 40, 4});
  const ValueType scores = ValueType::tensor(DType::kF32, Shape{1, 3, 40});
  check_allocates_nothing(BackendKind::kCpu, model_of_boxes(boxes, scores),
                          {test::random_tensor(DType::kF32, boxes.shape, 0, 1, 1),
                           test::random_tensor(DType::kF32, scores.shape, 0, 1, 2)});
}

/// Boxes that are decoded and selected, each class by itself or not.
Model model_of_detections(const ValueType& boxes, const ValueType& scores, bool regular) {
  DetectionAttrs a;
  a.classes = scores.shape[2];
  a.regular_nms = regular;
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId anchors =
      b.constant("anchors", test::random_tensor(DType::kF32, Shape{boxes.shape[1], 4}, 0.2, 0.8, 3));
  const std::vector<ValueId> in{b.input("boxes", boxes), b.input("scores", scores), anchors};
  const auto made = b.node(Op::kDetectionPostprocess, make_attrs<DetectionAttrs>(a), in, 4);
  EXPECT_TRUE(made.ok());
  b.graph().outputs = *made;
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

TEST(Allocation, DetectionsAllocateNothing) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  const ValueType boxes = ValueType::tensor(DType::kF32, Shape{1, 40, 4});
  const ValueType scores = ValueType::tensor(DType::kF32, Shape{1, 40, 3});
  for (const bool regular : {false, true})
    check_allocates_nothing(BackendKind::kCpu, model_of_detections(boxes, scores, regular),
                            {test::random_tensor(DType::kF32, boxes.shape, 0, 1, 1),
                             test::random_tensor(DType::kF32, scores.shape, 0, 1, 2)});
}

/// From the file to the second run. Allocations::left counts down meanwhile.
Status load_and_run(const std::string& path, BackendKind backend) {
  SMELT_ASSIGN(const Model model, Model::load(path));
  SMELT_ASSIGN(Session session, Session::create(model, {.backend = backend}));
  const int before = std::exchange(Allocations::left, -1);
  const std::vector<Datum> inputs{Tensor(model.inputs()[0].dtype, model.inputs()[0].shape)};
  Allocations::left = before;
  SMELT_TRY(session.prepare(inputs));
  SMELT_TRY(session.run(inputs));
  session.reset_state();
  Status again = session.run(inputs).ok() ? Ok() : Status(Error(ErrorCode::kLimit, ""));
  Allocations::left = -1;
  // What failed is made up for.
  EXPECT_TRUE(again.ok() || session.run(inputs).ok());
  return again;
}

TEST(Allocation, MemoryMayRunOutAnywhere) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  for (const char* name : {"digits.tflite", "digits_int8.tflite", "digits.onnx", "digits_qdq.onnx",
                           "digits_portable.pte", "digits_xnnpack.pte", "digits_vulkan.pte"})
    for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
      const std::string path = (source_folder() / "examples/digits" / name).string();
      const Status whole = load_and_run(path, backend);
      ASSERT_TRUE(whole.ok()) << whole.error().message();
      bool through = false;
      // Every allocation up to some, then ever fewer of them.
      for (int n = 0; n < 1'000'000; n += 1 + n / 64) {
        Allocations::left = n;
        const Status s = load_and_run(path, backend);
        Allocations::left = -1;
        through = s.ok();
        if (through) break;
        ASSERT_EQ(s.error().code(), ErrorCode::kLimit) << path << " after " << n << ": " << s.error().message();
      }
      EXPECT_TRUE(through) << path;
    }
}

/// tanh(-x). `branch`: -x is made by the body of an If, so that shapes become known as it runs.
Model model_of_rows(bool branch) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(2);
  module->methods.push_back({"main", 0});
  const ValueType rows = ValueType::tensor(DType::kF32, Shape{-1, 16});
  Builder body(*module, 1);
  body.graph().outputs = {body.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {body.input("x", rows)}).value()};
  Builder b(*module, 0);
  const ValueId x = b.input("x", rows);
  const ValueId choice = b.input("choice", ValueType::tensor(DType::kBool, Shape{}));
  IfAttrs branches;
  branches.then_graph = branches.else_graph = 1;
  const ValueId y = branch ? b.op(Op::kIf, make_attrs<IfAttrs>(branches), {choice, x}).value()
                           : b.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x}).value();
  b.graph().outputs = {b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {y}).value()};
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

/// Plans and kernels are for the shapes of the run, also after one that failed.
class AllocationTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Branch, AllocationTest, ::testing::Bool());
TEST_P(AllocationTest, MemoryMayRunOutWhereShapesChange) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  const Model model = model_of_rows(GetParam());
  const auto inputs = [](int64_t rows) {
    return std::vector<Datum>{test::random_tensor(DType::kF32, {rows, 16}, -1, 1, 1), Tensor(DType::kBool, Shape{})};
  };
  const auto run = [](Session& session, const std::vector<Datum>& in) {
    const auto out = session.run(in);
    if (!out.ok()) return std::vector<float>();
    const Tensor& y = (*out)[0].tensor;
    return std::vector<float>(y.data<float>(), y.data<float>() + y.elements());
  };
  // The third one would get the plan of the second one, which grows.
  const std::vector<std::vector<int64_t>> sequences{{3, 40}, {40, 3}, {100, 101, 102}};
  for (const std::vector<int64_t>& rows : sequences) {
    auto fresh = Session::create(model);
    ASSERT_TRUE(fresh.ok());
    const std::vector<Datum> last = inputs(rows.back());
    const std::vector<float> want = run(*fresh, last);
    bool through = false;
    for (int n = 0; n < 10'000 && !through; ++n) {
      auto session = Session::create(model);
      ASSERT_TRUE(session.ok());
      for (size_t i = 0; i + 1 < rows.size(); ++i) ASSERT_FALSE(run(*session, inputs(rows[i])).empty());
      Allocations::left = n;
      through = session->run(last).ok();
      Allocations::left = -1;
      EXPECT_EQ(run(*session, last), want) << rows[0] << " rows, then others; after " << n << " allocations";
    }
    EXPECT_TRUE(through);
  }
}

TEST(Allocation, ARunOnTheDeviceAllocatesNothing) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  SMELT_SKIP_WITHOUT(BackendKind::kVulkan);
  check_state_allocates_nothing(BackendKind::kVulkan);
}

}  // namespace
}  // namespace smelt
