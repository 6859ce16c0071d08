// ONNX RNN, GRU and LSTM: shape rule and reference kernel.
#include "ops/recurrent/recurrent.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "ops/common/dynamic_quant.h"
#include "ops/core/op.h"
#include "ops/recurrent/gates.h"
#include "tensor/numeric.h"

namespace smelt {

namespace {

int gates_of(RecurrentAttrs::Cell cell) {
  return cell == RecurrentAttrs::Cell::kRnn ? 1 : cell == RecurrentAttrs::Cell::kGru ? 3 : 4;
}

/// All operands as T, with strides that hide the two layouts.
template <class T>
struct Operands {
  int64_t steps, batch, input, hidden;
  int directions;
  std::vector<T> x, w, r, b, h0, c0, peephole;
  std::vector<int64_t> lengths;
  int64_t x_step, x_batch;         // strides of x
  int64_t y_step, y_dir, y_batch;  // of y
  int64_t s_dir, s_batch;          // of states
};

template <class T>
std::vector<T> load(KernelContext& ctx, int i) {
  std::vector<T> out;
  if (!ctx.has(i)) return out;
  const Tensor& t = ctx.input(i);
  out.resize(static_cast<size_t>(t.elements()));
  if (t.quant()) {
    std::vector<float> real(out.size());
    dequantize(t, real.data());
    std::copy(real.begin(), real.end(), out.begin());
    return out;
  }
  if constexpr (std::is_same_v<T, double>)
    to_doubles(t, out.data());
  else
    to_floats(t, out.data());
  return out;
}

/// out[rows] += m[rows, n] * v[n]
template <class T>
void accumulate(const T* m, const T* v, int64_t rows, int64_t n, T* out) {
  for (int64_t i = 0; i < rows; ++i) {
    T sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += m[i * n + k] * v[k];
    out[i] += sum;
  }
}

/// Runs one direction of one sequence.
template <class T>
class Cell {
 public:
  Cell(const RecurrentAttrs& a, const Operands<T>& o, const RecurrentGate* gates, int direction)
      : a_(a), o_(o), gates_(gates), hidden_(o.hidden), count_(gates_of(a.cell)) {
    const int64_t gh = count_ * hidden_;
    w_ = o.w.data() + direction * gh * o.input;
    r_ = o.r.data() + direction * gh * hidden_;
    b_ = o.b.empty() ? nullptr : o.b.data() + direction * 2 * gh;
    p_ = o.peephole.empty() ? nullptr : o.peephole.data() + direction * 3 * hidden_;
    pre_.resize(static_cast<size_t>(gh));
    rec_.resize(static_cast<size_t>(gh));
  }

  /// `seen` is h as the recurrent product takes it.
  void step(const T* x, T* h, T* c, const T* seen) {
    const int64_t gh = count_ * hidden_;
    for (int64_t i = 0; i < gh; ++i) pre_[i] = b_ ? b_[i] : T(0);
    accumulate(w_, x, gh, o_.input, pre_.data());
    if (a_.cell == RecurrentAttrs::Cell::kGru) return gru(h);
    for (int64_t i = 0; i < gh; ++i) pre_[i] += b_ ? b_[gh + i] : T(0);
    accumulate(r_, seen, gh, hidden_, pre_.data());
    if (a_.cell == RecurrentAttrs::Cell::kRnn) {
      for (int64_t i = 0; i < hidden_; ++i) h[i] = act(0, pre_[i]);
    } else {
      lstm(h, c);
    }
  }

 private:
  T act(int which, T v) const {
    const double x = a_.clip > 0 ? std::clamp<double>(v, -a_.clip, a_.clip) : static_cast<double>(v);
    return static_cast<T>(gates_[which](x));
  }

  void gru(T* h) {
    T *z = pre_.data(), *r = z + hidden_, *n = r + hidden_;
    const T* rb = b_ ? b_ + 3 * hidden_ : nullptr;
    if (rb)
      for (int64_t i = 0; i < 2 * hidden_; ++i) pre_[i] += rb[i];
    accumulate(r_, h, 2 * hidden_, hidden_, z);
    for (int64_t i = 0; i < hidden_; ++i) {
      z[i] = act(0, z[i]);
      r[i] = act(0, r[i]);
    }
    const T* rh = r_ + 2 * hidden_ * hidden_;
    for (int64_t i = 0; i < hidden_; ++i) rec_[i] = rb ? rb[2 * hidden_ + i] : T(0);
    if (a_.linear_before_reset) {
      accumulate(rh, h, hidden_, hidden_, rec_.data());
      for (int64_t i = 0; i < hidden_; ++i) n[i] += r[i] * rec_[i];
    } else {
      for (int64_t i = 0; i < hidden_; ++i) r[i] *= h[i];
      accumulate(rh, r, hidden_, hidden_, rec_.data());
      for (int64_t i = 0; i < hidden_; ++i) n[i] += rec_[i];
    }
    for (int64_t i = 0; i < hidden_; ++i) h[i] = (1 - z[i]) * act(1, n[i]) + z[i] * h[i];
  }

  void lstm(T* h, T* c) {
    const T *i = pre_.data(), *o = i + hidden_, *f = o + hidden_, *g = f + hidden_;
    for (int64_t k = 0; k < hidden_; ++k) {
      const T in = act(0, i[k] + (p_ ? p_[k] * c[k] : T(0)));
      const T forget = a_.input_forget ? 1 - in : act(0, f[k] + (p_ ? p_[2 * hidden_ + k] * c[k] : T(0)));
      c[k] = forget * c[k] + in * act(1, g[k]);
      const T out = act(0, o[k] + (p_ ? p_[hidden_ + k] * c[k] : T(0)));
      // The cell state itself is not clipped.
      h[k] = out * static_cast<T>(gates_[2](c[k]));
    }
  }

  const RecurrentAttrs& a_;
  const Operands<T>& o_;
  const RecurrentGate* gates_;
  int64_t hidden_, count_;
  const T *w_, *r_, *b_, *p_;
  std::vector<T> pre_, rec_;
};

template <class T>
void store(KernelContext& ctx, int i, const std::vector<T>& v) {
  if (!ctx.wants(i)) return;
  if constexpr (std::is_same_v<T, double>)
    from_doubles(v.data(), ctx.output(i));
  else
    from_floats(v.data(), ctx.output(i));
}

/// Quantizes and dequantizes values in 8 bits with one scale and zero point for all.
template <class T>
void quantize_dynamically(std::vector<T>& v) {
  float low = 0, high = 0;
  for (const T x : v) {
    low = std::min(low, static_cast<float>(x));
    high = std::max(high, static_cast<float>(x));
  }
  const auto [scale, zero] = choose_byte_quant_params(low, high);
  for (T& x : v) {
    const float q = std::clamp(std::nearbyint(static_cast<float>(x) / scale) + zero, 0.0f, 255.0f);
    x = static_cast<T>((q - zero) * scale);
  }
}

template <class T>
Status run(KernelContext& ctx, const RecurrentAttrs& a, Operands<T>& o) {
  o.x = load<T>(ctx, 0);
  o.w = load<T>(ctx, 1);
  o.r = load<T>(ctx, 2);
  o.b = load<T>(ctx, 3);
  o.h0 = load<T>(ctx, 5);
  o.c0 = load<T>(ctx, 6);
  o.peephole = load<T>(ctx, 7);
  SMELT_ASSIGN(const auto gates, recurrent_gates(a, o.directions));
  const size_t per_direction = gates.size() / static_cast<size_t>(o.directions);
  const int64_t states = o.directions * o.batch * o.hidden;
  std::vector<T> y(static_cast<size_t>(o.steps * states), T(0)), yh(static_cast<size_t>(states), T(0)), yc = yh;
  std::vector<T> h(static_cast<size_t>(o.batch * o.hidden)), c = h, seen;
  const auto length = [&](int64_t n) { return o.lengths.empty() ? o.steps : o.lengths[n]; };
  if (a.dynamic_quantization) quantize_dynamically(o.x);
  for (int d = 0; d < o.directions; ++d) {
    const bool backward = a.backward && (d == 1 || !a.forward);
    Cell<T> cell(a, o, gates.data() + static_cast<size_t>(d) * per_direction, d);
    const auto state = [&](int64_t n) { return d * o.s_dir + n * o.s_batch; };
    for (int64_t n = 0; n < o.batch; ++n)
      for (int64_t i = 0; i < o.hidden; ++i) {
        h[n * o.hidden + i] = o.h0.empty() ? T(0) : o.h0[state(n) + i];
        c[n * o.hidden + i] = o.c0.empty() ? T(0) : o.c0[state(n) + i];
      }
    for (int64_t k = 0; k < o.steps; ++k) {
      SMELT_TRY(ctx.tick());
      if (a.dynamic_quantization) {
        seen = h;
        quantize_dynamically(seen);
      }
      for (int64_t n = 0; n < o.batch; ++n) {
        if (k >= length(n)) continue;
        const int64_t t = backward ? length(n) - 1 - k : k;
        T* const hn = h.data() + n * o.hidden;
        cell.step(o.x.data() + t * o.x_step + n * o.x_batch, hn, c.data() + n * o.hidden,
                  a.dynamic_quantization ? seen.data() + n * o.hidden : hn);
        std::copy(hn, hn + o.hidden, y.begin() + t * o.y_step + d * o.y_dir + n * o.y_batch);
      }
    }
    for (int64_t n = 0; n < o.batch; ++n) {
      if (length(n) == 0) continue;
      std::copy_n(h.begin() + n * o.hidden, o.hidden, yh.begin() + state(n));
      std::copy_n(c.begin() + n * o.hidden, o.hidden, yc.begin() + state(n));
    }
  }
  store(ctx, 0, y);
  store(ctx, 1, yh);
  store(ctx, 2, yc);
  return Ok();
}

template <class T>
Status start(KernelContext& ctx) {
  const auto& a = ctx.attrs<RecurrentAttrs>();
  const Shape& xs = ctx.input(0).shape();
  Operands<T> o;
  o.directions = (a.forward ? 1 : 0) + (a.backward ? 1 : 0);
  o.steps = xs[a.batch_first ? 1 : 0];
  o.batch = xs[a.batch_first ? 0 : 1];
  o.input = xs[2];
  o.hidden = a.hidden;
  const int64_t d = o.directions, h = o.hidden;
  o.x_step = a.batch_first ? o.input : o.batch * o.input;
  o.x_batch = a.batch_first ? o.steps * o.input : o.input;
  o.y_step = d * h * (a.batch_first ? 1 : o.batch);
  o.y_dir = a.batch_first ? h : o.batch * h;
  o.y_batch = a.batch_first ? o.steps * d * h : h;
  o.s_dir = a.batch_first ? h : o.batch * h;
  o.s_batch = a.batch_first ? d * h : h;
  if (ctx.has(4)) {
    o.lengths.resize(static_cast<size_t>(ctx.input(4).elements()));
    to_ints(ctx.input(4), o.lengths.data());
    for (const int64_t v : o.lengths)
      if (v < 0 || v > o.steps) return InvalidInput("sequence length ", v, " is not in [0, ", o.steps, "]");
  }
  return run<T>(ctx, a, o);
}

Status expect(InferContext& ctx, int i, const Shape& want, const char* what) {
  if (!ctx.has(i) || !ctx.input(i).ranked) return Ok();
  const Shape& have = ctx.input(i).shape;
  bool fits = have.rank() == want.rank();
  for (int k = 0; fits && k < have.rank(); ++k) fits = have[k] < 0 || want[k] < 0 || have[k] == want[k];
  return fits ? Ok() : InvalidModel(what, " has shape ", have.str(), ", ", want.str(), " expected");
}

}  // namespace

Status infer_Recurrent(InferContext& ctx) {
  const auto& a = ctx.attrs<RecurrentAttrs>();
  const ValueType& x = ctx.input(0);
  const int64_t d = (a.forward ? 1 : 0) + (a.backward ? 1 : 0), h = a.hidden, g = gates_of(a.cell);
  if (d == 0) return InvalidModel("neither direction is asked for");
  if (h < 1 || h > (int64_t{1} << 24)) return InvalidModel("hidden size ", h);
  int64_t steps = -1, batch = -1, input = -1;
  if (x.ranked) {
    if (x.shape.rank() != 3) return InvalidModel("x has shape ", x.shape.str(), ", rank 3 expected");
    steps = x.shape[a.batch_first ? 1 : 0];
    batch = x.shape[a.batch_first ? 0 : 1];
    input = x.shape[2];
  }
  const Shape state = a.batch_first ? Shape{batch, d, h} : Shape{d, batch, h};
  const auto of_gates = [&](int i, int64_t k) {  // quantized ones: rows of all directions, with a scale each
    return ctx.has(i) && ctx.input(i).quant ? Shape{d * g * h, k} : Shape{d, g * h, k};
  };
  SMELT_TRY(expect(ctx, 1, of_gates(1, input), "w"));
  SMELT_TRY(expect(ctx, 2, of_gates(2, h), "r"));
  SMELT_TRY(expect(ctx, 3, Shape{d, 2 * g * h}, "b"));
  SMELT_TRY(expect(ctx, 4, Shape{batch}, "sequence_lens"));
  SMELT_TRY(expect(ctx, 5, state, "initial_h"));
  SMELT_TRY(expect(ctx, 6, state, "initial_c"));
  SMELT_TRY(expect(ctx, 7, Shape{d, 3 * h}, "the peephole"));
  if (a.batch_first)
    ctx.set(0, ValueType::tensor(x.dtype, Shape{batch, steps, d, h}));
  else
    ctx.set(0, ValueType::tensor(x.dtype, Shape{steps, d, batch, h}));
  ctx.set(1, ValueType::tensor(x.dtype, state));
  ctx.set(2, ValueType::tensor(x.dtype, state));
  return Ok();
}

Status reference_Recurrent(KernelContext& ctx) {
  if (!is_float(ctx.input(0).dtype())) return InvalidInput("x is no floating-point tensor");
  return ctx.input(0).dtype() == DType::kF64 ? start<double>(ctx) : start<float>(ctx);
}

}  // namespace smelt
