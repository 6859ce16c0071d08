// RNN, UNIDIRECTIONAL_SEQUENCE_RNN, BIDIRECTIONAL_SEQUENCE_RNN.
#include <vector>

#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/tf_cells.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

using tf_cells::Matrix;
using tf_cells::Rows;
using tf_cells::Walk;

struct Direction {
  const float* x = nullptr;
  Walk walk;
  const float* aux = nullptr;
  int64_t aux_features = 0;
  Matrix w, r, aux_w;
  std::vector<float> bias, h;
};

/// Inputs `first` to first + 3 are weights, recurrent weights, bias and state.
Status read_direction(KernelContext& ctx, int first, int aux_weights, Direction& d) {
  SMELT_ASSIGN(d.w, tf_cells::matrix(ctx, first, -1, d.walk.features));
  const int64_t n = d.w.rows;
  SMELT_ASSIGN(d.r, tf_cells::matrix(ctx, first + 1, n, n));
  SMELT_ASSIGN(d.bias, tf_cells::vector(ctx, first + 2, n));
  SMELT_ASSIGN(d.h, tf_cells::state(ctx, first + 3, d.walk.batch * n));
  if (d.aux) {
    SMELT_ASSIGN(d.aux_w, tf_cells::matrix(ctx, aux_weights, n, d.aux_features));
  }
  return Ok();
}

Status run_direction(KernelContext& ctx, Direction& d, const TfRnnAttrs& a, bool backward, float* y, int64_t stride,
                     int64_t offset) {
  const int64_t n = d.w.rows, batch = d.walk.batch;
  std::vector<float> x(static_cast<size_t>(batch * d.walk.features)), aux(static_cast<size_t>(batch * d.aux_features));
  std::vector<float> sum(static_cast<size_t>(batch * n));
  Walk aux_walk = d.walk;
  aux_walk.features = d.aux_features;
  // The format's kernel for 8-bit weights walks a time-major sequence in both directions as often as it has steps, the
  // state carried on; its results are what models were measured with.
  const bool again = a.bidirectional && d.w.quantized && d.walk.time_major;
  const int64_t steps = again ? d.walk.time * d.walk.time : d.walk.time;
  for (int64_t i = 0; i < steps; ++i) {
    SMELT_TRY(ctx.tick());
    const int64_t s = i % d.walk.time;
    const int64_t t = backward ? d.walk.time - 1 - s : s;
    for (int64_t b = 0; b < batch; ++b) std::copy(d.bias.begin(), d.bias.end(), sum.begin() + b * n);
    d.walk.gather(d.x, t, x.data());
    Rows(x.data(), batch, d.walk.features, a.asymmetric_inputs).accumulate(d.w, sum.data());
    if (d.aux) {
      aux_walk.gather(d.aux, t, aux.data());
      Rows(aux.data(), batch, d.aux_features, a.asymmetric_inputs).accumulate(d.aux_w, sum.data());
    }
    Rows(d.h.data(), batch, n, a.asymmetric_inputs).accumulate(d.r, sum.data());
    for (size_t k = 0; k < sum.size(); ++k) d.h[k] = activate(a.act, sum[k]);
    d.walk.scatter(d.h.data(), n, t, y, stride, offset);
  }
  return Ok();
}

}  // namespace

Status infer_TfRnn(InferContext& ctx) {
  const auto& a = ctx.attrs<TfRnnAttrs>();
  const ValueType& x = ctx.input(0);
  const auto units = [&](int i) -> int64_t {
    return ctx.has(i) && ctx.input(i).ranked && ctx.input(i).shape.rank() == 2 ? ctx.input(i).shape[0] : -1;
  };
  if (!a.bidirectional) {
    ctx.set(0, tf_cells::like_input(x, units(1)));
    if (ctx.has(4)) ctx.set(1, ctx.input(4));
    return Ok();
  }
  if (ctx.inputs() < 9) return InvalidModel(ctx.inputs(), " inputs, both directions take 9 or 12");
  const int64_t fw = units(1), bw = units(5);
  ctx.set(0, tf_cells::like_input(x, a.merge_outputs ? (fw < 0 || bw < 0 ? -1 : fw + bw) : fw));
  if (ctx.wants(1)) ctx.set(1, tf_cells::like_input(x, bw));
  if (ctx.has(4)) ctx.set(2, ctx.input(4));
  if (ctx.has(8)) ctx.set(3, ctx.input(8));
  return Ok();
}

Status reference_TfRnn(KernelContext& ctx) {
  const auto& a = ctx.attrs<TfRnnAttrs>();
  const Tensor& x = ctx.input(0);
  if (x.dtype() != DType::kF32) return Unsupported("activations of ", to_string(x.dtype()));
  SMELT_ASSIGN(const Walk walk, tf_cells::walk_of(x, a.sequence, a.time_major));
  Direction fw;
  fw.x = x.data<float>();
  fw.walk = walk;
  if (!a.bidirectional) {
    SMELT_TRY(read_direction(ctx, 1, -1, fw));
    SMELT_TRY(run_direction(ctx, fw, a, false, ctx.output(0).data<float>(), fw.w.rows, 0));
    tf_cells::write_state(ctx, 1, fw.h);
    return Ok();
  }
  Direction bw;
  bw.x = fw.x;
  bw.walk = walk;
  if (ctx.has(9)) {
    // With weights of its own the auxiliary input adds to both directions; without, it is what the backward one reads.
    const Tensor& aux = ctx.input(9);
    SMELT_ASSIGN(const Walk aux_walk, tf_cells::walk_of(aux, a.sequence, a.time_major));
    if (aux.dtype() != DType::kF32 || aux_walk.time != walk.time || aux_walk.batch != walk.batch)
      return InvalidModel("the auxiliary input has shape ", aux.shape().str(), ", the input ", x.shape().str());
    if (ctx.has(10)) {
      fw.aux = bw.aux = aux.data<float>();
      fw.aux_features = bw.aux_features = aux_walk.features;
    } else {
      bw.x = aux.data<float>();
      bw.walk = aux_walk;
    }
  }
  SMELT_TRY(read_direction(ctx, 1, 10, fw));
  SMELT_TRY(read_direction(ctx, 5, 11, bw));
  const int64_t nf = fw.w.rows, nb = bw.w.rows;
  float* y = ctx.output(0).data<float>();
  SMELT_TRY(run_direction(ctx, fw, a, false, y, a.merge_outputs ? nf + nb : nf, 0));
  if (a.merge_outputs)
    SMELT_TRY(run_direction(ctx, bw, a, true, y, nf + nb, nf));
  else if (ctx.wants(1))
    SMELT_TRY(run_direction(ctx, bw, a, true, ctx.output(1).data<float>(), nb, 0));
  tf_cells::write_state(ctx, 2, fw.h);
  tf_cells::write_state(ctx, 3, bw.h);
  return Ok();
}

}  // namespace smelt
