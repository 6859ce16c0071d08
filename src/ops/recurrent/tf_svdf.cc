// SVDF: a low-rank recurrent filter bank. The state keeps the last `memory` feature values of every filter.
#include <algorithm>
#include <vector>

#include "ops/common/fixed_point.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/tf_cells.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

struct Sizes {
  int64_t batch, features, filters, units, memory;
};

Result<Sizes> sizes_of(const KernelContext& ctx, int64_t rank) {
  const Tensor &x = ctx.input(0), &wf = ctx.input(1), &wt = ctx.input(2), &s = ctx.input(4);
  if (x.rank() != 2 || wf.rank() != 2 || wt.rank() != 2 || wf.dim(1) != x.dim(1) || wt.dim(0) != wf.dim(0))
    return InvalidModel("input ", x.shape().str(), ", feature weights ", wf.shape().str(), " and time weights ",
                        wt.shape().str(), " do not fit");
  const Sizes z{x.dim(0), x.dim(1), wf.dim(0), wf.dim(0) / rank, wt.dim(1)};
  if (wf.dim(0) % rank != 0) return InvalidModel(wf.dim(0), " filters are no multiple of rank ", rank);
  if (s.elements() != z.batch * z.filters * z.memory || z.memory < 1)
    return InvalidModel("a state of shape ", s.shape().str(), " for ", z.batch, " rows, ", z.filters, " filters and ",
                        z.memory, " steps");
  if (ctx.has(3) && ctx.input(3).elements() != z.units)
    return InvalidModel("a bias of ", ctx.input(3).elements(), " entries for ", z.units, " units");
  return z;
}

template <class T>
void shift_state(std::vector<T>& state, int64_t memory) {
  for (size_t row = 0; row < state.size(); row += static_cast<size_t>(memory))
    std::copy(state.begin() + static_cast<ptrdiff_t>(row) + 1, state.begin() + static_cast<ptrdiff_t>(row) + memory,
              state.begin() + static_cast<ptrdiff_t>(row));
}

Status run_float(KernelContext& ctx, const TfSvdfAttrs& a, const Sizes& z) {
  SMELT_ASSIGN(auto state, tf_cells::state(ctx, 4, z.batch * z.filters * z.memory));
  SMELT_ASSIGN(const auto features, tf_cells::matrix(ctx, 1, z.filters, z.features));
  SMELT_ASSIGN(const auto times, tf_cells::vector(ctx, 2, z.filters * z.memory));
  SMELT_ASSIGN(const auto bias, tf_cells::vector(ctx, 3, z.units));
  std::vector<float> newest(static_cast<size_t>(z.batch * z.filters), 0.f);
  tf_cells::Rows(ctx.input(0).data<float>(), z.batch, z.features, a.asymmetric_inputs)
      .accumulate(features, newest.data());
  shift_state(state, z.memory);
  for (size_t i = 0; i < newest.size(); ++i)
    state[i * static_cast<size_t>(z.memory) + static_cast<size_t>(z.memory) - 1] = newest[i];
  const int64_t rank = z.filters / z.units;
  float* y = ctx.output(0).data<float>();
  for (int64_t b = 0; b < z.batch; ++b)
    for (int64_t u = 0; u < z.units; ++u) {
      float sum = 0;
      for (int64_t f = u * rank; f < (u + 1) * rank; ++f)
        for (int64_t m = 0; m < z.memory; ++m)
          sum += times[static_cast<size_t>(f * z.memory + m)] *
                 state[static_cast<size_t>((b * z.filters + f) * z.memory + m)];
      y[b * z.units + u] = activate(a.act, sum + (bias.empty() ? 0.f : bias[static_cast<size_t>(u)]));
    }
  tf_cells::write_state(ctx, 1, state);
  return Ok();
}

Status run_integer(KernelContext& ctx, const Sizes& z) {
  const Tensor &x = ctx.input(0), &wf = ctx.input(1), &wt = ctx.input(2), &s = ctx.input(4);
  Tensor& y = ctx.output(0);
  if (wf.dtype() != DType::kI8 || wt.dtype() != DType::kI16 || s.dtype() != DType::kI16 || y.dtype() != DType::kI8 ||
      (ctx.has(3) && ctx.input(3).dtype() != DType::kI32))
    return Unsupported("int8 input with weights ", to_string(wf.dtype()), " and ", to_string(wt.dtype()), ", state ",
                       to_string(s.dtype()));
  if (!x.quant() || !wf.quant() || !wt.quant() || !s.quant() || !y.quant())
    return InvalidModel("an integer operand without quantization parameters");
  // The products are rounded to float, as in the format's kernel.
  const float sx = x.quant()->scale(), sf = wf.quant()->scale(), ss = s.quant()->scale(), st = wt.quant()->scale(),
              sy = y.quant()->scale();
  const FixedFactor first = fixed_factor(sx * sf / ss), second = fixed_factor(ss * st / sy);
  std::vector<int16_t> state(s.data<int16_t>(), s.data<int16_t>() + s.elements());
  shift_state(state, z.memory);
  const int32_t zero = x.quant()->zero_point(), y_zero = y.quant()->zero_point();
  const auto *features = wf.data<int8_t>(), *xs = x.data<int8_t>();
  const auto* times = wt.data<int16_t>();
  const int32_t* bias = ctx.has(3) ? ctx.input(3).data<int32_t>() : nullptr;
  for (int64_t b = 0; b < z.batch; ++b, xs += z.features)
    for (int64_t f = 0; f < z.filters; ++f) {
      const int8_t* w = features + f * z.features;
      int32_t sum = 0;
      for (int64_t k = 0; k < z.features; ++k) sum += w[k] * (xs[k] - zero);
      state[static_cast<size_t>((b * z.filters + f) * z.memory + z.memory - 1)] =
          static_cast<int16_t>(std::clamp(rescale_double(sum, first), -32768, 32767));
    }
  // The filters of a unit lie side by side, their weights like their states.
  const int64_t entries = z.filters / z.units * z.memory;
  for (int64_t i = 0; i < z.batch * z.units; ++i) {
    const int64_t u = i % z.units;
    const int16_t *w = times + u * entries, *values = state.data() + i * entries;
    uint32_t sum = bias ? static_cast<uint32_t>(bias[u]) : 0;
    for (int64_t m = 0; m < entries; ++m) sum += static_cast<uint32_t>(w[m] * values[m]);
    const int64_t v = static_cast<int64_t>(rescale_double(static_cast<int32_t>(sum), second)) + y_zero;
    y.data<int8_t>()[i] = static_cast<int8_t>(std::clamp<int64_t>(v, -128, 127));
  }
  if (ctx.wants(1)) std::copy(state.begin(), state.end(), ctx.output(1).data<int16_t>());
  return Ok();
}

}  // namespace

Status infer_TfSvdf(InferContext& ctx) {
  const auto& a = ctx.attrs<TfSvdfAttrs>();
  const ValueType &x = ctx.input(0), &w = ctx.input(1);
  const int64_t filters = w.ranked && w.shape.rank() == 2 ? w.shape[0] : -1;
  ctx.set(0, tf_cells::like_input(x, filters < 0 ? -1 : filters / a.rank));
  if (ctx.has(4)) ctx.set(1, ctx.input(4));
  return Ok();
}

Status reference_TfSvdf(KernelContext& ctx) {
  const auto& a = ctx.attrs<TfSvdfAttrs>();
  SMELT_ASSIGN(const Sizes z, sizes_of(ctx, a.rank));
  if (z.units < 1) return InvalidModel("no units");
  switch (ctx.input(0).dtype()) {
    case DType::kF32:
      return run_float(ctx, a, z);
    case DType::kI8:
      return run_integer(ctx, z);
    default:
      return Unsupported("activations of ", to_string(ctx.input(0).dtype()));
  }
}

}  // namespace smelt
