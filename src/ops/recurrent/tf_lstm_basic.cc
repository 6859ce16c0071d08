// The basic LSTM kernel: one weight matrix over [input, previous activation], gates in the order input, modulation,
// forget, output.
#include <algorithm>
#include <cmath>

#include "ops/common/fixed_point.h"
#include "ops/recurrent/fixed_cell.h"
#include "ops/recurrent/tf_lstm.h"

namespace smelt::tf_lstm {
namespace {

struct Basic {
  int64_t batch, features, units;
};

Result<Basic> sizes_of(const KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &h = ctx.input(1), &w = ctx.input(2), &b = ctx.input(3), &c = ctx.input(4);
  if (x.rank() != 2 || h.rank() != 2 || w.rank() != 2)
    return InvalidModel("input ", x.shape().str(), ", activation ", h.shape().str(), " and weights ", w.shape().str(),
                        ", rank 2 expected");
  const Basic z{x.dim(0), x.dim(1), h.dim(1)};
  if (h.dim(0) != z.batch || w.dim(0) != 4 * z.units || w.dim(1) != z.features + z.units ||
      b.elements() != 4 * z.units || c.shape() != h.shape())
    return InvalidModel("input ", x.shape().str(), ", activation ", h.shape().str(), ", weights ", w.shape().str(),
                        ", bias ", b.shape().str(), " and state ", c.shape().str(), " do not fit");
  return z;
}

float sigmoid(float v) { return 1.f / (1.f + std::exp(-v)); }

void run_real(KernelContext& ctx, const Basic& z) {
  const int64_t n = z.units, total = z.features + n;
  const float* w = ctx.input(2).data<float>();
  const float* bias = ctx.input(3).data<float>();
  std::vector<float> row(static_cast<size_t>(total)), gate(static_cast<size_t>(4 * n));
  for (int64_t b = 0; b < z.batch; ++b) {
    std::copy_n(ctx.input(0).data<float>() + b * z.features, z.features, row.begin());
    std::copy_n(ctx.input(1).data<float>() + b * n, n, row.begin() + z.features);
    for (int64_t i = 0; i < 4 * n; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < total; ++k) sum += w[i * total + k] * row[static_cast<size_t>(k)];
      gate[static_cast<size_t>(i)] = sum + bias[i];
    }
    if (ctx.wants(2)) std::copy(row.begin(), row.end(), ctx.output(2).data<float>() + b * total);
    if (ctx.wants(3)) std::copy(gate.begin(), gate.end(), ctx.output(3).data<float>() + b * 4 * n);
    for (int64_t i = 0; i < n; ++i) {
      const float* g = gate.data() + i;
      const float state = sigmoid(g[0]) * std::tanh(g[n]) + sigmoid(g[2 * n]) * ctx.input(4).data<float>()[b * n + i];
      ctx.output(1).data<float>()[b * n + i] = state;
      ctx.output(0).data<float>()[b * n + i] = sigmoid(g[3 * n]) * std::tanh(state);
    }
  }
}

/// uint8 activations at 1/128 around 128, an int16 cell with four integer bits, gates with three.
Status run_integer(KernelContext& ctx, const Basic& z) {
  const Tensor &w = ctx.input(2), &bias = ctx.input(3), &cell = ctx.input(4);
  if (ctx.input(1).dtype() != DType::kU8 || w.dtype() != DType::kU8 || bias.dtype() != DType::kI32 ||
      cell.dtype() != DType::kI16 || !w.quant() || !bias.quant() || !cell.quant())
    return Unsupported("uint8 input with weights ", to_string(w.dtype()), ", bias ", to_string(bias.dtype()),
                       " and state ", to_string(cell.dtype()));
  if (cell.quant()->scale() != 1.f / 2048)
    return Unsupported("a cell state of scale ", cell.quant()->scale(), ", 1/2048 expected");
  const FixedFactor factor = fixed_factor(4096.0 * bias.quant()->scale());
  const int32_t zero = w.quant()->zero_point();
  const int64_t n = z.units, total = z.features + n;
  std::vector<int32_t> row(static_cast<size_t>(total));
  std::vector<int16_t> gate(static_cast<size_t>(4 * n));
  const auto mul = [](int16_t a, int16_t b) { return rounding_doubling_high_mul16(a, b); };
  for (int64_t b = 0; b < z.batch; ++b) {
    for (int64_t k = 0; k < total; ++k)
      row[static_cast<size_t>(k)] = (k < z.features ? ctx.input(0).data<uint8_t>()[b * z.features + k]
                                                    : ctx.input(1).data<uint8_t>()[b * n + k - z.features]) -
                                    128;
    for (int64_t i = 0; i < 4 * n; ++i) {
      uint32_t sum = static_cast<uint32_t>(bias.data<int32_t>()[i]);
      for (int64_t k = 0; k < total; ++k)
        sum += static_cast<uint32_t>((w.data<uint8_t>()[i * total + k] - zero) * row[static_cast<size_t>(k)]);
      gate[static_cast<size_t>(i)] =
          static_cast<int16_t>(std::clamp(rescale_double(static_cast<int32_t>(sum), factor), -32768, 32767));
    }
    if (ctx.wants(2))
      for (int64_t k = 0; k < total; ++k)
        ctx.output(2).data<uint8_t>()[b * total + k] = static_cast<uint8_t>(row[static_cast<size_t>(k)] + 128);
    if (ctx.wants(3)) std::copy(gate.begin(), gate.end(), ctx.output(3).data<int16_t>() + b * 4 * n);
    for (int64_t i = 0; i < n; ++i) {
      const int16_t* g = gate.data() + i;
      const int16_t added = mul(logistic_fixed16(g[0], 3), tanh_fixed16(g[n], 3));
      const int16_t kept = mul(logistic_fixed16(g[2 * n], 3), cell.data<int16_t>()[b * n + i]);
      const auto state = static_cast<int16_t>(std::clamp(rounding_divide_by_pot(added, 4) + kept, -32768, 32767));
      const int16_t out = mul(logistic_fixed16(g[3 * n], 3), tanh_fixed16(state, 4));
      ctx.output(1).data<int16_t>()[b * n + i] = state;
      ctx.output(0).data<uint8_t>()[b * n + i] =
          static_cast<uint8_t>(128 + std::clamp(rounding_divide_by_pot(out, 8), -128, 127));
    }
  }
  return Ok();
}

}  // namespace

Status run_basic(KernelContext& ctx) {
  SMELT_ASSIGN(const Basic z, sizes_of(ctx));
  if (!ctx.wants(0) || !ctx.wants(1)) return InvalidModel("the basic kernel's outputs are its states");
  if (ctx.input(0).dtype() == DType::kU8) return run_integer(ctx, z);
  for (int i = 0; i < 5; ++i)
    if (ctx.input(i).dtype() != DType::kF32) return Unsupported("input ", i, " is ", to_string(ctx.input(i).dtype()));
  run_real(ctx, z);
  return Ok();
}

}  // namespace smelt::tf_lstm
