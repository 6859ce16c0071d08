#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(Where, TypesAndBroadcasts) {
  for (const DType type : {DType::kBool, DType::kI8, DType::kF16, DType::kF32, DType::kI64})
    for (const auto& [condition, a, b] : {std::array{Shape{3, 5, 9}, Shape{3, 5, 9}, Shape{3, 5, 9}},
                                          {Shape{5, 9}, Shape{3, 5, 9}, Shape{}},
                                          {Shape{3, 5, 9}, Shape{}, Shape{5, 1}},
                                          {Shape{3, 1, 1}, Shape{5, 9}, Shape{9}},
                                          {Shape{2, 700, 1}, Shape{}, Shape{2, 700, 3}},
                                          {Shape{700, 3}, Shape{700, 1}, Shape{2, 1, 3}},
                                          {Shape{3}, Shape{40, 700, 1}, Shape{700, 1}},
                                          {Shape{40, 1}, Shape{300}, Shape{40, 1}},
                                          {Shape{}, Shape{}, Shape{}}}) {
      OpCase c{Cat(to_string(type), ' ', condition.str(), a.str(), b.str()),
               Op::kWhere,
               make_attrs<NoAttrs>(),
               {random_tensor(DType::kBool, condition, 0, 1, 1), random_tensor(type, a, 0, 1, 2),
                random_tensor(type, b, 0, 1, 3)}};
      c.threaded = true;
      check_on_cpu(c, "where");
    }
}

}  // namespace
}  // namespace smelt
