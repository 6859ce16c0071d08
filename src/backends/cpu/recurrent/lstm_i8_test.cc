#include <numeric>

#include "backends/cpu/recurrent/fixed_cell_ops.h"
#include "base/cat.h"
#include "ops/recurrent/fixed_cell.h"
#include "ops/recurrent/recurrent.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(FixedCellOps, EveryValueOnEveryLevel) {
  std::vector<int16_t> all(65536 + 13), got(all.size());  // not whole vectors
  std::iota(all.begin(), all.end(), static_cast<int16_t>(-32768));
  const auto n = static_cast<int64_t>(all.size());
  for (const Isa isa : tested_isas())
    for (int bits = 0; bits <= 6; ++bits) {
      const FixedCellOps ops = fixed_cell_ops(isa);
      ops.tanh(all.data(), n, bits, got.data());
      for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(got[i], tanh_fixed16(all[i], bits)) << all[i] << " " << bits;
      ops.logistic(all.data(), n, bits, got.data());
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(got[i], logistic_fixed16(all[i], bits)) << all[i] << " " << bits;
    }
}

struct LstmI8Row {
  int64_t time, batch, features, units;
  bool time_major, coupled, biases;
  double clip;
};

OpCase lstm_case(const LstmI8Row& r) {
  TfLstmAttrs a;
  a.sequence = r.time > 0;
  a.time_major = r.time_major;
  a.cell_clip = r.clip;
  a.intermediates.resize(5);
  a.intermediates[4] = ValueType::tensor(DType::kI8, {}, per_tensor(0.0077f, -3));
  OpCase c{Cat("time ", r.time, " units ", r.units), Op::kTfLstm, make_attrs<TfLstmAttrs>(a), std::vector<Tensor>(24)};
  const Shape x = r.time == 0    ? Shape{r.batch, r.features}
                  : r.time_major ? Shape{r.time, r.batch, r.features}
                                 : Shape{r.batch, r.time, r.features};
  c.inputs[0] = random_quantized(DType::kI8, x, 0.03f, -5, 1);
  for (size_t g = r.coupled ? 1 : 0; g < 4; ++g) {
    const auto seed = static_cast<uint32_t>(g);
    c.inputs[1 + g] =
        random_quantized(DType::kI8, {r.units, r.features}, 0.004f + 0.001f * static_cast<float>(g), 0, 10 + seed);
    c.inputs[5 + g] = random_quantized(DType::kI8, {r.units, r.units}, 0.006f, 0, 20 + seed);
    if (r.biases) c.inputs[12 + g] = random_tensor(DType::kI32, {r.units}, -3000, 3000, 30 + seed);
    for (const size_t i : {1 + g, 5 + g, 12 + g})
      if (c.inputs[i].defined()) c.constants.push_back(i);
  }
  c.inputs[18] = random_quantized(DType::kI8, {r.batch, r.units}, 0.0077f, -3, 40);
  c.inputs[19] = random_quantized(DType::kI16, {r.batch, r.units}, 0x1p-11f, 0, 41);
  c.outputs = std::vector<ValueType>(3);
  c.outputs[0] = ValueType::tensor(DType::kI8, {}, per_tensor(0.0077f, -3));
  return c;
}

TEST(LstmI8, ShapesAndForms) {
  const LstmI8Row rows[] = {{0, 2, 5, 6, false, false, true, 0},      {7, 1, 40, 80, false, false, true, 0},
                            {3, 2, 33, 17, true, false, true, 0},     {4, 3, 8, 20, false, true, true, 3},
                            {5, 1, 16, 64, true, false, false, 0.01}, {1, 1, 128, 128, true, false, true, 0}};
  for (const LstmI8Row& r : rows) check_on_cpu(lstm_case(r), "lstm_i8");
}

}  // namespace
}  // namespace smelt
