#include "base/cat.h"
#include "ops/recurrent/recurrent.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(SvdfI8, Shapes) {
  struct Row {
    int64_t batch, features, units, rank, memory;
    bool bias;
  };
  const Row rows[] = {{1, 96, 64, 1, 8, true}, {3, 7, 5, 2, 10, false}, {2, 33, 40, 3, 1, true}};
  for (const Row& r : rows) {
    auto attrs = std::make_shared<TfSvdfAttrs>();
    attrs->rank = r.rank;
    const auto random = [](DType t, const Shape& shape, double limit, float scale, int32_t zero, uint32_t seed) {
      Tensor x = random_tensor(t, shape, -limit, limit - 1, seed);
      x.set_quant(per_tensor(scale, zero, Rounding::kFixedDouble));
      return x;
    };
    const int64_t filters = r.units * r.rank;
    OpCase c{Cat("units ", r.units, " rank ", r.rank), Op::kTfSvdf, attrs, {}};
    c.inputs = {random(DType::kI8, {r.batch, r.features}, 128, 0.05f, -7, 1),
                random(DType::kI8, {filters, r.features}, 128, 0.02f, 0, 2),
                random(DType::kI16, {filters, r.memory}, 32768, 0.0001f, 0, 3),
                r.bias ? random_tensor(DType::kI32, {r.units}, -90000, 90000, 4) : Tensor(),
                random(DType::kI16, {r.batch, filters * r.memory}, 32768, 0.001f, 0, 5)};
    c.constants = {1, 2, 3};
    c.outputs[0] = ValueType::tensor(DType::kI8, {}, per_tensor(0.4f, 5, Rounding::kFixedDouble));
    check_on_cpu(c, "svdf_i8");
  }
}

}  // namespace
}  // namespace smelt
