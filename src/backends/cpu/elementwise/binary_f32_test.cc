#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(BinaryF32, FunctionsAndShapes) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3, 5, 7}, {2, 3, 5, 7}}, {{2, 3, 37}, {1}},
                                            {{2, 3, 37}, {37}},           {{2, 3, 37}, {3, 1}},
                                            {{4, 1, 6}, {1, 5, 1}},       {{5, 300, 2}, {5, 1, 2}},
                                            {{5, 90, 3}, {90, 1}},        {{7, 1, 5}, {3, 7, 40, 5}},
                                            {{9, 1, 2}, {9, 6, 1}},       {{1}, {100}},
                                            {{3, 0, 2}, {3, 1, 2}},       {{}, {}}};
  for (const auto& [a, b] : shapes)
    for (Binary fn : {Binary::kAdd, Binary::kSub, Binary::kMul, Binary::kDiv, Binary::kMin, Binary::kMax,
                      Binary::kSquaredDifference, Binary::kPRelu}) {
      Activation act;
      if (fn == Binary::kAdd) act.kind = ActKind::kRelu6;
      OpCase c{Cat(to_string(fn), a.str(), b.str()),
               Op::kBinary,
               make_attrs<BinaryAttrs>(fn, act),
               {random_tensor(DType::kF32, a, -9, 9, 5), random_tensor(DType::kF32, b, -2, 2, 6)},
               {1}};
      check_on_cpu(c, "binary_f32", {1e-7, 1e-6});
    }
}

}  // namespace
}  // namespace smelt
