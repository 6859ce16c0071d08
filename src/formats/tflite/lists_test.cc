// Tensor lists of TensorFlow in a loop, as Keras' recurrent layers have them.
#include <gtest/gtest.h>

#include "smelt/model.h"
#include "support/tflite_test_model.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;
constexpr auto kInt = tfl::TensorType::INT32;

std::vector<uint8_t> int32_bytes(const std::vector<int32_t>& v) {
  std::vector<uint8_t> out(v.size() * 4);
  std::memcpy(out.data(), v.data(), out.size());
  return out;
}

/// y = the elements of 2 x, one after the other, for x [3, 2]: a loop reads one list and writes another, whose elements
/// have the shape [`width`] as far as the file knows.
std::string doubling_loop(int32_t width) {
  TestModel m;
  const auto number = [&](int32_t v) { return m.tensor({{}, kInt, {}, int32_bytes({v})}); };
  const auto element_shape = [&] { return m.tensor({{1}, kInt, {}, int32_bytes({width})}); };
  const std::vector<TestModel::TensorSpec> state{
      {{}, kInt}, {.shape = {2}, .list = true}, {.shape = {width}, .list = true}};
  {
    const int x = m.tensor({{3, 2}}), zero = number(0), three = number(3), shape = element_shape();
    std::vector<int32_t> before{zero}, after;
    for (int i = 1; i < 3; ++i) before.push_back(m.tensor(state[static_cast<size_t>(i)]));
    for (const auto& s : state) after.push_back(m.tensor(s));
    const int y = m.tensor({{3, 2}});
    m.custom("FlexTensorListFromTensor", {x, shape}, {before[1]}, {});
    m.custom("FlexTensorListReserve", {shape, three}, {before[2]}, {});
    m.op(Code::WHILE, before, after, tfl::CreateWhileOptions(m.fbb(), 1, 2));
    m.custom("FlexTensorListStack", {after[2], shape}, {y}, {});
    m.end_subgraph({x}, {y});
  }
  {
    std::vector<int32_t> in;
    for (const auto& s : state) in.push_back(m.tensor(s));
    const int length = m.tensor({{}, kInt}), go_on = m.tensor({{}, tfl::TensorType::BOOL});
    m.custom("FlexTensorListLength", {in[1]}, {length}, {});
    m.op(Code::LESS, {in[0], length}, {go_on}, tfl::CreateLessOptions(m.fbb()));
    m.end_subgraph(in, {go_on});
  }
  {
    std::vector<int32_t> in;
    for (const auto& s : state) in.push_back(m.tensor(s));
    const int one = number(1), shape = element_shape();
    const int item = m.tensor({{2}}), twice = m.tensor({{2}}), next = m.tensor({{}, kInt}), out = m.tensor(state[2]);
    m.custom("FlexTensorListGetItem", {in[1], in[0], shape}, {item}, {});
    m.op(Code::ADD, {item, item}, {twice}, tfl::CreateAddOptions(m.fbb()));
    m.custom("FlexTensorListSetItem", {in[2], in[0], twice}, {out}, {});
    m.op(Code::ADD, {in[0], one}, {next}, tfl::CreateAddOptions(m.fbb()));
    m.end_subgraph(in, {next, in[1], out});
  }
  return m.finish();
}

TEST(TensorLists, ALoopReadsOneAndWritesAnother) {
  for (const int32_t width : {2, -1})
    for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
      SCOPED_TRACE(width);
      const std::string bytes = doubling_loop(width);
      const auto model = Model::load_bytes(std::as_bytes(std::span(bytes)), nullptr, "model");
      ASSERT_TRUE(model.ok()) << model.error().message();
      auto session = Session::create(*model, {.backend = backend});
      ASSERT_TRUE(session.ok());
      const Datum x = Tensor::from<float>(DType::kF32, Shape{3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
      const auto y = session->run({&x, 1});
      ASSERT_TRUE(y.ok()) << y.error().message();
      ASSERT_EQ((*y)[0].tensor.shape(), (Shape{3, 2}));
      for (int i = 0; i < 6; ++i) EXPECT_EQ((*y)[0].tensor.data<float>()[i], 2.f * static_cast<float>(i + 1));
    }
}

TEST(TensorLists, AListOfUnknownElementsIsRefused) {
  TestModel m;
  const int shape = m.tensor({{1}, kInt, {}, int32_bytes({2})}), n = m.tensor({{}, kInt, {}, int32_bytes({3})});
  const int list = m.tensor({{}, tfl::TensorType::VARIANT}), y = m.tensor({{3, 2}});
  m.custom("FlexTensorListReserve", {shape, n}, {list}, {});
  m.custom("FlexTensorListStack", {list, shape}, {y}, {});
  m.end_subgraph({}, {y});
  const std::string bytes = m.finish();
  const auto model = Model::load_bytes(std::as_bytes(std::span(bytes)), nullptr, "model");
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message().find("operator 0 CUSTOM FlexTensorListReserve"), std::string::npos)
      << model.error().message();
}

}  // namespace
}  // namespace smelt::tflite
