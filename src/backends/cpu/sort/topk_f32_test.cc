#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cat.h"
#include "ops/sort/sort.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(TopKF32, OrderTiesAndNan) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor x = random_tensor(DType::kF32, {3, 40, 2}, -4, 4, 1);
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = std::round(x.data<float>()[i]);
  const float odd[] = {nan, 0.0f, -0.0f, inf, -inf, nan, -0.0f, 0.0f};
  for (int64_t i = 0; i < 8; ++i) x.data<float>()[3 * i] = odd[i];
  for (int64_t axis : {0, 1, 2})
    for (bool largest : {true, false})
      for (int64_t k : {1, 2, 3, 20}) {
        if (k > x.dim(static_cast<int>(axis))) continue;
        TopKAttrs a;
        a.axis = axis;
        a.largest = largest;
        check_on_cpu({Cat("axis ", axis, " k ", k, largest ? " largest" : " smallest"),
                      Op::kTopK,
                      make_attrs<TopKAttrs>(a),
                      {x, i64({k})},
                      {1},
                      {ValueType{}, ValueType{}},
                      false},
                     "topk_f32", {0, 0});
      }
}

TEST(TopKF32, ManyOfALine) {
  Tensor x = random_tensor(DType::kF32, {2, 900}, -40, 40, 1);
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = std::round(x.data<float>()[i]);
  for (const int64_t nans : {0, 1, 200}) {
    std::fill_n(x.data<float>() + 300, nans, std::numeric_limits<float>::quiet_NaN());
    for (const bool largest : {true, false})
      for (const int64_t k : {33, 100}) {
        TopKAttrs a;
        a.largest = largest;
        const std::string label = Cat("k ", k, " NaN ", nans, largest ? " largest" : " smallest");
        check_on_cpu({label, Op::kTopK, make_attrs<TopKAttrs>(a), {x, i64({k})}, {1}, {ValueType{}, ValueType{}}},
                     "topk_f32", {0, 0});
      }
  }
  check_on_cpu({"most", Op::kTopK, make_attrs<TopKAttrs>(), {x, i64({400})}, {1}, {ValueType{}, ValueType{}}}, "");
}

}  // namespace
}  // namespace smelt
