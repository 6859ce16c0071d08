// Float and hybrid LSTM cells.
#include <algorithm>
#include <cmath>

#include "ops/recurrent/tf_lstm.h"
#include "tensor/numeric.h"

namespace smelt::tf_lstm {
namespace {

using tf_cells::Matrix;
using tf_cells::Rows;

/// Operands of one gate.
struct FloatGate {
  bool present = false;
  Matrix w, aux, r;
  std::vector<float> diagonal, peephole, norm, bias;
};

struct FloatCell {
  std::array<FloatGate, 4> gates;
  Matrix projection;
  std::vector<float> projection_bias;
  int64_t units = 0, outputs = 0, features = 0, aux_features = 0, batch = 0;
  bool asymmetric = false;
};

Status read_cell(KernelContext& ctx, const Inputs& in, const TfLstmAttrs& a, FloatCell& c) {
  for (int g = 0; g < 4; ++g) {
    FloatGate& gate = c.gates[static_cast<size_t>(g)];
    const auto i = static_cast<size_t>(g);
    gate.present = ctx.has(in.w[i]);
    if (!gate.present) {
      if (g != kInput) return InvalidModel("input ", in.w[i], " is absent");
      continue;  // the input gate is coupled to the forget gate
    }
    if (c.units == 0) c.units = ctx.input(in.w[i]).rank() == 2 ? ctx.input(in.w[i]).dim(0) : 0;
    SMELT_ASSIGN(gate.w, tf_cells::matrix(ctx, in.w[i], c.units, c.features));
    if (a.diagonal_recurrent && ctx.has(in.r[i]) && ctx.input(in.r[i]).rank() == 1) {
      SMELT_ASSIGN(gate.diagonal, tf_cells::vector(ctx, in.r[i], c.units));
    } else {
      SMELT_ASSIGN(gate.r, tf_cells::matrix(ctx, in.r[i], c.units, c.outputs));
      if (!gate.r.defined()) return InvalidModel("input ", in.r[i], " is absent");
    }
    if (in.aux_w[i] >= 0 && c.aux_features > 0) {
      SMELT_ASSIGN(gate.aux, tf_cells::matrix(ctx, in.aux_w[i], c.units, c.aux_features));
    }
    const int peephole = g == kCell ? -1 : in.peephole[static_cast<size_t>(g == kOutput ? 2 : g)];
    SMELT_ASSIGN(gate.peephole, tf_cells::vector(ctx, peephole, c.units));
    if (in.norm[i] >= 0) {
      SMELT_ASSIGN(gate.norm, tf_cells::vector(ctx, in.norm[i], c.units));
    }
    SMELT_ASSIGN(gate.bias, tf_cells::vector(ctx, in.bias[i], c.units));
  }
  SMELT_ASSIGN(c.projection, tf_cells::matrix(ctx, in.projection, c.outputs, c.units));
  SMELT_ASSIGN(c.projection_bias, tf_cells::vector(ctx, in.projection_bias, c.outputs));
  if (!c.projection.defined() && c.units != c.outputs)
    return InvalidModel(c.units, " cells for ", c.outputs, " outputs without a projection");
  return Ok();
}

/// Mean 0, variance 1 over each row.
void normalize_rows(std::vector<float>& rows, int64_t batch, int64_t n) {
  for (int64_t b = 0; b < batch; ++b) {
    float* row = rows.data() + b * n;
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += row[i];
    const float mean = sum / static_cast<float>(n);
    for (int64_t i = 0; i < n; ++i) squares += (row[i] - mean) * (row[i] - mean);
    const float scale = 1.f / std::sqrt(squares / static_cast<float>(n) + 1e-8f);
    for (int64_t i = 0; i < n; ++i) row[i] = (row[i] - mean) * scale;
  }
}

struct Step {
  Rows x, aux, h;
};

std::vector<float> run_gate(const FloatCell& c, const FloatGate& g, Step& step, const std::vector<float>& h,
                            const std::vector<float>& cell, const Activation& act) {
  const int64_t n = c.units;
  std::vector<float> sum(static_cast<size_t>(c.batch * n), 0.f);
  if (g.norm.empty() && !g.bias.empty())
    for (int64_t b = 0; b < c.batch; ++b) std::copy(g.bias.begin(), g.bias.end(), sum.begin() + b * n);
  step.x.accumulate(g.w, sum.data());
  step.aux.accumulate(g.aux, sum.data());
  step.h.accumulate(g.r, sum.data());
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(b * n + i), k = static_cast<size_t>(i);
      if (!g.diagonal.empty()) sum[at] += g.diagonal[k] * h[at];
      if (!g.peephole.empty()) sum[at] += g.peephole[k] * cell[at];
    }
  if (!g.norm.empty()) {
    normalize_rows(sum, c.batch, n);
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t i = 0; i < n; ++i) {
        float& v = sum[static_cast<size_t>(b * n + i)];
        v = v * g.norm[static_cast<size_t>(i)] + (g.bias.empty() ? 0.f : g.bias[static_cast<size_t>(i)]);
      }
  }
  for (float& v : sum) v = activate(act, v);
  return sum;
}

}  // namespace

Status run_float(KernelContext& ctx, const Inputs& in, const Stream& stream) {
  const auto& a = ctx.attrs<TfLstmAttrs>();
  SMELT_ASSIGN(const auto walk, tf_cells::walk_of(*stream.x, a.sequence, a.time_major));
  FloatCell c;
  c.features = walk.features;
  c.batch = walk.batch;
  c.asymmetric = a.asymmetric_inputs;
  SMELT_ASSIGN(c.outputs, output_units(ctx, in, a.diagonal_recurrent));
  tf_cells::Walk aux_walk = walk;
  if (stream.aux) {
    SMELT_ASSIGN(aux_walk, tf_cells::walk_of(*stream.aux, a.sequence, a.time_major));
    if (stream.aux->dtype() != DType::kF32 || aux_walk.time != walk.time || aux_walk.batch != walk.batch)
      return InvalidModel("the auxiliary input has shape ", stream.aux->shape().str());
    c.aux_features = aux_walk.features;
  }
  SMELT_TRY(read_cell(ctx, in, a, c));
  SMELT_ASSIGN(auto h, tf_cells::state(ctx, in.output_state, c.batch * c.outputs));
  SMELT_ASSIGN(auto cell, tf_cells::state(ctx, in.cell_state, c.batch * c.units));
  const Activation sigmoid{ActKind::kSigmoid};
  const auto cell_clip = static_cast<float>(a.cell_clip), proj_clip = static_cast<float>(a.proj_clip);
  std::vector<float> x(static_cast<size_t>(c.batch * c.features)), aux(static_cast<size_t>(c.batch * c.aux_features));
  for (int64_t s = 0; s < walk.time; ++s) {
    SMELT_TRY(ctx.tick());
    const int64_t t = stream.backward ? walk.time - 1 - s : s;
    walk.gather(stream.x->data<float>(), t, x.data());
    if (stream.aux) aux_walk.gather(stream.aux->data<float>(), t, aux.data());
    Step step{Rows(x.data(), c.batch, c.features, c.asymmetric),
              Rows(aux.data(), c.batch, c.aux_features, c.asymmetric),
              Rows(h.data(), c.batch, c.outputs, c.asymmetric)};
    std::vector<float> input;
    if (c.gates[kInput].present) input = run_gate(c, c.gates[kInput], step, h, cell, sigmoid);
    const auto forget = run_gate(c, c.gates[kForget], step, h, cell, sigmoid);
    const auto update = run_gate(c, c.gates[kCell], step, h, cell, a.act);
    for (size_t i = 0; i < cell.size(); ++i) {
      const float keep = input.empty() ? 1.f - forget[i] : input[i];
      cell[i] = forget[i] * cell[i] + keep * update[i];
      if (cell_clip > 0) cell[i] = std::clamp(cell[i], -cell_clip, cell_clip);
    }
    auto out = run_gate(c, c.gates[kOutput], step, h, cell, sigmoid);
    for (size_t i = 0; i < out.size(); ++i) out[i] *= activate(a.act, cell[i]);
    if (c.projection.defined()) {
      std::fill(h.begin(), h.end(), 0.f);
      if (!c.projection_bias.empty())
        for (int64_t b = 0; b < c.batch; ++b)
          std::copy(c.projection_bias.begin(), c.projection_bias.end(), h.begin() + b * c.outputs);
      Rows(out.data(), c.batch, c.units, c.asymmetric).accumulate(c.projection, h.data());
      if (proj_clip > 0)
        for (float& v : h) v = std::clamp(v, -proj_clip, proj_clip);
    } else {
      h = out;
    }
    if (stream.y) walk.scatter(h.data(), c.outputs, t, stream.y->data<float>(), stream.stride, stream.offset);
  }
  tf_cells::write_state(ctx, stream.out_state, h);
  tf_cells::write_state(ctx, stream.out_cell, cell);
  return Ok();
}

}  // namespace smelt::tf_lstm
