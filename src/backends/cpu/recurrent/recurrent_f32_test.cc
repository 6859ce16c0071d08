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
};

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
  };
  for (const Row& r : rows) {
    RecurrentAttrs a;
    a.cell = r.cell;
    a.hidden = r.hidden;
    a.backward = r.backward;
    a.batch_first = r.batch_first;
    a.clip = r.clip;
    a.linear_before_reset = a.input_forget = r.flag;
    const int64_t d = r.backward ? 2 : 1, g = r.cell == Cell::kRnn ? 1 : r.cell == Cell::kGru ? 3 : 4;
    if (r.cell == Cell::kRnn && r.flag) a.activations.assign(static_cast<size_t>(d), "Relu");
    const Shape x = r.batch_first ? Shape{r.batch, r.steps, r.input} : Shape{r.steps, r.batch, r.input};
    const Shape state = r.batch_first ? Shape{r.batch, d, r.hidden} : Shape{d, r.batch, r.hidden};
    OpCase c;
    c.label = Cat(to_string(r.cell), ' ', r.hidden, r.backward ? " both" : "");
    c.op = Op::kRecurrent;
    c.attrs = make_attrs<RecurrentAttrs>(a);
    c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1),
                random_tensor(DType::kF32, {d, g * r.hidden, r.input}, -1, 1, 2),
                random_tensor(DType::kF32, {d, g * r.hidden, r.hidden}, -1, 1, 3),
                random_tensor(DType::kF32, {d, 2 * g * r.hidden}, -1, 1, 4)};
    c.constants = {1, 2, 3, 7};
    c.outputs.resize(r.cell == Cell::kLstm ? 3 : 2);
    if (r.states) {
      c.inputs.emplace_back();
      c.inputs.push_back(random_tensor(DType::kF32, state, -1, 1, 5));
      if (r.cell == Cell::kLstm) c.inputs.push_back(random_tensor(DType::kF32, state, -1, 1, 6));
      if (r.peephole) c.inputs.push_back(random_tensor(DType::kF32, {d, 3 * r.hidden}, -1, 1, 7));
    }
    check_on_cpu(c, "recurrent_f32", {2e-5, 1e-5});
    if (r.cell != Cell::kLstm) continue;
    a.dynamic_quantization = true;
    c.attrs = make_attrs<RecurrentAttrs>(a);
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
  };
  for (const Row& r : rows)
    for (const DType dtype : {DType::kI8, DType::kU8})
      for (const bool zeros : {false, true}) {
        RecurrentAttrs a;
        a.hidden = r.hidden;
        a.backward = r.backward;
        a.batch_first = r.batch_first;
        a.clip = r.clip;
        a.input_forget = r.flag;
        a.dynamic_quantization = true;
        const int64_t d = r.backward ? 2 : 1, gates = 4 * r.hidden;
        const Shape x = r.batch_first ? Shape{r.batch, r.steps, r.input} : Shape{r.steps, r.batch, r.input};
        const Shape state = r.batch_first ? Shape{r.batch, d, r.hidden} : Shape{d, r.batch, r.hidden};
        OpCase c;
        c.label = Cat(to_string(dtype), ' ', r.hidden, r.backward ? " both" : "", zeros ? " zeros" : "");
        c.op = Op::kRecurrent;
        c.attrs = make_attrs<RecurrentAttrs>(a);
        c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), quantized_rows(dtype, d * gates, r.input, zeros, 2),
                    quantized_rows(dtype, d * gates, r.hidden, zeros, 3),
                    random_tensor(DType::kF32, {d, 2 * gates}, -1, 1, 4)};
        c.constants = {1, 2, 3, 7};
        c.outputs.resize(3);
        if (r.states) {
          c.inputs.emplace_back();
          for (const uint64_t seed : {5, 6}) c.inputs.push_back(random_tensor(DType::kF32, state, -1, 1, seed));
          if (r.peephole) c.inputs.push_back(random_tensor(DType::kF32, {d, 3 * r.hidden}, -1, 1, 7));
        }
        check_on_cpu(c, "recurrent_i8", {0.02, 0.02});  // a state may fall to the other side of a step
      }
}

}  // namespace
}  // namespace smelt
