// Integer LSTM cells: int8 activations and weights, int16 gates and cell.
#include <algorithm>
#include <cmath>

#include "ops/common/fixed_functions.h"
#include "ops/common/fixed_point.h"
#include "ops/recurrent/fixed_cell.h"
#include "ops/recurrent/tf_lstm.h"

namespace smelt::tf_lstm {
namespace {

int16_t clamp16(int64_t v) { return static_cast<int16_t>(std::clamp<int64_t>(v, -32768, 32767)); }
int8_t clamp8(int64_t v) { return static_cast<int8_t>(std::clamp<int64_t>(v, -128, 127)); }

Result<const Tensor*> typed(const KernelContext& ctx, int i, DType dtype, int64_t n, bool needs_scale) {
  if (i < 0 || !ctx.has(i)) return static_cast<const Tensor*>(nullptr);
  const Tensor& t = ctx.input(i);
  if (t.dtype() != dtype || t.elements() != n)
    return InvalidModel("input ", i, " is ", to_string(t.dtype()), t.shape().str(), ", ", n, " elements of ",
                        to_string(dtype), " expected");
  if (needs_scale && !t.quant()) return InvalidModel("input ", i, " has no quantization parameters");
  return &t;
}

/// weights [rows, columns] times int8 rows with the zero point subtracted, plus bias: int32 with wrapping.
int32_t dot(const int8_t* w, const int8_t* x, int64_t n, int32_t zero, int32_t bias) {
  uint32_t sum = static_cast<uint32_t>(bias);
  for (int64_t k = 0; k < n; ++k) sum += static_cast<uint32_t>(w[k] * (x[k] - zero));
  return static_cast<int32_t>(sum);
}

struct IntegerGate {
  const Tensor *w = nullptr, *r = nullptr, *peephole = nullptr, *norm = nullptr, *bias = nullptr;
  FixedFactor w_factor, r_factor, peephole_factor, norm_factor;
  int32_t variance_guard = 1;
  float norm_scale = 1;
  // 8x8_8: the two products are int8 with zero points of their own before they are added.
  FixedFactor w_sum, r_sum;
  int32_t w_zero = 0, r_zero = 0;
};

struct IntegerCell {
  std::array<IntegerGate, 4> gates;
  const Tensor *projection = nullptr, *projection_bias = nullptr;
  int64_t units = 0, outputs = 0, features = 0, batch = 0;
  int32_t x_zero = 0, h_zero = 0, cell_log2 = 0;
  float x_scale = 1, h_scale = 1, y_scale = 1, cell_scale = 1;
  int16_t cell_clip = 0;
  int32_t proj_clip = 0;
};

float scale_of(const Tensor* t) { return t ? t->quant()->scale() : 1.f; }

Status read_cell(KernelContext& ctx, const Inputs& in, const Stream& s, const tf_cells::Walk& walk, IntegerCell& c) {
  c.features = walk.features;
  c.batch = walk.batch;
  SMELT_ASSIGN(c.outputs, output_units(ctx, in, false));
  c.units = ctx.input(in.w[kOutput]).rank() == 2 ? ctx.input(in.w[kOutput]).dim(0) : 0;
  if (c.units < 1) return InvalidModel("no cells");
  for (size_t g = 0; g < 4; ++g) {
    IntegerGate& gate = c.gates[g];
    SMELT_ASSIGN(gate.w, typed(ctx, in.w[g], DType::kI8, c.units * c.features, true));
    SMELT_ASSIGN(gate.r, typed(ctx, in.r[g], DType::kI8, c.units * c.outputs, true));
    SMELT_ASSIGN(gate.bias, typed(ctx, in.bias[g], DType::kI32, c.units, false));
    if (g != kInput && (!gate.w || !gate.r)) return InvalidModel("weights of a gate are absent");
    if (g != kCell) {
      const int p = in.peephole[g == kOutput ? 2 : g];
      SMELT_ASSIGN(gate.peephole, typed(ctx, p, DType::kI16, c.units, true));
    }
    if (in.norm[g] >= 0) {
      SMELT_ASSIGN(gate.norm, typed(ctx, in.norm[g], DType::kI16, c.units, true));
    }
    if (gate.norm && !gate.bias) return InvalidModel("layer normalization without a bias");
    gate.norm_scale = scale_of(gate.norm);
    gate.norm_factor = fixed_factor(gate.norm_scale);
    gate.variance_guard = std::max(1, static_cast<int32_t>(std::min(1e9f, 10000 * gate.norm_scale)));
  }
  SMELT_ASSIGN(c.projection, typed(ctx, in.projection, DType::kI8, c.outputs * c.units, true));
  SMELT_ASSIGN(c.projection_bias, typed(ctx, in.projection_bias, DType::kI32, c.outputs, false));
  if (!c.projection && c.units != c.outputs)
    return InvalidModel(c.units, " cells for ", c.outputs, " outputs without a projection");
  SMELT_ASSIGN(const Tensor* h, typed(ctx, in.output_state, DType::kI8, c.batch * c.outputs, true));
  SMELT_ASSIGN(const Tensor* cell, typed(ctx, in.cell_state, DType::kI16, c.batch * c.units, true));
  if (!h || !cell) return InvalidModel("a state input is absent");
  if (!s.x->quant() || !s.y || !s.y->quant() || s.y->dtype() != DType::kI8)
    return InvalidModel("input or output has no quantization parameters");
  c.x_zero = s.x->quant()->zero_point();
  c.x_scale = s.x->quant()->scale();
  c.h_zero = h->quant()->zero_point();
  c.h_scale = h->quant()->scale();
  c.y_scale = s.y->quant()->scale();
  c.cell_scale = cell->quant()->scale();
  SMELT_ASSIGN(c.cell_log2, cell_exponent(c.cell_scale));
  const auto& a = ctx.attrs<TfLstmAttrs>();
  c.cell_clip = quantized_cell_clip(a.cell_clip, c.cell_scale);
  if (a.proj_clip > 0)
    c.proj_clip = static_cast<int32_t>(std::clamp(static_cast<float>(a.proj_clip) / c.y_scale, -128.f, 127.f));
  return Ok();
}

/// Scale and zero point of an intermediate; errors name it.
Result<std::pair<float, int32_t>> intermediate(const TfLstmAttrs& a, size_t i) {
  const QuantPtr& q = a.intermediates[i].quant;
  if (!q || !(q->scale() > 0)) return InvalidModel("intermediate ", i, " has no quantization parameters");
  return std::pair{q->scale(), q->zero_point()};
}

void normalize_fixed(std::vector<int16_t>& rows, const IntegerGate& g, int64_t batch, int64_t n) {
  constexpr int32_t kTwo20 = 1 << 20;
  for (int64_t b = 0; b < batch; ++b) {
    int16_t* row = rows.data() + b * n;
    int64_t sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += row[i];
      squares += row[i] * row[i];
    }
    const auto mean = static_cast<int32_t>(sum * 1024 / n);
    const int64_t wide =
        squares * static_cast<int64_t>(kTwo20 / static_cast<int32_t>(n)) - static_cast<int64_t>(mean) * mean;
    auto variance = static_cast<int32_t>(wide / kTwo20);
    if (variance < 1) variance = g.variance_guard;
    const FixedFactor inverse = fixed_inverse_sqrt(variance);
    for (int64_t i = 0; i < n; ++i) {
      const int32_t shifted = 1024 * row[i] - mean;
      const int32_t scaled = rescale_double(shifted, inverse);
      const int64_t weighted = static_cast<int32_t>(
          static_cast<uint32_t>(scaled) * static_cast<uint32_t>(static_cast<int32_t>(g.norm->data<int16_t>()[i])) +
          static_cast<uint32_t>(g.bias->data<int32_t>()[i]));
      const auto reduced = static_cast<int32_t>((weighted > 0 ? weighted + 512 : weighted - 512) / 1024);
      row[i] = clamp16(rescale_double(reduced, {g.norm_factor.multiplier, std::min(30, g.norm_factor.shift + 12)}));
    }
  }
}

struct States {
  std::vector<int8_t> h;
  std::vector<int16_t> cell;
};

States read_states(const KernelContext& ctx, const Inputs& in) {
  const Tensor &h = ctx.input(in.output_state), &c = ctx.input(in.cell_state);
  return {{h.data<int8_t>(), h.data<int8_t>() + h.elements()}, {c.data<int16_t>(), c.data<int16_t>() + c.elements()}};
}

void write_states(KernelContext& ctx, const Stream& s, const States& st) {
  if (ctx.wants(s.out_state)) std::copy(st.h.begin(), st.h.end(), ctx.output(s.out_state).data<int8_t>());
  if (ctx.wants(s.out_cell)) std::copy(st.cell.begin(), st.cell.end(), ctx.output(s.out_cell).data<int16_t>());
}

/// Walks the sequence: step(x, states) computes one step.
template <class F>
Status for_each_step(KernelContext& ctx, const Stream& s, const tf_cells::Walk& walk, const IntegerCell& c, States& st,
                     F&& step) {
  std::vector<int8_t> x(static_cast<size_t>(c.batch * c.features));
  const auto row = [&](int64_t b, int64_t t) { return walk.time_major ? t * walk.batch + b : b * walk.time + t; };
  for (int64_t i = 0; i < walk.time; ++i) {
    SMELT_TRY(ctx.tick());
    const int64_t t = s.backward ? walk.time - 1 - i : i;
    for (int64_t b = 0; b < c.batch; ++b)
      std::copy_n(s.x->data<int8_t>() + row(b, t) * c.features, c.features, x.begin() + b * c.features);
    step(x.data(), st);
    for (int64_t b = 0; b < c.batch; ++b)
      std::copy_n(st.h.begin() + b * c.outputs, c.outputs, s.y->data<int8_t>() + row(b, t) * s.stride + s.offset);
  }
  write_states(ctx, s, st);
  return Ok();
}

std::vector<int16_t> gate_16(const IntegerCell& c, const IntegerGate& g, const int8_t* x, const States& st,
                             bool is_cell) {
  const int64_t n = c.units;
  std::vector<int16_t> out(static_cast<size_t>(c.batch * n));
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t i = 0; i < n; ++i) {
      const int32_t bias = g.bias && !g.norm ? g.bias->data<int32_t>()[i] : 0;
      const int32_t from_x = dot(g.w->data<int8_t>() + i * c.features, x + b * c.features, c.features, c.x_zero, bias);
      const int32_t from_h =
          dot(g.r->data<int8_t>() + i * c.outputs, st.h.data() + b * c.outputs, c.outputs, c.h_zero, 0);
      int16_t v = clamp16(rescale_double(from_x, g.w_factor));
      v = clamp16(static_cast<int64_t>(rescale_double(from_h, g.r_factor)) + v);
      if (g.peephole) {
        const int32_t product = g.peephole->data<int16_t>()[i] * st.cell[static_cast<size_t>(b * n + i)];
        v = clamp16(static_cast<int64_t>(rescale_double(product, g.peephole_factor)) + v);
      }
      out[static_cast<size_t>(b * n + i)] = v;
    }
  if (g.norm) normalize_fixed(out, g, c.batch, n);
  for (int16_t& v : out) v = is_cell ? tanh_fixed16(v, 3) : logistic_fixed16(v, 3);
  return out;
}

}  // namespace

int16_t quantized_cell_clip(double cell_clip, float cell_scale) {
  if (!(cell_clip > 0)) return 0;
  return static_cast<int16_t>(std::clamp(static_cast<float>(cell_clip) / cell_scale, -32768.f, 32767.f));
}

Result<int32_t> cell_exponent(float cell_scale) {
  const auto log2 = cell_scale > 0 ? static_cast<int32_t>(std::lround(std::log2(cell_scale))) : 0;
  if (std::ldexp(1.f, log2) != cell_scale || log2 > -9 || log2 < -15)
    return InvalidModel("a cell state of scale ", cell_scale, ", a power of two from 2^-15 to 2^-9 expected");
  return log2;
}

void update_cell(int16_t* cell, const int16_t* input, const int16_t* forget, const int16_t* update, int64_t n,
                 int32_t cell_log2, int16_t bound) {
  for (int64_t i = 0; i < n; ++i) {
    const int32_t kept = rounding_divide_by_pot(forget[i] * cell[i], 15);
    const int32_t gate = input ? input[i] : 32767 - forget[i];
    const int32_t added = rounding_divide_by_pot(gate * update[i], 30 + cell_log2);
    cell[i] = clamp16(static_cast<int64_t>(static_cast<int16_t>(kept)) + static_cast<int16_t>(added));
    if (bound > 0) cell[i] = std::clamp<int16_t>(cell[i], static_cast<int16_t>(-bound), bound);
  }
}

Status run_integer_16(KernelContext& ctx, const Inputs& in, const Stream& s) {
  const auto& a = ctx.attrs<TfLstmAttrs>();
  SMELT_ASSIGN(const auto walk, tf_cells::walk_of(*s.x, a.sequence, a.time_major));
  IntegerCell c;
  SMELT_TRY(read_cell(ctx, in, s, walk, c));
  const bool norm = c.gates[kForget].norm != nullptr;
  for (size_t g = 0; g < 4; ++g) {
    IntegerGate& gate = c.gates[g];
    float scale = std::ldexp(1.f, -12);
    if (norm) {
      SMELT_ASSIGN(const auto q, intermediate(a, g));
      scale = q.first;
    }
    gate.w_factor = gate_factor(scale_of(gate.w), c.x_scale, scale);
    gate.r_factor = gate_factor(scale_of(gate.r), c.h_scale, scale);
    gate.peephole_factor =
        fixed_factor(static_cast<float>(std::ldexp(1.0, c.cell_log2) * scale_of(gate.peephole) / scale));
  }
  SMELT_ASSIGN(const auto hidden, intermediate(a, 4));
  const FixedFactor to_hidden = hidden_factor(hidden.first);
  const FixedFactor proj_factor = fixed_factor(scale_of(c.projection) * hidden.first / c.h_scale);
  States st = read_states(ctx, in);
  std::vector<int8_t> product(static_cast<size_t>(c.batch * c.units));
  return for_each_step(ctx, s, walk, c, st, [&](const int8_t* x, States& state) {
    std::vector<int16_t> input;
    if (c.gates[kInput].w) input = gate_16(c, c.gates[kInput], x, state, false);
    const auto forget = gate_16(c, c.gates[kForget], x, state, false);
    const auto update = gate_16(c, c.gates[kCell], x, state, true);
    update_cell(state.cell.data(), input.empty() ? nullptr : input.data(), forget.data(), update.data(),
                c.batch * c.units, c.cell_log2, c.cell_clip);
    const auto out = gate_16(c, c.gates[kOutput], x, state, false);
    const int32_t zero = c.projection ? -hidden.second : hidden.second;
    for (size_t i = 0; i < out.size(); ++i) {
      const int32_t v = out[i] * tanh_fixed16(state.cell[i], 15 + c.cell_log2);
      product[i] = clamp8(static_cast<int64_t>(rescale_double(v, to_hidden)) + zero);
    }
    if (!c.projection) {
      state.h = product;
      return;
    }
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t o = 0; o < c.outputs; ++o) {
        const int32_t sum = dot(c.projection->data<int8_t>() + o * c.units, product.data() + b * c.units, c.units,
                                -hidden.second, c.projection_bias ? c.projection_bias->data<int32_t>()[o] : 0);
        int64_t v = static_cast<int64_t>(rescale_double(sum, proj_factor)) + c.h_zero;
        v = clamp8(v);
        if (c.proj_clip > 0) v = std::clamp<int64_t>(v, -c.proj_clip, c.proj_clip);
        state.h[static_cast<size_t>(b * c.outputs + o)] = static_cast<int8_t>(v);
      }
  });
}

namespace {

/// Rounds towards zero into 15 fraction bits.
int16_t to_q15(float v) { return clamp16(static_cast<int64_t>(v * 32768.f)); }

std::vector<int16_t> gate_8(const IntegerCell& c, const IntegerGate& g, const int8_t* x, const States& st,
                            bool is_cell) {
  const int64_t n = c.units;
  std::vector<int16_t> out(static_cast<size_t>(c.batch * n));
  const float norm_scale = static_cast<float>(g.norm_factor.multiplier * std::ldexp(1.0, g.norm_factor.shift - 31));
  const float bias_scale = std::ldexp(1.f, -10) * norm_scale;
  for (int64_t b = 0; b < c.batch; ++b) {
    int16_t* row = out.data() + b * n;
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t from_x = dot(g.w->data<int8_t>() + i * c.features, x + b * c.features, c.features, c.x_zero, 0);
      const int32_t from_h =
          dot(g.r->data<int8_t>() + i * c.outputs, st.h.data() + b * c.outputs, c.outputs, c.h_zero, 0);
      const int32_t qx = clamp8(static_cast<int64_t>(rescale_double(from_x, g.w_factor)) + g.w_zero) - g.w_zero;
      const int32_t qh = clamp8(static_cast<int64_t>(rescale_double(from_h, g.r_factor)) + g.r_zero) - g.r_zero;
      row[i] = clamp16(static_cast<int64_t>(rescale_double(qx, g.w_sum)) + rescale_double(qh, g.r_sum));
      sum += row[i];
      squares += static_cast<float>(row[i]) * static_cast<float>(row[i]);
    }
    const float mean = sum / static_cast<float>(n);
    const float variance = squares / static_cast<float>(n) - mean * mean;
    const float inverse = 1.f / std::sqrt(variance == 0 ? 1e-8f : variance);
    for (int64_t i = 0; i < n; ++i) {
      const float v = (static_cast<float>(row[i]) - mean) * inverse * g.norm->data<int16_t>()[i] * norm_scale +
                      static_cast<float>(g.bias->data<int32_t>()[i]) * bias_scale;
      row[i] = clamp16(static_cast<int64_t>(std::round(v * 4096.f)));
      const float real = static_cast<float>(row[i]) / 4096.f;
      row[i] = is_cell ? to_q15(std::tanh(real)) : to_q15(1.f / (1.f + std::exp(-real)));
    }
  }
  return out;
}

}  // namespace

Status run_integer_8(KernelContext& ctx, const Inputs& in, const Stream& s) {
  const auto& a = ctx.attrs<TfLstmAttrs>();
  SMELT_ASSIGN(const auto walk, tf_cells::walk_of(*s.x, a.sequence, a.time_major));
  IntegerCell c;
  SMELT_TRY(read_cell(ctx, in, s, walk, c));
  if (c.gates[kInput].w || !c.projection || !c.gates[kForget].norm || !c.gates[kCell].norm || !c.gates[kOutput].norm)
    return Unsupported("the 8-bit gate kernel without coupled gates, layer normalization and projection");
  if (c.cell_scale != 1.f / 32768) return InvalidModel("a cell state of scale ", c.cell_scale, ", 2^-15 expected");
  if (a.cell_clip >= 1) c.cell_clip = 0;
  for (size_t g = kForget; g <= kOutput; ++g) {
    // Intermediates come in threes: the sum, the input's product, the recurrent product.
    IntegerGate& gate = c.gates[g];
    SMELT_ASSIGN(const auto sum, intermediate(a, 3 * g));
    SMELT_ASSIGN(const auto from_x, intermediate(a, 3 * g + 1));
    SMELT_ASSIGN(const auto from_h, intermediate(a, 3 * g + 2));
    gate.w_factor = fixed_factor(scale_of(gate.w) * c.x_scale / from_x.first);
    gate.r_factor = fixed_factor(scale_of(gate.r) * c.h_scale / from_h.first);
    gate.w_sum = fixed_factor(from_x.first / sum.first);
    gate.r_sum = fixed_factor(from_h.first / sum.first);
    gate.w_zero = from_x.second;
    gate.r_zero = from_h.second;
  }
  const FixedFactor proj_factor = fixed_factor(scale_of(c.projection) * std::ldexp(1.f, -15) / c.h_scale);
  States st = read_states(ctx, in);
  return for_each_step(ctx, s, walk, c, st, [&](const int8_t* x, States& state) {
    const auto forget = gate_8(c, c.gates[kForget], x, state, false);
    const auto update = gate_8(c, c.gates[kCell], x, state, true);
    update_cell(state.cell.data(), nullptr, forget.data(), update.data(), c.batch * c.units, -15, c.cell_clip);
    const auto out = gate_8(c, c.gates[kOutput], x, state, false);
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t o = 0; o < c.outputs; ++o) {
        int64_t sum = c.projection_bias ? c.projection_bias->data<int32_t>()[o] : 0;
        for (int64_t i = 0; i < c.units; ++i) {
          const auto at = static_cast<size_t>(b * c.units + i);
          const auto v = static_cast<int16_t>(
              rounding_divide_by_pot(out[at] * to_q15(std::tanh(static_cast<float>(state.cell[at]) / 32768.f)), 15));
          sum += v * c.projection->data<int8_t>()[o * c.units + i];
        }
        int64_t v = static_cast<int64_t>(rescale_double(saturate_int32(sum), proj_factor)) + c.h_zero;
        v = clamp8(v);
        if (c.proj_clip > 0) v = std::clamp<int64_t>(v, -c.proj_clip, c.proj_clip);
        state.h[static_cast<size_t>(b * c.outputs + o)] = static_cast<int8_t>(v);
      }
  });
}

}  // namespace smelt::tf_lstm
