#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/recurrent/recurrent_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "backends/cpu/recurrent/dynamic_product.h"
#include "ops/recurrent/recurrent.h"

#ifndef SMELT_CPU_RECURRENT_F32
#define SMELT_CPU_RECURRENT_F32
namespace smelt {
/// One sequence at one step. Gates lie `n` apart, n a multiple of 16.
struct CellStep {
  const float* pre;       ///< what the input contributes, biases included
  const float* rec;       ///< what the state contributes
  float *h, *c;           ///< the states, rewritten
  float* reset;           ///< GRU: the reset gate, or times h where the product with the weights comes behind it
  const float* peephole;  ///< LSTM, or null: i, o, f
  int64_t n;
  float clip;
  bool input_forget, linear_before_reset, relu;
};
struct CellOps {
  void (*rnn)(const CellStep&);
  void (*gru_gates)(const CellStep&);  ///< the update gate goes to c
  void (*gru_state)(const CellStep&);  ///< rec is the candidate's
  void (*lstm)(const CellStep&);
  /// What is left of n values that pass through 8 bits with one scale and zero point for all of them.
  void (*through_bytes)(const float* x, int64_t n, float* y);
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V clipped(D d, V x, float clip) { return clamp(x, hn::Set(d, -clip), hn::Set(d, clip)); }
HWY_INLINE V sum_at(D d, const CellStep& s, int64_t i) {
  return hn::Add(hn::LoadU(d, s.pre + i), hn::LoadU(d, s.rec + i));
}

void rnn(const CellStep& s) {
  const D d;
  for (int64_t i = 0; i < s.n; i += HWY_MAX_BYTES / 4) {
    const V x = clipped(d, sum_at(d, s, i), s.clip);
    hn::StoreU(s.relu ? hn::Max(x, hn::Zero(d)) : tanh_f32(d, x), d, s.h + i);
  }
}

void gru_gates(const CellStep& s) {
  const D d;
  for (int64_t i = 0; i < s.n; i += HWY_MAX_BYTES / 4) {
    hn::StoreU(sigmoid_f32(d, clipped(d, sum_at(d, s, i), s.clip)), d, s.c + i);
    const V r = sigmoid_f32(d, clipped(d, sum_at(d, s, s.n + i), s.clip));
    hn::StoreU(s.linear_before_reset ? r : hn::Mul(r, hn::LoadU(d, s.h + i)), d, s.reset + i);
  }
}
void gru_state(const CellStep& s) {
  const D d;
  for (int64_t i = 0; i < s.n; i += HWY_MAX_BYTES / 4) {
    const V rec = hn::LoadU(d, s.rec + i), pre = hn::LoadU(d, s.pre + 2 * s.n + i);
    const V x = s.linear_before_reset ? hn::MulAdd(hn::LoadU(d, s.reset + i), rec, pre) : hn::Add(pre, rec);
    const V candidate = tanh_f32(d, clipped(d, x, s.clip)), z = hn::LoadU(d, s.c + i);
    hn::StoreU(hn::MulAdd(z, hn::Sub(hn::LoadU(d, s.h + i), candidate), candidate), d, s.h + i);
  }
}

void lstm(const CellStep& s) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  for (int64_t i = 0; i < s.n; i += HWY_MAX_BYTES / 4) {
    const auto gate = [&](int at, int peephole, V c) HWY_ATTR {
      V x = sum_at(d, s, at * s.n + i);
      if (s.peephole) x = hn::MulAdd(hn::LoadU(d, s.peephole + peephole * s.n + i), c, x);
      return sigmoid_f32(d, clipped(d, x, s.clip));
    };
    V c = hn::LoadU(d, s.c + i);
    const V in = gate(0, 0, c);
    const V forget = s.input_forget ? hn::Sub(one, in) : gate(2, 2, c);
    const V candidate = tanh_f32(d, clipped(d, sum_at(d, s, 3 * s.n + i), s.clip));
    c = hn::MulAdd(forget, c, hn::Mul(in, candidate));
    hn::StoreU(c, d, s.c + i);
    hn::StoreU(gate(1, 1, c), d, s.h + i);
  }
  // By itself: what waits for c would keep the processor from the next vectors' gates.
  for (int64_t i = 0; i < s.n; i += HWY_MAX_BYTES / 4)
    hn::StoreU(hn::Mul(hn::LoadU(d, s.h + i), tanh_f32(d, hn::LoadU(d, s.c + i))), d, s.h + i);
}

void through_bytes(const float* x, int64_t n, float* y) {
  const D d;
  const V zero = hn::Zero(d);
  V low = zero, high = zero;
  float least = 0, most = 0;
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto v = part.load(x + i);  // zeros in the rest change nothing
    if constexpr (part.kSingle) {
      least = std::min(least, x[i]);
      most = std::max(most, x[i]);
    } else {
      low = hn::Min(low, v);
      high = hn::Max(high, v);
    }
  });
  least = std::min(least, hn::GetLane(hn::MinOfLanes(d, low)));
  most = std::max(most, hn::GetLane(hn::MaxOfLanes(d, high)));
  const ByteQuantParams params = choose_byte_quant_params(least, most);
  const float scale = params.scale, at = params.zero;
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto t = part.d;
    const auto q = hn::Add(hn::Round(hn::Div(part.load(x + i), hn::Set(t, scale))), hn::Set(t, at));
    const auto quantized = clamp(q, hn::Zero(t), hn::Set(t, 255.0f));
    part.store(hn::Mul(hn::Sub(quantized, hn::Set(t, at)), hn::Set(t, scale)), y + i);
  });
}

CellOps make_cell_ops() { return {rnn, gru_gates, gru_state, lstm, through_bytes}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

using Cell = RecurrentAttrs::Cell;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kFloat = sizeof(float);

/// The product with the inputs is one matrix product over all steps; each step adds the product with the state.
struct RecurrentKey {
  std::array<const void*, 4> constants;  ///< weights, recurrent weights, biases, peepholes
  std::array<int64_t, 4> sizes;          ///< input, hidden, gates, directions
  const GemmF32* gemm;
  bool linear_before_reset;
  auto operator<=>(const RecurrentKey&) const = default;
};

class RecurrentF32 final : public Kernel {
 public:
  RecurrentF32(const KernelSpec& spec, bool relu)
      : a_(spec.attrs<RecurrentAttrs>()),
        gemm_(gemm_f32(spec.isa)),
        ops_(SMELT_FOR_LEVEL(spec.isa, make_cell_ops)()),
        relu_(relu),
        gates_(a_.cell == Cell::kRnn   ? 1
               : a_.cell == Cell::kGru ? 3
                                       : 4),
        first_(a_.cell == Cell::kGru && !a_.linear_before_reset ? 2 : gates_) {
    const Shape& x = spec.inputs[0].shape;
    steps_ = x[a_.batch_first ? 1 : 0];
    batch_ = x[a_.batch_first ? 0 : 1];
    input_ = x[2];
    hidden_ = a_.hidden;
    n_ = round_up(hidden_, 16);
    directions_ = (a_.forward ? 1 : 0) + (a_.backward ? 1 : 0);
    at_once_ = spec.threads > 1 ? directions_ : 1;
    if (spec.inputs[1].quant) {
      const GateColumns columns{gates_, hidden_, n_, directions_};
      of_x_.emplace(spec, 1, 3, columns, input_);
      of_state_.emplace(spec, 2, -1, columns, hidden_);
    } else {
      w_size_ = gemm_.packed_size(input_, gates_ * n_);
      r_size_ = gemm_.packed_size(hidden_, first_ * n_);
    }
    last_size_ = first_ < gates_ ? gemm_.packed_size(hidden_, n_) : 0;
    direction_size_ = w_size_ + r_size_ + last_size_ + (spec.has(7) ? 3 * n_ : 0);
    has_peephole_ = spec.has(7);
    const auto address = [&](size_t i) -> const void* { return spec.has(i) ? spec.constant(i)->identity() : nullptr; };
    if (of_x_ && !has_peephole_) return;
    const RecurrentKey key{{address(1), address(2), address(3), address(7)},
                           {input_, hidden_, gates_, directions_},
                           &gemm_,
                           a_.linear_before_reset};
    packed_ = spec.packs.get(
        key, [&] { return pack(spec); },
        [&] {
          return spec.contents("recurrent_f32", {input_, hidden_, gates_, first_, directions_, a_.linear_before_reset});
        });
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(of_x_bytes() + coarse_bytes() + at_once_ * direction_bytes());
  }
  Status run(KernelContext& ctx) const override {
    auto* const workspace = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!workspace) return Error(ErrorCode::kLimit, "no memory for the gates of a recurrent operator");
    const float* x = ctx.input(0).data<float>();
    if (of_x_) {
      of_x_->quantize(x, input_, steps_ * batch_, workspace);
    } else if (a_.dynamic_quantization) {
      auto* const coarse = reinterpret_cast<float*>(workspace + of_x_bytes());
      ops_.through_bytes(x, steps_ * batch_ * input_, coarse);
      x = coarse;
    }
    ThreadPool& pool = ctx.threads();
    const auto run_directions = [&](int64_t begin, int64_t end) {
      for (int64_t d = begin; d < end; ++d) run_direction(ctx, pool, d, x, workspace);
    };
    // Directions need not wait for each other at every step. More threads than directions share large steps instead.
    const bool few_threads = pool.threads() <= directions_;
    if (at_once_ > 1 && (few_threads || gemm_.panels(first_ * n_) <= panels_a_share(batch_, hidden_)))
      pool.parallel_for(directions_, 1, run_directions);
    else
      run_directions(0, directions_);
    return Ok();
  }

 private:
  /// What a direction works with: all of it is its own.
  struct Direction {
    int64_t d;
    float *pre, *h, *c, *reset, *rec;
    char* of_state;
  };

  int64_t of_x_bytes() const { return of_x_ ? of_x_->workspace_bytes(steps_ * batch_) : 0; }
  int64_t of_state_bytes() const { return of_state_ ? of_state_->workspace_bytes(batch_) : 0; }
  int64_t coarse_bytes() const {
    return a_.dynamic_quantization && !of_x_ ? padded_bytes(steps_ * batch_ * input_ * kFloat) : 0;
  }
  int64_t direction_bytes() const {
    return of_state_bytes() + padded_bytes((steps_ * gates_ + first_ + 1 + 3) * batch_ * n_ * kFloat);
  }
  Direction direction(int64_t d, char* workspace) const {
    char* const of_state = workspace + of_x_bytes() + coarse_bytes() + (at_once_ > 1 ? d : 0) * direction_bytes();
    auto* const pre = reinterpret_cast<float*>(of_state + of_state_bytes());
    const int64_t state = batch_ * n_;
    float* const h = pre + steps_ * gates_ * state;
    return {d, pre, h, h + state, h + 2 * state, h + 3 * state, of_state};
  }
  const float* weights(int64_t d) const { return packed_ ? packed_->data<float>() + d * direction_size_ : nullptr; }

  void run_direction(KernelContext& ctx, ThreadPool& pool, int64_t d, const float* x, char* workspace) const {
    const auto state = [&](int i) { return ctx.has(i) ? ctx.input(i).data<float>() : nullptr; };
    const auto wanted = [&](int i) { return ctx.wants(i) ? ctx.output(i).data<float>() : nullptr; };
    const Direction at = direction(d, workspace);
    const int64_t rows = steps_ * batch_, columns = gates_ * n_;
    const int64_t panels = of_x_ ? of_x_->panels() : gemm_.panels(columns);
    pool.parallel_for(panels, panels_a_share(rows, input_), [&](int64_t first, int64_t last) {
      if (of_x_)
        of_x_->multiply(d, rows, workspace, first, last, at.pre);
      else
        gemm_.run(rows, columns, input_, x, input_, weights(d), first, last, at.pre, columns, nullptr, -kInf, kInf);
    });
    load_state(state(5), d, at.h);
    load_state(state(6), d, at.c);
    const bool backward = a_.backward && (d == 1 || !a_.forward);
    float* y = wanted(0);
    for (int64_t k = 0; k < steps_; ++k) {
      const int64_t t = backward ? steps_ - 1 - k : k;
      step(pool, at, t, k % 2 != 0);
      if (y) store_step(at.h, d, t, y);
    }
    if (float* to = wanted(1)) store_state(at.h, d, to);
    if (float* to = wanted(2)) store_state(at.c, d, to);
  }
  /// Panels whose product with so many rows of k numbers takes a thread as long as threads need to meet.
  int64_t panels_a_share(int64_t rows, int64_t k) const {
    constexpr int64_t kLeast = int64_t{1} << 15;  // products
    return std::max<int64_t>(kLeast / (rows * k * gemm_.nr()), 1);
  }
  /// Row of the state of sequence b, in floats of one hidden state.
  int64_t state_row(int64_t d, int64_t b) const { return a_.batch_first ? b * directions_ + d : d * batch_ + b; }
  void load_state(const float* from, int64_t d, float* to) const {
    std::fill_n(to, batch_ * n_, 0.0f);
    for (int64_t b = 0; from && b < batch_; ++b) std::copy_n(from + state_row(d, b) * hidden_, hidden_, to + b * n_);
  }
  void store_state(const float* from, int64_t d, float* to) const {
    for (int64_t b = 0; b < batch_; ++b) std::copy_n(from + b * n_, hidden_, to + state_row(d, b) * hidden_);
  }
  void store_step(const float* h, int64_t d, int64_t t, float* y) const {
    for (int64_t b = 0; b < batch_; ++b) {
      const int64_t row = a_.batch_first ? (b * steps_ + t) * directions_ + d : (t * directions_ + d) * batch_ + b;
      std::copy_n(h + b * n_, hidden_, y + row * hidden_);
    }
  }
  /// y = x times `packed`, rows of hidden_ numbers by `n` columns. from_last: the last panels first. When every other
  /// step begins with what the one before ended with, a part of a large matrix is still in the second cache.
  void multiply(ThreadPool& pool, const float* x, const float* packed, int64_t n, bool from_last, float* y) const {
    constexpr int64_t kGroup = 16 * 1024;  // floats
    pool.parallel_for(gemm_.panels(n), panels_a_share(batch_, hidden_), [&](int64_t first, int64_t last) {
      const int64_t group = from_last ? std::max<int64_t>(kGroup / (hidden_ * gemm_.nr()), 1) : last - first;
      for (; last > first; last -= group)
        gemm_.run(batch_, n, hidden_, x, n_, packed, std::max(last - group, first), last, y, n, nullptr, -kInf, kInf);
    });
  }
  /// rec: the product of the states and the gates that come first.
  void multiply_state(ThreadPool& pool, const Direction& at, bool from_last) const {
    if (of_state_) {
      of_state_->quantize(at.h, n_, batch_, at.of_state);
      pool.parallel_for(of_state_->panels(), 4 * panels_a_share(batch_, hidden_), [&](int64_t first, int64_t last) {
        of_state_->multiply(at.d, batch_, at.of_state, first, last, at.rec);
      });
      return;
    }
    const float* h = at.h;
    if (a_.dynamic_quantization) {
      ops_.through_bytes(h, batch_ * n_, at.reset);
      h = at.reset;
    }
    multiply(pool, h, weights(at.d) + w_size_, first_ * n_, from_last, at.rec);
  }
  void step(ThreadPool& pool, const Direction& at, int64_t t, bool from_last) const {
    const float* r = weights(at.d) + w_size_;
    multiply_state(pool, at, from_last);
    const auto cell = [&](int64_t b) {
      CellStep s{};
      s.pre = at.pre + (a_.batch_first ? b * steps_ + t : t * batch_ + b) * gates_ * n_;
      s.rec = at.rec + b * first_ * n_;
      s.h = at.h + b * n_;
      s.c = at.c + b * n_;
      s.reset = at.reset + b * n_;
      s.peephole = has_peephole_ ? r + r_size_ + last_size_ : nullptr;
      s.n = n_;
      s.clip = a_.clip > 0 ? static_cast<float>(a_.clip) : kInf;
      s.input_forget = a_.input_forget;
      s.linear_before_reset = a_.linear_before_reset;
      s.relu = relu_;
      return s;
    };
    const auto each_row = [&](auto&& f) {
      constexpr int64_t kLeast = 1024;  // units of cells
      pool.parallel_for(batch_, std::max<int64_t>(kLeast / n_, 1), [&](int64_t b, int64_t end) {
        for (; b < end; ++b) f(b);
      });
    };
    if (a_.cell != Cell::kGru)
      return each_row([&](int64_t b) { (a_.cell == Cell::kRnn ? ops_.rnn : ops_.lstm)(cell(b)); });
    each_row([&](int64_t b) { ops_.gru_gates(cell(b)); });
    float* candidate = at.rec + first_ * batch_ * n_;
    if (first_ < gates_) multiply(pool, at.reset, r + r_size_, n_, false, candidate);
    each_row([&](int64_t b) {
      CellStep s = cell(b);
      s.rec = first_ < gates_ ? candidate + b * n_ : s.rec + 2 * n_;
      ops_.gru_state(s);
    });
  }

  /// Rows [from, to) of gates of m [gates * hidden][k] as a packed k x ((to - from) n) matrix with a bias.
  void pack_gates(const float* m, int64_t k, int64_t from, int64_t to, const std::vector<float>& bias,
                  float* dst) const {
    std::vector<float> wide(static_cast<size_t>((to - from) * n_ * k), 0.0f);
    for (int64_t g = from; g < to; ++g)
      std::copy_n(m + g * hidden_ * k, hidden_ * k, wide.data() + (g - from) * n_ * k);
    gemm_.pack(wide.data(), 1, k, k, (to - from) * n_, bias.empty() ? nullptr : bias.data(), dst);
  }
  Packed pack(const KernelSpec& spec) const {
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(direction_size_ * directions_) * sizeof(float));
    const int64_t rows = gates_ * hidden_;
    if (of_x_) {
      for (int64_t d = 0; d < directions_; ++d) pack_peephole(spec, d, packed->data<float>() + d * direction_size_);
      return packed;
    }
    const Tensor weights = spec.constant(1)->read_once(), recurrence = spec.constant(2)->read_once();
    for (int64_t d = 0; d < directions_; ++d) {
      const float* w = weights.data<float>() + d * rows * input_;
      const float* r = recurrence.data<float>() + d * rows * hidden_;
      const float* b = spec.has(3) ? spec.constant(3)->data<float>() + d * 2 * rows : nullptr;
      std::vector<float> bias(static_cast<size_t>(gates_ * n_), 0.0f), of_state = bias;
      for (int64_t g = 0; b && g < gates_; ++g)
        for (int64_t i = 0; i < hidden_; ++i) {
          const bool apart = g == 2 && a_.cell == Cell::kGru && a_.linear_before_reset;
          bias[static_cast<size_t>(g * n_ + i)] = b[g * hidden_ + i] + (apart ? 0.0f : b[rows + g * hidden_ + i]);
          if (apart) of_state[static_cast<size_t>(g * n_ + i)] = b[rows + g * hidden_ + i];
        }
      float* to = packed->data<float>() + d * direction_size_;
      pack_gates(w, input_, 0, gates_, bias, to);
      pack_gates(r, hidden_, 0, first_, of_state, to + w_size_);
      if (first_ < gates_) pack_gates(r, hidden_, first_, gates_, {}, to + w_size_ + r_size_);
      pack_peephole(spec, d, to + w_size_ + r_size_ + last_size_);
    }
    return packed;
  }
  void pack_peephole(const KernelSpec& spec, int64_t d, float* to) const {
    for (int64_t g = 0; has_peephole_ && g < 3; ++g)
      std::copy_n(spec.constant(7)->data<float>() + (d * 3 + g) * hidden_, hidden_, to + g * n_);
  }

  RecurrentAttrs a_;
  const GemmF32& gemm_;
  CellOps ops_;
  bool relu_, has_peephole_ = false;
  int64_t gates_, first_;  ///< all gates; those whose product with the state comes first
  int64_t steps_ = 0, batch_ = 0, input_ = 0, hidden_ = 0, directions_ = 1;
  int64_t at_once_ = 1;  ///< directions that have memory of their own
  int64_t n_ = 0;        ///< hidden_ rounded up to whole vectors
  int64_t w_size_ = 0, r_size_ = 0, last_size_ = 0, direction_size_ = 0;
  std::optional<DynamicProduct> of_x_, of_state_;  ///< where weights are quantized
  Packed packed_;
};

/// True if the activations are the cell's own; an unquantized RNN may also have ReLU.
bool usual_activations(const RecurrentAttrs& a, bool& relu) {
  relu = false;
  if (a.activations.empty()) return true;
  static const std::vector<std::string> kUsual[] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  const auto& usual = kUsual[static_cast<int>(a.cell)];
  relu = a.cell == Cell::kRnn && a.activations[0] == "Relu";
  for (size_t i = 0; i < a.activations.size(); ++i)
    if (a.activations[i] != (relu ? "Relu" : usual[i % usual.size()])) return false;
  const size_t directions = (a.forward ? 1 : 0) + (a.backward ? 1 : 0);
  return a.activations.size() == usual.size() * directions;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_recurrent_f32(const KernelSpec& spec) {
  bool relu = false;
  const auto& a = spec.attrs<RecurrentAttrs>();
  if ((a.dynamic_quantization && a.cell != Cell::kLstm) || !usual_activations(a, relu)) return nullptr;
  if (spec.inputs[0].shape.elements() == 0) return nullptr;
  return std::make_unique<RecurrentF32>(spec, relu);
}

}  // namespace smelt
#endif
