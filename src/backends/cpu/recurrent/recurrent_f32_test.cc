#include <utility>

#include "base/cat.h"
#include "ops/recurrent/recurrent.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;
using Cell = RecurrentAttrs::Cell;

struct Row {
  Cell cell;
  int64_t steps, batch, input, hidden;
  bool backward, batch_first, flag;  ///< flag: linear_before_reset, input_forget, or ReLU
  double clip;
  bool states, peephole;

  int64_t directions() const { return backward ? 2 : 1; }
  int64_t gates() const { return cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 3 : 4; }
};

AttrsPtr attrs_of(const Row& r, bool dynamic_quantization) {
  RecurrentAttrs a;
  a.cell = r.cell;
  a.hidden = r.hidden;
  a.backward = r.backward;
  a.batch_first = r.batch_first;
  a.clip = r.clip;
  a.linear_before_reset = a.input_forget = r.flag;
  a.dynamic_quantization = dynamic_quantization;
  if (r.cell == Cell::kRnn && r.flag) a.activations.assign(static_cast<size_t>(r.directions()), "Relu");
  return make_attrs<RecurrentAttrs>(a);
}

/// w, r: weights of the input and of the state.
OpCase recurrent(const Row& row, bool dynamic_quantization, Tensor w, Tensor r) {
  const int64_t d = row.directions();
  const Shape x = row.batch_first ? Shape{row.batch, row.steps, row.input} : Shape{row.steps, row.batch, row.input};
  const Shape state = row.batch_first ? Shape{row.batch, d, row.hidden} : Shape{d, row.batch, row.hidden};
  OpCase c;
  c.label = Cat(to_string(row.cell), ' ', row.hidden, row.backward ? " both" : "");
  c.op = Op::kRecurrent;
  c.threaded = true;
  c.attrs = attrs_of(row, dynamic_quantization);
  c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), std::move(w), std::move(r),
              random_tensor(DType::kF32, {d, 2 * row.gates() * row.hidden}, -1, 1, 4)};
  c.constants = {1, 2, 3, 7};
  c.outputs.resize(row.cell == Cell::kLstm ? 3 : 2);
  if (row.states) {
    c.inputs.emplace_back();
    c.inputs.push_back(random_tensor(DType::kF32, state, -1, 1, 5));
    if (row.cell == Cell::kLstm) c.inputs.push_back(random_tensor(DType::kF32, state, -1, 1, 6));
    if (row.peephole) c.inputs.push_back(random_tensor(DType::kF32, {d, 3 * row.hidden}, -1, 1, 7));
  }
  return c;
}

TEST(RecurrentF32, CellsAndLayouts) {
  const Row rows[] = {
      {Cell::kRnn, 3, 2, 5, 7, false, false, false, 0, true, false},
      {Cell::kRnn, 4, 1, 16, 16, true, true, true, 0, false, false},
      {Cell::kGru, 5, 3, 9, 20, false, false, true, 0, true, false},
      {Cell::kGru, 5, 1, 9, 20, true, false, false, 0.3, false, false},
      {Cell::kGru, 2, 2, 3, 33, true, true, true, 0, true, false},
      {Cell::kLstm, 6, 1, 12, 16, false, false, false, 0, false, false},
      {Cell::kLstm, 3, 4, 10, 11, true, true, false, 0.5, true, true},
      {Cell::kLstm, 3, 2, 10, 40, true, false, true, 0, true, true},
      {Cell::kLstm, 4, 3, 70, 96, false, false, false, 0, true, false},
      {Cell::kGru, 3, 20, 10, 96, false, false, false, 0, true, false},
      {Cell::kGru, 3, 3, 10, 130, true, true, true, 0, false, false},
  };
  for (const Row& r : rows) {
    const auto weights = [&](int64_t k, uint64_t seed) {
      return random_tensor(DType::kF32, {r.directions(), r.gates() * r.hidden, k}, -1, 1, seed);
    };
    OpCase c = recurrent(r, false, weights(r.input, 2), weights(r.hidden, 3));
    check_on_cpu(c, "recurrent_f32", {2e-5, 1e-5});
    if (r.cell != Cell::kLstm) continue;
    c.attrs = attrs_of(r, true);
    check_on_cpu(c, "recurrent_f32", {0.02, 0.02});  // a state may fall to the other side of a step
  }
}

/// Weights of all directions' gates, [rows][k], with a scale and zero point a row.
Tensor quantized_rows(DType dtype, int64_t rows, int64_t k, bool zeros, uint64_t seed) {
  Tensor t = random_tensor(dtype, {rows, k}, dtype == DType::kU8 ? 0 : -127, dtype == DType::kU8 ? 255 : 127, seed);
  auto quant = std::make_shared<Quantization>();
  quant->kind = Quantization::Kind::kPerAxis;
  for (int64_t i = 0; i < rows; ++i) {
    quant->scales.push_back(0.004f + 0.0001f * static_cast<float>(i % 17));
    quant->zero_points.push_back((dtype == DType::kU8 ? 128 : 0) + (zeros ? static_cast<int32_t>(i % 5) - 2 : 0));
  }
  t.set_quant(std::move(quant));
  return t;
}

TEST(RecurrentI8, QuantizedWeights) {
  const Row rows[] = {
      {Cell::kLstm, 6, 1, 12, 16, false, false, false, 0, false, false},
      {Cell::kLstm, 3, 4, 10, 11, true, true, false, 0.5, true, true},
      {Cell::kLstm, 3, 2, 10, 40, true, false, true, 0, true, true},
      {Cell::kLstm, 9, 1, 80, 64, true, false, false, 0, true, false},
      {Cell::kLstm, 3, 8, 80, 128, false, false, false, 0, true, false},
  };
  for (const Row& r : rows)
    for (const DType dtype : {DType::kI8, DType::kU8})
      for (const bool zeros : {false, true}) {
        const int64_t gates = r.directions() * r.gates() * r.hidden;
        OpCase c = recurrent(r, true, quantized_rows(dtype, gates, r.input, zeros, 2),
                             quantized_rows(dtype, gates, r.hidden, zeros, 3));
        c.label += Cat(' ', to_string(dtype), zeros ? " zeros" : "");
        check_on_cpu(c, "recurrent_i8", {0.02, 0.02});  // a state may fall to the other side of a step
      }
}

}  // namespace
}  // namespace smelt
