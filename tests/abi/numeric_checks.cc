// Numbers through the ABI for one operator of each family.
#include <cmath>

#include "suite.h"

namespace abi {
namespace {

struct Case {
  const char* name;
  ModelSpec model;
  std::vector<std::vector<float>> inputs;
  std::vector<float> wanted;
};

std::vector<uint64_t> shape_of(const Tensor& t) {
  std::vector<uint64_t> s;
  for (const Dim& d : t.dims) s.push_back(static_cast<uint64_t>(d.value));
  return s;
}

void execute(const Case& c) {
  Device d;
  onnxGraph g = init(d, serialize(c.model));
  auto inputs = c.inputs;
  std::vector<std::vector<uint64_t>> shapes;
  for (const auto& t : c.model.inputs) shapes.push_back(shape_of(t));
  shapes.push_back(shape_of(c.model.outputs[0]));
  std::vector<onnxTensorDescriptorV1> in;
  for (size_t i = 0; i < inputs.size(); ++i)
    in.push_back(describe(c.model.inputs[i].name.c_str(), 1, shapes[i], inputs[i].data()));
  std::vector<float> y(c.wanted.size(), -777);
  run(d, g, in, {describe("y", 1, shapes.back(), y.data())});
  for (size_t i = 0; i < y.size(); ++i)
    if (std::fabs(y[i] - c.wanted[i]) > 1e-5f * (1 + std::fabs(c.wanted[i])))
      throw Failure("element " + std::to_string(i) + ": " + std::to_string(y[i]) + ", expected " +
                    std::to_string(c.wanted[i]));
  EXPECT_OK(api.ReleaseGraph(g));
}

const std::vector<Case>& cases() {
  const float e = 2.71828182845904523536f;
  static const std::vector<Case>* const list = new std::vector<Case>{
      {"neg", {{{"x", 1, {3}}}, {{"y", 1, {3}}}, {{"Neg", {"x"}, {"y"}}}}, {{1, -2, 0}}, {-1, 2, 0}},
      {"exp", {{{"x", 1, {2}}}, {{"y", 1, {2}}}, {{"Exp", {"x"}, {"y"}}}}, {{0, 1}}, {1, e}},
      {"sigmoid", {{{"x", 1, {1}}}, {{"y", 1, {1}}}, {{"Sigmoid", {"x"}, {"y"}}}}, {{0}}, {0.5}},
      {"sub_broadcast",
       {{{"a", 1, {2, 2}}, {"b", 1, {2}}}, {{"y", 1, {2, 2}}}, {{"Sub", {"a", "b"}, {"y"}}}},
       {{5, 6, 7, 8}, {1, 2}},
       {4, 4, 6, 6}},
      {"mul",
       {{{"a", 1, {2}}, {"b", 1, {2}}}, {{"y", 1, {2}}}, {{"Mul", {"a", "b"}, {"y"}}}},
       {{3, 4}, {5, 6}},
       {15, 24}},
      {"div",
       {{{"a", 1, {2}}, {"b", 1, {2}}}, {{"y", 1, {2}}}, {{"Div", {"a", "b"}, {"y"}}}},
       {{3, 4}, {2, -8}},
       {1.5, -0.5}},
      {"matmul",
       {{{"a", 1, {2, 2}}, {"b", 1, {2, 2}}}, {{"y", 1, {2, 2}}}, {{"MatMul", {"a", "b"}, {"y"}}}},
       {{1, 2, 3, 4}, {5, 6, 7, 8}},
       {19, 22, 43, 50}},
      {"gemm_transposed",
       {{{"a", 1, {1, 2}}, {"b", 1, {1, 2}}}, {{"y", 1, {1, 1}}}, {{"Gemm", {"a", "b"}, {"y"}, {{"transB", 1}}}}},
       {{1, 2}, {3, 4}},
       {11}},
      {"conv",
       {{{"x", 1, {1, 1, 3, 3}}, {"w", 1, {1, 1, 2, 2}}}, {{"y", 1, {1, 1, 2, 2}}}, {{"Conv", {"x", "w"}, {"y"}}}},
       {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 0, 0, 1}},
       {6, 8, 12, 14}},
      {"max_pool",
       {{{"x", 1, {1, 1, 2, 2}}},
        {{"y", 1, {1, 1, 1, 1}}},
        {{"MaxPool", {"x"}, {"y"}, {}, "", {{"kernel_shape", {2, 2}}}}}},
       {{1, 4, 3, 2}},
       {4}},
      {"average_pool",
       {{{"x", 1, {1, 1, 2, 2}}},
        {{"y", 1, {1, 1, 1, 1}}},
        {{"AveragePool", {"x"}, {"y"}, {}, "", {{"kernel_shape", {2, 2}}}}}},
       {{1, 4, 3, 2}},
       {2.5}},
      {"global_average_pool",
       {{{"x", 1, {1, 2, 1, 2}}}, {{"y", 1, {1, 2, 1, 1}}}, {{"GlobalAveragePool", {"x"}, {"y"}}}},
       {{1, 3, 5, 9}},
       {2, 7}},
      {"softmax",
       {{{"x", 1, {1, 2}}}, {{"y", 1, {1, 2}}}, {{"Softmax", {"x"}, {"y"}}}},
       {{0, std::log(3.0f)}},
       {0.25, 0.75}},
      {"reduce_sum", {{{"x", 1, {2, 2}}}, {{"y", 1, {1, 1}}}, {{"ReduceSum", {"x"}, {"y"}}}}, {{1, 2, 3, 4}}, {10}},
      {"reduce_max",
       {{{"x", 1, {2, 2}}}, {{"y", 1, {2, 1}}}, {{"ReduceMax", {"x"}, {"y"}, {}, "", {{"axes", {1}}}}}},
       {{1, 2, 9, 4}},
       {2, 9}},
      {"transpose",
       {{{"x", 1, {2, 3}}}, {{"y", 1, {3, 2}}}, {{"Transpose", {"x"}, {"y"}}}},
       {{1, 2, 3, 4, 5, 6}},
       {1, 4, 2, 5, 3, 6}},
      {"concat",
       {{{"a", 1, {2}}, {"b", 1, {1}}}, {{"y", 1, {3}}}, {{"Concat", {"a", "b"}, {"y"}, {{"axis", 0}}}}},
       {{1, 2}, {3}},
       {1, 2, 3}},
      {"flatten",
       {{{"x", 1, {1, 2, 2}}}, {{"y", 1, {1, 4}}}, {{"Flatten", {"x"}, {"y"}}}},
       {{1, 2, 3, 4}},
       {1, 2, 3, 4}},
      {"batch_normalization",
       {{{"x", 1, {1, 2, 1}}, {"s", 1, {2}}, {"b", 1, {2}}, {"m", 1, {2}}, {"v", 1, {2}}},
        {{"y", 1, {1, 2, 1}}},
        {{"BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}}}},
       {{3, 5}, {1, 2}, {0, 1}, {1, 1}, {1, 4}},
       {2 / std::sqrt(1.00001f), 4 * 2 / std::sqrt(4.00001f) + 1}},
      {"layer_normalization",
       {{{"x", 1, {1, 2}}, {"s", 1, {2}}}, {{"y", 1, {1, 2}}}, {{"LayerNormalization", {"x", "s"}, {"y"}}}},
       {{-1, 1}, {1, 1}},
       {-1 / std::sqrt(1.00001f), 1 / std::sqrt(1.00001f)}},
      {"identity", {{{"x", 1, {2}}}, {{"y", 1, {2}}}, {{"Identity", {"x"}, {"y"}}}}, {{8, 9}}, {8, 9}},
      {"chain",
       {{{"x", 1, {2}}}, {{"y", 1, {2}}}, {{"Neg", {"x"}, {"a"}}, {"Relu", {"a"}, {"b"}}, {"Add", {"b", "x"}, {"y"}}}},
       {{-2, 3}},
       {0, 3}},
  };
  return *list;
}

}  // namespace

void add_numeric_checks(Checks& checks) {
  for (const Case& c : cases()) checks.push_back({std::string("numbers/") + c.name, [&c] { execute(c); }});
}

}  // namespace abi
