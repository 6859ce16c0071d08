// Programs built by hand: what the reader makes of them, and that no broken one gets through or falls over.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "formats/bundle/bundle.h"
#include "graph/graph.h"
#include "runtime/environment.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "support/program_writer.h"
#include "support/xnn_blob.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

namespace et = fb::et;

Result<Model> load(const std::vector<uint8_t>& bytes) {
  return Model::load_bytes(std::as_bytes(std::span(bytes)), nullptr, "test");
}

Tensor floats(const Shape& shape, std::vector<float> v) { return Tensor::from<float>(DType::kF32, shape, v); }

/// Runs the first method on the reference back-end.
std::vector<float> run(Session& session, std::vector<Datum> inputs) {
  auto out = session.run(inputs);
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message());
  if (!out.ok()) return {};
  std::vector<float> v(static_cast<size_t>((*out)[0].tensor.elements()));
  to_floats((*out)[0].tensor, v.data());
  return v;
}

Session session_of(const std::vector<uint8_t>& bytes) {
  auto model = load(bytes);
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message());
  SessionOptions o;
  o.backend = BackendKind::kReference;
  auto session = Session::create(*model, o);
  EXPECT_TRUE(session.ok());
  return std::move(session).value();
}

/// y = x + c, c a constant stored channels-last.
std::vector<uint8_t> add_constant() {
  ProgramWriter w;
  w.constant({1, 3, 2, 4});  // memory order of [[1, 2], [3, 4]] by columns
  const int x = w.tensor({2, 2}, 0), c = w.tensor({2, 2}, 0, et::ScalarType::FLOAT, 1, {1, 0});
  const int alpha = w.integer(1), y = w.tensor({2, 2}, 64);
  w.call("aten::add", "out", {x, c, alpha, y, y});
  return w.finish({x}, {y});
}

TEST(ExecutorchProgram, ConstantsInAnotherDimOrder) {
  auto s = session_of(add_constant());
  EXPECT_EQ(run(s, {floats({2, 2}, {0, 0, 10, 10})}), (std::vector<float>{1, 2, 13, 14}));
}

/// get_number() gives a constant; forward(x) calls a delegate that smelt lacks, or is y = x + x when `supported`.
std::vector<uint8_t> two_methods(bool supported, const char* number_op = "aten::clone") {
  ProgramWriter w;
  w.constant({42});
  const int c = w.tensor({1}, 0, et::ScalarType::FLOAT, 1), format = w.null(), y = w.tensor({1}, 64);
  w.call(number_op, "out", {c, format, y, y});
  w.end_method("get_number", {}, {y});
  const int x = w.tensor({2, 2}, 0), alpha = w.integer(1), z = w.tensor({2, 2}, 64);
  if (supported)
    w.call("aten::add", "out", {x, x, alpha, z, z});
  else
    w.delegate("QnnBackend", std::vector<uint8_t>(4), {x, z});
  return w.finish({x}, {z});
}

TEST(ExecutorchProgram, AMethodThatCannotRunLeavesTheOthers) {
  const auto bytes = two_methods(false);
  const auto model = load(bytes);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->methods(), (std::vector<std::string>{"get_number", "forward"}));
  auto s = Session::create(*model);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(run(*s, {}), (std::vector<float>{42}));
  const char* why = "test: method 'forward': instruction 0 delegate 0: no delegate 'QnnBackend'";
  const auto refused = Session::create(*model, {.method = "forward"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().message().find(why), 0u) << refused.error().message();
  const std::vector<Datum> inputs{floats({2, 2}, {1, 2, 3, 4})};
  const auto out = s->run("forward", inputs);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().message().find(why), 0u) << out.error().message();
  ASSERT_EQ(model->inputs("forward").size(), 1u);
  EXPECT_EQ(model->inputs("forward")[0].shape, (Shape{2, 2}));
  ASSERT_EQ(module_of(*model).partitions.size(), 1u);
  EXPECT_EQ(module_of(*model).partitions[0].backend, "QnnBackend");
}

TEST(ExecutorchProgram, OneMethodMustBeAbleToRun) {
  EXPECT_TRUE(load(two_methods(true)).ok());
  EXPECT_TRUE(load(two_methods(true, "aten::no_such_operator")).ok());
  const auto none = load(two_methods(false, "aten::no_such_operator"));
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message().find("method 'get_number'"), std::string::npos) << none.error().message();
}

TEST(ExecutorchProgram, TheDefaultMemoryLimitHoldsWhatTheFilePlans) {
  constexpr int64_t kPlanned = int64_t{1500} << 20;
  constexpr size_t kGigabyte = size_t{1} << 30;
  ProgramWriter w;
  const int x = w.tensor({2, 2}, 0), alpha = w.integer(1), y = w.tensor({2, 2}, 64);
  w.call("aten::add", "out", {x, x, alpha, y, y});
  const auto model = load(w.finish({x}, {y}, kPlanned));
  ASSERT_TRUE(model.ok()) << model.error().message();
  ModelSize size = size_of(module_of(*model));
  EXPECT_EQ(size.planned, static_cast<size_t>(kPlanned));
  RunControl control;
  control.begin({}, size, {});
  EXPECT_TRUE(control.check(kGigabyte + kPlanned).ok());
  EXPECT_FALSE(control.check(kGigabyte + kPlanned + 1'000'000).ok());
  control.begin({.limit_memory = 1000}, size, {});
  EXPECT_FALSE(control.check(1001).ok());
}

/// The exporter writes scalars as XNNPACK values of shape [1].
TEST(ExecutorchProgram, ScalarsOfAnXnnpackDelegate) {
  using executorch::testing::XnnBlob;
  constexpr auto kF32 = fb_xnnpack::XNNDatatype::xnn_datatype_fp32;
  XnnBlob b;
  const uint32_t in = b.input(kF32, {1}), middle = b.internal(kF32, {1}), out = b.output(kF32, {1});
  b.node(fb_xnnpack::XNodeUnion::XNNNegate, fb_xnnpack::Create_XNNNode1x1(b.fbb, in, middle));
  const std::vector<uint32_t> order{0};
  b.node(fb_xnnpack::XNodeUnion::XNNStaticTranspose,
         fb_xnnpack::CreateXNNStaticTransposeDirect(b.fbb, 1, &order, middle, out));
  const std::vector<std::byte> blob = b.finish();
  ProgramWriter w;
  const int x = w.tensor({}, 0), y = w.tensor({}, 64);
  const auto* bytes = reinterpret_cast<const uint8_t*>(blob.data());
  w.delegate("XnnpackBackend", {bytes, bytes + blob.size()}, {x, y});
  const auto program = w.finish({x}, {y});
  const auto model = load(program);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->outputs()[0].shape, Shape{});
  auto s = session_of(program);
  EXPECT_EQ(run(s, {floats({}, {3})}), (std::vector<float>{-3}));
}

TEST(ExecutorchProgram, KeepsUnknownOperatorsWhenAsked) {
  ProgramWriter w;
  const int x = w.tensor({2, 2}, 0), y = w.tensor({2, 2}, 64), z = w.tensor({2, 2}, 128);
  w.call("mine::frobnicate", "out", {x, y, y});
  w.call("aten::neg", "out", {y, z, z});
  const auto bytes = w.finish({x}, {z});
  EXPECT_NE(load(bytes).error().message().find("no operator mine::frobnicate.out"), std::string::npos);
  auto kept =
      Model::load_bytes(std::as_bytes(std::span(bytes)), nullptr, "test", "", {.tolerate = {"unknown-operator"}});
  ASSERT_TRUE(kept.ok()) << kept.error().message();
  EXPECT_EQ(module_of(*kept).graphs[0].nodes[0].origin, "mine::frobnicate.out");
}

/// y = x > 0 everywhere ? -x : x * x, as torch.cond is emitted.
std::vector<uint8_t> branches(int end = 7) {
  ProgramWriter w;
  const int x = w.tensor({2}, 0), zero = w.integer(0), test = w.tensor({2}, 16, et::ScalarType::BOOL);
  const int a = w.tensor({2}, 32), b = w.tensor({2}, 64), y = w.tensor({2}, 96), never = w.boolean(false);
  w.call("aten::gt", "Scalar_out", {x, zero, test, test});
  w.jump_false(test, 5);
  w.call("aten::neg", "out", {x, a, a});
  w.move(a, y);
  w.jump_false(never, end);
  w.call("aten::mul", "out", {x, x, b, b});
  w.move(b, y);
  return w.finish({x}, {y});
}

TEST(ExecutorchProgram, JumpsBecomeBranches) {
  auto s = session_of(branches());
  EXPECT_EQ(run(s, {floats({2}, {1, 2})}), (std::vector<float>{-1, -2}));
  EXPECT_EQ(run(s, {floats({2}, {3, -2})}), (std::vector<float>{9, 4}));
}

TEST(ExecutorchProgram, JumpPastTheEndIsAnError) {
  EXPECT_TRUE(load(branches(7)).ok());
  EXPECT_FALSE(load(branches(8)).ok());
  EXPECT_FALSE(load(branches(-1)).ok());
}

/// y doubled until the counter reaches 5. `early`: the test stands at the head, as `while` has it.
std::vector<uint8_t> loop(bool early) {
  ProgramWriter w;
  const int x = w.tensor({1}, 0), y = w.tensor({1}, 16), t = w.tensor({1}, 32);
  const int i = w.integer(0), one = w.integer(1), five = w.integer(5), test = w.boolean(false),
            never = w.boolean(false);
  const int async = w.boolean(false), alpha = w.integer(1);
  w.call("aten::copy_", "", {y, x, async, y});
  const auto body = [&] {
    w.call("aten::add", "out", {y, y, alpha, t, t});
    w.call("aten::copy_", "", {y, t, async, y});
    w.call("executorch_prim::add", "Scalar", {i, one, i});
  };
  if (early) {
    w.call("executorch_prim::lt", "Scalar", {i, five, test});
    w.jump_false(test, 7);
    body();
    w.jump_false(never, 1);
  } else {
    body();
    w.call("executorch_prim::eq", "Scalar", {i, five, test});
    w.jump_false(test, 1);
  }
  return w.finish({x}, {y});
}

TEST(ExecutorchProgram, JumpsBackBecomeLoops) {
  for (bool early : {false, true}) {
    auto s = session_of(loop(early));
    EXPECT_EQ(run(s, {floats({1}, {3})}), (std::vector<float>{96})) << early;
  }
}

/// y = `rows` rows of x from the one on whose number `at` holds: by narrow_copy(), or as PyTorch decomposes it.
std::vector<uint8_t> some_rows(int rows, bool by_narrow) {
  ProgramWriter w;
  const int x = w.tensor({5, 2}, 0), at = w.tensor({1}, 64, et::ScalarType::LONG);
  const int y = w.tensor({std::max(rows, 0), 2}, 128);
  const int first = w.integer(0), end = w.integer(0), size = w.integer(rows), dim = w.integer(0), step = w.integer(1);
  w.call("aten::_local_scalar_dense", "", {at, first});
  if (by_narrow) {
    w.call("aten::narrow_copy", "out", {x, dim, first, size, y, y});
  } else {
    w.call("executorch_prim::add", "Scalar", {first, size, end});
    w.call("aten::slice_copy", "Tensor_out", {x, dim, first, end, step, y, y});
  }
  return w.finish({x, at}, {y});
}

TEST(ExecutorchProgram, SlicesOfOneSizeHaveAShape) {
  const Tensor x = floats({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto at = [](int64_t row) { return Tensor::from<int64_t>(DType::kI64, {1}, std::vector{row}); };
  for (const bool by_narrow : {false, true}) {
    const auto model = load(some_rows(2, by_narrow));
    ASSERT_TRUE(model.ok());
    EXPECT_EQ(model->outputs()[0].shape, (Shape{2, 2}));
    auto s = session_of(some_rows(2, by_narrow));
    EXPECT_EQ(run(s, {x, at(0)}), (std::vector<float>{0, 1, 2, 3}));
    EXPECT_EQ(run(s, {x, at(3)}), (std::vector<float>{6, 7, 8, 9}));
    const auto beyond = s.run(std::vector<Datum>{x, at(4)});
    ASSERT_FALSE(beyond.ok());
    EXPECT_NE(beyond.error().message().find("begin 4 and size 2 reach beyond the extent 5"), std::string::npos);
  }
  auto none = session_of(some_rows(-1, false));
  EXPECT_EQ(run(none, {x, at(3)}), std::vector<float>{});
}

/// A buffer that is read before it is written keeps its contents: y = state + x; state = y.
std::vector<uint8_t> counter() {
  ProgramWriter w;
  const int state = w.tensor({1}, 0), x = w.tensor({1}, 16), y = w.tensor({1}, 32), alpha = w.integer(1);
  const int async = w.boolean(false);
  w.call("aten::add", "out", {state, x, alpha, y, y});
  w.call("aten::copy_", "", {state, y, async, state});
  return w.finish({x}, {y});
}

TEST(ExecutorchProgram, BuffersLiveAcrossRuns) {
  auto s = session_of(counter());
  EXPECT_EQ(run(s, {floats({1}, {2})}), (std::vector<float>{2}));
  EXPECT_EQ(run(s, {floats({1}, {3})}), (std::vector<float>{5}));
  s.reset_state();
  EXPECT_EQ(run(s, {floats({1}, {4})}), (std::vector<float>{4}));
}

/// A static reshape is no instruction: value v lies where x lies.
TEST(ExecutorchProgram, ViewsThatAreLeftOut) {
  ProgramWriter w;
  const int x = w.tensor({2, 3}, 0), v = w.tensor({3, 2}, 0), y = w.tensor({3, 2}, 64);
  w.call("aten::neg", "out", {v, y, y});
  auto s = session_of(w.finish({x}, {y}));
  EXPECT_EQ(run(s, {floats({2, 3}, {1, 2, 3, 4, 5, 6})}), (std::vector<float>{-1, -2, -3, -4, -5, -6}));
}

TEST(ExecutorchProgram, NumbersAndTextAsOutputs) {
  ProgramWriter w;
  const int n = w.integer(7), t = w.text("hello"), none = w.null();
  auto s = session_of(w.finish({}, {n, t, none}));
  auto out = s.run({});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(get_int((*out)[0].tensor, 0), 7);
  EXPECT_EQ(*(*out)[1].tensor.data<std::string>(), "hello");
  EXPECT_TRUE((*out)[2].none());
}

TEST(ExecutorchProgram, ErrorsNameTheirPlace) {
  ProgramWriter w;
  const int x = w.tensor({2}, 0), y = w.tensor({2}, 16);
  w.call("aten::no_such", "out", {x, y, y});
  const auto model = load(w.finish({x}, {y}));
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message().find("instruction 0"), std::string::npos) << model.error().message();
  EXPECT_NE(model.error().message().find("aten::no_such"), std::string::npos) << model.error().message();
}

/// Every prefix and thousands of changed copies load or fail; what loads also runs or fails.
void expect_robust(const std::vector<uint8_t>& good) {
  for (size_t n = 0; n < good.size(); ++n)
    (void)load(std::vector<uint8_t>(good.begin(), good.begin() + static_cast<ptrdiff_t>(n)));
  std::mt19937 random(7);
  for (int k = 0; k < 3000; ++k) {
    auto bad = good;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
      const uint8_t values[] = {0, 0xff, 0x7f, 0x80, static_cast<uint8_t>(random())};
      bad[random() % bad.size()] = values[random() % 5];
    }
    auto model = load(bad);
    if (!model.ok()) continue;
    SessionOptions o;
    o.backend = BackendKind::kReference;
    o.limit_steps = 2000;
    o.limit_memory = 1 << 24;
    auto session = Session::create(*model, o);
    if (!session.ok()) continue;
    std::vector<Datum> inputs;
    for (const Port& p : model->inputs()) {
      const auto n = p.shape.checked_elements();
      if (p.is_tensor && p.dtype != DType::kInvalid && n.ok() && *n < 4096)
        inputs.emplace_back(Tensor(p.dtype, p.shape));
      else
        inputs.emplace_back();
    }
    (void)session->run(inputs);
  }
}

TEST(ExecutorchProgram, PartsAddUpToTheFile) {
  const auto bytes = add_constant();
  const auto model = load(bytes);
  ASSERT_TRUE(model.ok());
  uint64_t total = 0;
  for (const FilePart& p : module_of(*model).parts) total += p.bytes;
  EXPECT_EQ(total, bytes.size());
  EXPECT_EQ(module_of(*model).methods[0].planned, std::vector<uint64_t>{4096});
}

TEST(ExecutorchProgram, StaticShapesAreDemands) {
  Session session = session_of(add_constant());
  EXPECT_NE(session.run(std::vector<Datum>{floats({3, 2}, {1, 2, 3, 4, 5, 6})})
                .error()
                .message()
                .find("the model takes [2,2]"),
            std::string::npos);
}

TEST(ExecutorchProgram, BrokenProgramsAreErrors) {
  for (const auto& good : {add_constant(), branches(), loop(false), loop(true), counter()}) expect_robust(good);
}

bundle::Bundle bundled(const std::vector<uint8_t>& program, bundle::Version version) {
  bundle::Bundle b;
  b.version = version;
  b.program = std::as_bytes(std::span(program));
  bundle::MethodTests tests;
  tests.method = "forward";
  using Kind = bundle::TestValue::Kind;
  tests.sets.push_back(
      {{{Kind::kTensor, Datum(floats({2, 2}, {1, 2, 3, 4}))}}, {{Kind::kTensor, Datum(floats({}, {5}))}}});
  tests.sets.push_back({{{Kind::kInt, Datum(Tensor::from<int64_t>(DType::kI64, {}, std::vector<int64_t>{-3}))}}, {}});
  b.tests.push_back(std::move(tests));
  return b;
}

TEST(Bundle, WrittenAndReadBack) {
  const auto program = add_constant();
  for (const auto version : {bundle::Version::kBp04, bundle::Version::kBp08}) {
    const auto bytes = bundle::write(bundled(program, version), 1);
    ASSERT_TRUE(bytes.ok());
    const auto back = bundle::read(std::as_bytes(std::span(*bytes)), nullptr);
    ASSERT_TRUE(back.ok()) << back.error().message();
    EXPECT_EQ(back->version, version);
    ASSERT_EQ(back->program.size(), program.size());
    EXPECT_EQ(std::memcmp(back->program.data(), program.data(), program.size()), 0);
    const size_t alignment = version == bundle::Version::kBp04 ? 16 : 32;
    EXPECT_EQ((reinterpret_cast<const uint8_t*>(back->program.data()) - bytes->data()) % alignment, 0);
    ASSERT_EQ(back->tests.size(), 1u);
    ASSERT_EQ(back->tests[0].sets.size(), 2u);
    EXPECT_EQ(get_double(back->tests[0].sets[0].inputs[0].datum.tensor, 3), 4);
    EXPECT_EQ(back->tests[0].sets[0].expected[0].datum.tensor.rank(), 0);
    EXPECT_EQ(get_int(back->tests[0].sets[1].inputs[0].datum.tensor, 0), -3);
    EXPECT_TRUE(load(*bytes).ok());
  }
}

TEST(Bundle, KindsOfTheMethodsValues) {
  ProgramWriter w;
  const int x = w.tensor({2}, 0), n = w.integer(3), none = w.null();
  const auto program = w.finish({x, n, none}, {x, n});
  const auto kinds = bundle::method_kinds(std::as_bytes(std::span(program)), 0);
  ASSERT_TRUE(kinds.ok());
  using Kind = bundle::TestValue::Kind;
  EXPECT_EQ(kinds->inputs, (std::vector<Kind>{Kind::kTensor, Kind::kInt, Kind::kNone}));
  EXPECT_EQ(kinds->outputs, (std::vector<Kind>{Kind::kTensor, Kind::kInt}));
  EXPECT_FALSE(bundle::method_kinds(std::as_bytes(std::span(program)), 1).ok());
}

TEST(Bundle, BrokenBundlesAreErrors) {
  for (const auto version : {bundle::Version::kBp04, bundle::Version::kBp08}) {
    const auto bytes = bundle::write(bundled(add_constant(), version), 1);
    ASSERT_TRUE(bytes.ok());
    expect_robust(*bytes);
  }
}

}  // namespace
}  // namespace smelt
