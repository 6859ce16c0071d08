// Resource variables: their shapes follow from the values assigned to them.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "support/tflite_test_model.h"

namespace smelt::tflite {
namespace {

using Op = tfl::BuiltinOperator;
using tfl::TensorType;

/// Models of variables of float rows of 3.
class VariableModel {
 public:
  int rows(int32_t n, const std::vector<float>& values = {}) { return m_.tensor({.shape = {n, 3}, .values = values}); }
  int handle(const std::string& name) {
    const int h = m_.tensor({.shape = {}, .type = TensorType::RESOURCE});
    auto& fbb = m_.fbb();
    m_.op(Op::VAR_HANDLE, {}, {h}, tfl::CreateVarHandleOptions(fbb, 0, fbb.CreateString(name)));
    return h;
  }
  int read(const std::string& name, int32_t declared_rows = 1) {
    const int h = handle(name), y = rows(declared_rows);
    m_.op(Op::READ_VARIABLE, {h}, {y}, tfl::CreateReadVariableOptions(m_.fbb()));
    return y;
  }
  void assign(const std::string& name, int value) {
    m_.op(Op::ASSIGN_VARIABLE, {handle(name), value}, {}, tfl::CreateAssignVariableOptions(m_.fbb()));
  }
  void call_once(int subgraph) { m_.op(Op::CALL_ONCE, {}, {}, tfl::CreateCallOnceOptions(m_.fbb(), subgraph)); }
  int concat(int a, int b) {
    const int y = rows(1);
    m_.op(Op::CONCATENATION, {a, b}, {y}, tfl::CreateConcatenationOptions(m_.fbb(), 0));
    return y;
  }
  int abs(int x) {
    const int y = rows(1);
    m_.op(Op::ABS, {x}, {y});
    return y;
  }
  int add(int a, int b) {
    const int y = rows(1);
    m_.op(Op::ADD, {a, b}, {y}, tfl::CreateAddOptions(m_.fbb()));
    return y;
  }
  void end(const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
    m_.end_subgraph(inputs, outputs);
  }
  Model load() {
    file_ = m_.finish();
    auto model = Model::load_bytes(std::as_bytes(std::span(file_)), nullptr, "test");
    EXPECT_TRUE(model.ok()) << model.error().message();
    return std::move(model).value();
  }

 private:
  TestModel m_;
  std::string file_;
};

ValueType output_type(const Model& model, size_t graph = 0) {
  const Graph& g = module_of(model).graphs[graph];
  return g.value(g.outputs[0]).type;
}

Session session_of(const Model& model, BackendKind backend) {
  SessionOptions options;
  options.backend = backend;
  auto session = Session::create(model, options);
  EXPECT_TRUE(session.ok());
  return std::move(session).value();
}

Datum rows_of(int64_t n, float value) {
  const std::vector<float> values(static_cast<size_t>(3 * n), value);
  return Tensor::from<float>(DType::kF32, Shape{n, 3}, std::span<const float>(values));
}

class TfliteVariables : public testing::TestWithParam<BackendKind> {};

TEST_P(TfliteVariables, ShapeOfTheInitialiser) {
  VariableModel m;
  const int x = m.rows(2);
  m.call_once(1);
  const int y = m.add(m.read("total"), x);
  m.assign("total", y);
  m.end({x}, {y});
  m.assign("total", m.rows(2, {1, 1, 1, 2, 2, 2}));
  m.end({}, {});
  const Model model = m.load();
  EXPECT_EQ(output_type(model).shape, (Shape{2, 3}));
  Session session = session_of(model, GetParam());
  for (const float want : {11.f, 21.f}) {
    const auto out = session.run(std::vector<Datum>{rows_of(2, 10)});
    ASSERT_TRUE(out.ok()) << out.error().message();
    EXPECT_EQ(out->front().tensor.data<float>()[0], want);
    EXPECT_EQ(out->front().tensor.data<float>()[5], want + 1);
  }
}

TEST_P(TfliteVariables, ReadBeforeTheAssignmentIsMet) {
  VariableModel m;
  const int y = m.abs(m.read("v"));
  m.end({}, {y});
  const int x = m.rows(4);
  m.assign("v", x);
  const int z = m.abs(x);
  m.end({x}, {z});
  const Model model = m.load();
  EXPECT_EQ(output_type(model).shape, (Shape{4, 3}));
  Session session = session_of(model, GetParam());
  const auto out = session.run(std::vector<Datum>{});
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().message().find("read before it was assigned"), std::string::npos) << out.error().message();
}

/// A variable that grows has no shape, and one whose assigned value follows from it neither.
TEST_P(TfliteVariables, ShapesThatDiffer) {
  VariableModel m;
  const int x = m.rows(1);
  m.call_once(1);
  const int both = m.concat(m.read("grows"), x);
  m.assign("grows", both);
  m.assign("follows", both);
  const int y = m.abs(m.read("follows"));
  m.end({x}, {y});
  m.assign("grows", m.rows(1, {0, 0, 0}));
  m.assign("follows", m.rows(2, {0, 0, 0, 0, 0, 0}));
  m.end({}, {});
  const Model model = m.load();
  EXPECT_FALSE(output_type(model).is_static());
  Session session = session_of(model, GetParam());
  for (int64_t run = 1; run < 4; ++run) {
    const auto out = session.run(std::vector<Datum>{rows_of(1, 5)});
    ASSERT_TRUE(out.ok()) << out.error().message();
    EXPECT_EQ(out->front().tensor.shape(), (Shape{run + 1, 3}));
    EXPECT_EQ(out->front().tensor.data<float>()[3 * run], 5);
  }
}

/// A caller's shapes replace those of the file, but not that of a variable.
TEST_P(TfliteVariables, ResizedInputIsAssigned) {
  VariableModel m;
  const int x = m.rows(1);
  m.call_once(1);
  const int y = m.abs(m.read("v"));
  m.assign("v", x);
  m.end({x}, {y});
  m.assign("v", m.rows(1, {1, 2, 3}));
  m.end({}, {});
  const Model model = m.load();
  Session session = session_of(model, GetParam());
  ASSERT_TRUE(session.run(std::vector<Datum>{rows_of(2, 7)}).ok());
  const auto out = session.run(std::vector<Datum>{rows_of(2, 7)});
  if (GetParam() == BackendKind::kReference) {
    ASSERT_TRUE(out.ok()) << out.error().message();
    EXPECT_EQ(out->front().tensor.shape(), (Shape{2, 3}));
  } else {
    ASSERT_FALSE(out.ok());
    EXPECT_NE(out.error().message().find("the variable has shape [2,3]"), std::string::npos) << out.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TfliteVariables, testing::Values(BackendKind::kReference, BackendKind::kCpu));

}  // namespace
}  // namespace smelt::tflite
