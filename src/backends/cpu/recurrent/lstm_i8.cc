// TFLite's LSTM of int8 activations and weights with int16 gates and cell (8x8_16), one direction, without peepholes,
// layer normalization and projection.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/recurrent/fixed_cell_ops.h"
#include "ops/common/fixed_point.h"
#include "ops/recurrent/tf_lstm.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

using tf_lstm::kCell;
using tf_lstm::kForget;
using tf_lstm::kInput;
using tf_lstm::kOutput;

constexpr int64_t kGates = 4;
constexpr int kState = 18, kCellState = 19;
constexpr int kGateBits = 3;  ///< integer bits of a gate before its function

struct LstmI8Shape {
  int64_t time = 0, batch = 0, features = 0, units = 0;
  bool time_major = false, coupled = false;
  int64_t columns() const { return kGates * units; }
  int64_t rows() const { return time * batch; }
  /// Row of x and y that step t of sample b is.
  int64_t row(int64_t t, int64_t b) const { return time_major ? t * batch + b : b * time + t; }
};

struct LstmI8Key {
  std::array<const void*, kGates> weights, biases;
  int64_t depth, units;
  const GemmI8* gemm;
  int32_t zero;
  auto operator<=>(const LstmI8Key&) const = default;
};

/// The weights of all gates of x or of the state, and what their products are multiplied by.
class GateProducts {
 public:
  /// first: input of the first gate's weights. `bias`: first input of the biases; -1: none.
  GateProducts(const KernelSpec& spec, const LstmI8Shape& s, int first, int64_t depth, const Quantization& x, int bias)
      : gemm_(gemm_i8(spec.isa, true)), units_(s.units), depth_(depth), zero_(x.zero_point()) {
    LstmI8Key key{{}, {}, depth, s.units, &gemm_, GemmI8::int8_zero_point(true, zero_)};
    std::vector<int32_t> addends(static_cast<size_t>(s.columns()), 0);
    for (int g = 0; g < kGates; ++g) {
      const Tensor* w = spec.has(first + g) ? spec.constant(static_cast<size_t>(first + g)) : nullptr;
      if (!w) continue;
      key.weights[static_cast<size_t>(g)] = w->raw();
      factors_[static_cast<size_t>(g)] = tf_lstm::gate_factor(w->quant()->scale(), x.scale());
      if (bias < 0 || !spec.has(bias + g)) continue;
      const Tensor& addend = *spec.constant(static_cast<size_t>(bias + g));
      key.biases[static_cast<size_t>(g)] = addend.raw();
      std::copy_n(addend.data<int32_t>(), s.units, addends.begin() + g * s.units);
    }
    packed_ = spec.packs.get(key, [&] {
      std::vector<int8_t> all(static_cast<size_t>(s.columns() * depth), 0);
      for (size_t g = 0; g < kGates; ++g)
        if (key.weights[g])
          std::memcpy(all.data() + static_cast<int64_t>(g) * s.units * depth, key.weights[g],
                      static_cast<size_t>(s.units * depth));
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(gemm_.packed_bytes(depth, s.columns())));
      gemm_.pack(all.data(), depth, s.columns(), addends.data(), key.zero, packed->data<char>());
      return packed;
    });
  }
  int64_t operand_bytes(int64_t rows) const { return padded_bytes(rows * gemm_.a_row_bytes(depth_)); }
  /// Rescaled products of `rows` rows with all gates: to rows of y, [gate][unit], or added to them.
  template <bool kAdd>
  void run(const int8_t* x, int64_t rows, char* operand, int16_t* y) const {
    const int64_t lda = gemm_.a_row_bytes(depth_), columns = kGates * units_;
    gemm_.convert(reinterpret_cast<const uint8_t*>(x), depth_, rows, depth_, true, zero_, operand, lda);
    gemm_.run(rows, columns, depth_, operand, lda, true, packed_->data<char>(), 0, gemm_.panels(columns),
              [&](const int32_t* acc, int64_t row, int64_t n_rows, int64_t column, int64_t n) {
                for (int64_t r = 0; r < n_rows; ++r, acc += gemm_.nr())
                  for (int64_t j = 0; j < n; ++j) {
                    int16_t& to = y[(row + r) * columns + column + j];
                    const int64_t v = rescale_double(acc[j], factors_[static_cast<size_t>((column + j) / units_)]);
                    to = clamp16(v + (kAdd ? to : 0));
                  }
              });
  }

 private:
  static int16_t clamp16(int64_t v) { return static_cast<int16_t>(std::clamp<int64_t>(v, -32768, 32767)); }
  const GemmI8& gemm_;
  int64_t units_, depth_;
  int32_t zero_;
  std::array<FixedFactor, kGates> factors_{};
  Packed packed_;
};

class LstmI8 final : public Kernel {
 public:
  LstmI8(const LstmI8Shape& s, int32_t cell_log2, const KernelSpec& spec)
      : s_(s),
        of_x_(spec, s, 1, s.features, *spec.inputs[0].quant, 12),
        of_state_(spec, s, 5, s.units, *spec.inputs[kState].quant, -1),
        functions_(fixed_cell_ops(spec.isa)),
        cell_log2_(cell_log2) {
    const auto& a = spec.attrs<TfLstmAttrs>();
    const Quantization& hidden = *a.intermediates[4].quant;
    to_hidden_ = tf_lstm::hidden_factor(hidden.scale());
    hidden_zero_ = hidden.zero_point();
    clip_ = tf_lstm::quantized_cell_clip(a.cell_clip, spec.inputs[kCellState].quant->scale());
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(operand_bytes() + gates_bytes() + state_bytes() + cell_bytes() + cell_bytes());
  }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the gates of an LSTM");
    char* operand = scratch;
    auto* gates = reinterpret_cast<int16_t*>(scratch += operand_bytes());
    auto* state = reinterpret_cast<int8_t*>(scratch += gates_bytes());
    auto* cell = reinterpret_cast<int16_t*>(scratch += state_bytes());
    auto* narrowed = reinterpret_cast<int16_t*>(scratch + cell_bytes());
    const int64_t n = s_.batch * s_.units;
    std::copy_n(ctx.input(kState).data<int8_t>(), n, state);
    std::copy_n(ctx.input(kCellState).data<int16_t>(), n, cell);
    of_x_.run<false>(ctx.input(0).data<int8_t>(), s_.rows(), operand, gates);
    auto* y = ctx.output(0).data<int8_t>();
    for (int64_t t = 0; t < s_.time; ++t) {
      SMELT_TRY(ctx.tick());
      for (int64_t b = 0; b < s_.batch; ++b) {
        const int64_t row = s_.row(t, b);
        int8_t* h = state + b * s_.units;
        step(gates + row * s_.columns(), operand, h, cell + b * s_.units, narrowed);
        std::copy_n(h, s_.units, y + row * s_.units);
      }
    }
    if (ctx.wants(1)) std::copy_n(state, n, ctx.output(1).data<int8_t>());
    if (ctx.wants(2)) std::copy_n(cell, n, ctx.output(2).data<int16_t>());
    return Ok();
  }

 private:
  int64_t operand_bytes() const { return std::max(of_x_.operand_bytes(s_.rows()), of_state_.operand_bytes(1)); }
  int64_t gates_bytes() const { return padded_bytes(s_.rows() * s_.columns() * 2); }
  int64_t state_bytes() const { return padded_bytes(s_.batch * s_.units); }
  int64_t cell_bytes() const { return padded_bytes(s_.batch * s_.units * 2); }
  /// gates: products of x, then all of the gates.
  void step(int16_t* gates, char* operand, int8_t* h, int16_t* cell, int16_t* narrowed) const {
    const int64_t n = s_.units;
    of_state_.run<true>(h, 1, operand, gates);
    const auto at = [&](int gate) { return gates + gate * n; };
    functions_.logistic(at(kInput), 2 * n, kGateBits, at(kInput));
    functions_.tanh(at(kCell), n, kGateBits, at(kCell));
    functions_.logistic(at(kOutput), n, kGateBits, at(kOutput));
    tf_lstm::update_cell(cell, s_.coupled ? nullptr : at(kInput), at(kForget), at(kCell), n, cell_log2_, clip_);
    functions_.tanh(cell, n, 15 + cell_log2_, narrowed);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = int64_t{rescale_double(at(kOutput)[i] * narrowed[i], to_hidden_)} + hidden_zero_;
      h[i] = static_cast<int8_t>(std::clamp<int64_t>(v, -128, 127));
    }
  }

  LstmI8Shape s_;
  GateProducts of_x_, of_state_;
  FixedCellOps functions_;
  FixedFactor to_hidden_;
  int32_t cell_log2_, hidden_zero_ = 0;
  int16_t clip_ = 0;
};

/// True if operand i is a tensor of n elements, quantized per tensor if `quantized`.
bool has_operand(const KernelSpec& spec, int i, DType dtype, int64_t n, bool quantized) {
  const ValueType& t = spec.inputs[static_cast<size_t>(i)];
  return t.dtype == dtype && t.shape.elements() == n && (!quantized || is_per_tensor(t.quant));
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_lstm_i8(const KernelSpec& spec) {
  const auto& a = spec.attrs<TfLstmAttrs>();
  if (a.basic || a.bidirectional || a.intermediates.size() != 5 || !is_per_tensor(a.intermediates[4].quant) ||
      spec.inputs.size() < 20)
    return spec.refuse("not the 8x8_16 arithmetic of one direction");
  for (int i = 9; i < static_cast<int>(spec.inputs.size()); ++i)
    if (spec.has(i) && (i < 12 || i == 16 || i == 17 || i >= 20))
      return spec.refuse("peepholes, a projection or layer normalization");
  const ValueType &x = spec.inputs[0], &r = spec.inputs[8];
  if (!is_per_tensor(x.quant) || !is_per_tensor(spec.outputs[0].quant) || spec.outputs[0].dtype != DType::kI8 ||
      x.shape.rank() != (a.sequence ? 3 : 2) || !spec.has(8) || r.shape.rank() != 2)
    return spec.refuse("an input or output without one scale, or of another rank");
  LstmI8Shape s;
  s.time_major = a.sequence && a.time_major;
  s.time = a.sequence ? x.shape[a.time_major ? 0 : 1] : 1;
  s.batch = a.sequence ? x.shape[a.time_major ? 1 : 0] : x.shape[0];
  s.features = x.shape.back();
  s.units = r.shape[1];
  s.coupled = !spec.has(1);
  if (s.rows() < 1 || s.features < 1 || s.units < 1 || r.shape[0] != s.units) return spec.refuse("an empty sequence");
  for (int g = s.coupled ? 1 : 0; g < kGates; ++g)
    for (const auto& [i, n] : {std::pair{1 + g, s.features}, std::pair{5 + g, s.units}})
      if (!spec.has(i) || !spec.constant(static_cast<size_t>(i)) ||
          !has_operand(spec, i, DType::kI8, s.units * n, true))
        return spec.refuse("the weights of a gate are not constant int8");
  for (int i = 12; i < 16; ++i)
    if (spec.has(i) && (!spec.constant(static_cast<size_t>(i)) || !has_operand(spec, i, DType::kI32, s.units, false)))
      return spec.refuse("a bias is not constant int32");
  if (!has_operand(spec, kState, DType::kI8, s.batch * s.units, true) ||
      !has_operand(spec, kCellState, DType::kI16, s.batch * s.units, true))
    return spec.refuse("the states are not int8 and int16");
  const auto cell_log2 = tf_lstm::cell_exponent(spec.inputs[kCellState].quant->scale());
  return cell_log2.ok() ? std::make_unique<LstmI8>(s, *cell_log2, spec) : nullptr;
}

}  // namespace smelt
