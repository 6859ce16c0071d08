// TFLite's RNN and LSTM operators on float32 activations, with float weights or 8-bit ones that meet quantized rows.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "backends/vulkan/recurrent/tf_recurrent.h"
#include "base/cat.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/tf_lstm.h"
#include "shaders/tf_cell.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {

uint32_t weight_word(const Tensor& t, int64_t i, bool quantized) {
  if (quantized && t.dtype() == DType::kU8)  // int8 under another name
    return static_cast<uint32_t>(static_cast<int32_t>(t.data<int8_t>()[i]));
  if (quantized) return static_cast<uint32_t>(get_int(t, i));
  if (t.dtype() == DType::kU8 && t.quant())
    return std::bit_cast<uint32_t>(t.quant()->scale() * static_cast<float>(t.data<int8_t>()[i]));
  if (!t.quant()) return std::bit_cast<uint32_t>(static_cast<float>(get_double(t, i)));
  const auto& q = *t.quant();
  return std::bit_cast<uint32_t>(static_cast<float>((get_double(t, i) - q.zero_point()) * q.scale()));
}

namespace {

using CellPush = shaders::TfCell::Push;

/// The basic LSTM's gates in their order, as places in the table's.
constexpr int64_t kBasicOrder[] = {0, 2, 1, 3};
constexpr int64_t kMaxBasicBatch = 256;

/// A part of the table of weights: rows [from, from + rows) and columns of a constant, as [columns][rows]; zeros where
/// there is no constant.
struct Part {
  Tensor t;
  int64_t rows = 0, columns = 1;
  bool quantized = false;                   ///< quantized integers, else float32
  int64_t from = 0, column = 0, width = 1;  ///< of the constant: first row, first column, columns in all
};

/// One direction of an operator.
struct Cell {
  uint32_t has = 0;
  CellPush push{};
  int64_t batch = 1;
  std::array<float, 16> scales{};
  std::vector<Part> parts;  ///< behind the scales, in the table's order
  int x = 0, aux = -1, h = -1, c = -1;
  int w = -1;  ///< the constant that the table belongs to
  int y = -1, h_out = -1, c_out = -1;
  int joined = -1, sums = -1;  ///< outputs of the basic LSTM: [x, h], and the gates before their activations

  int64_t scratch_words() const {
    const int64_t f = push.features, a = push.aux_features, n = push.units, o = push.outputs;
    return batch * (o + 6 * n + std::max(f + a + o, n));
  }
  uint32_t width() const {
    const uint32_t most = std::max(push.units, push.outputs);
    return most > 128 ? 256 : most > 32 ? kWidth : 32;
  }
  /// Rounds of loops that a step takes at most.
  int64_t iterations() const {
    const int64_t f = push.features, a = push.aux_features, n = push.units, o = push.outputs, lanes = width();
    const int64_t each = (n + lanes - 1) / lanes;
    return each * (f + a + o + 48) + (o + lanes - 1) / lanes * (n + 16) + 2 * (f + a + o + n) / lanes + 256;
  }
};

class TfCells final : public Kernel {
 public:
  explicit TfCells(std::vector<Cell> cells) : cells_(std::move(cells)) {}
  bool reads(size_t i) const override {
    const auto is = [&](int at) { return at == static_cast<int>(i); };
    return std::ranges::any_of(cells_, [&](const Cell& c) { return is(c.x) || is(c.aux) || is(c.h) || is(c.c); });
  }
  size_t scratch_bytes() const override {
    size_t bytes = 0;
    for (const Cell& c : cells_) bytes += align_binding(static_cast<size_t>(c.scratch_words()) * sizeof(uint32_t));
    return bytes;
  }
  Status record(KernelRecorder& r) const override {
    size_t offset = 0;
    for (const Cell& c : cells_) {
      const size_t bytes = static_cast<size_t>(c.scratch_words()) * sizeof(uint32_t);
      SMELT_TRY(record(r, c, r.scratch(offset, bytes, true)));
      offset += align_binding(bytes);
    }
    return Ok();
  }

 private:
  static Status record(KernelRecorder& r, const Cell& c, const Binding& scratch) {
    SMELT_ASSIGN(const Binding x, r.input(static_cast<size_t>(c.x)));
    SMELT_ASSIGN(const Binding aux, r.input(static_cast<size_t>(c.aux < 0 ? c.x : c.aux)));
    SMELT_ASSIGN(const Binding table, weights(r, c));
    SMELT_ASSIGN(const Binding h, r.input(static_cast<size_t>(c.h)));
    SMELT_ASSIGN(const Binding cell, r.input(static_cast<size_t>(c.c < 0 ? c.h : c.c)));
    const int some = c.y >= 0 ? c.y : c.h_out >= 0 ? c.h_out : c.c_out;
    const auto output = [&](int i) { return r.output(static_cast<size_t>(i < 0 ? some : i)); };
    CellPush p = c.push;
    const auto at_once = u32(std::max<int64_t>(1, kMaxLoopIterations / c.iterations()));
    for (p.first = 0; p.first < p.steps; p.first += p.count) {
      p.count = std::min(at_once, p.steps - p.first);
      SMELT_TRY(r.run(shaders::tf_cell, {.width = c.width(), .lanes = c.width(), .has = c.has},
                      {x, aux, table, h, cell, output(c.y), output(c.h_out), output(c.c_out), scratch},
                      {u32(c.batch), 1, 1}, p));
    }
    record_temporaries(r, c, x, h, scratch);
    return Ok();
  }
  static void record_temporaries(KernelRecorder& r, const Cell& c, const Binding& x, const Binding& h,
                                 const Binding& scratch) {
    const auto copy = [&](Binding from, int64_t at, Binding to, int64_t to_at, uint32_t n) {
      from.offset += static_cast<size_t>(at) * sizeof(float);
      to.offset += static_cast<size_t>(to_at) * sizeof(float);
      from.bytes = to.bytes = size_t{n} * sizeof(float);
      from.written = false;
      r.copy(from, to);
    };
    const uint32_t f = c.push.features, n = c.push.units;
    const int64_t all = c.scratch_words() / c.batch;
    for (int64_t b = 0; b < c.batch; ++b) {
      if (c.joined >= 0) {
        copy(x, b * f, r.output(static_cast<size_t>(c.joined)), b * (f + n), f);
        copy(h, b * n, r.output(static_cast<size_t>(c.joined)), b * (f + n) + f, n);
      }
      if (c.sums < 0) continue;
      const int64_t gates = b * all + 2 * int64_t{n};
      for (int64_t g = 0; g < 4; ++g)
        copy(scratch, gates + kBasicOrder[g] * n, r.output(static_cast<size_t>(c.sums)), (b * 4 + g) * n, n);
    }
  }
  static Result<Binding> weights(KernelRecorder& r, const Cell& c) {
    size_t words = c.scales.size();
    std::string key = Cat("recurrent cell ", c.has);
    for (const Part& p : c.parts) {
      words += static_cast<size_t>(p.rows * p.columns);
      key += Cat(' ', p.t.defined() ? reinterpret_cast<uintptr_t>(p.t.raw()) : 0, ' ', p.rows, ' ', p.columns);
    }
    return r.table(static_cast<size_t>(c.w), key, words * sizeof(uint32_t), [&](void* to) {
      auto* out = static_cast<uint32_t*>(to);
      std::memcpy(out, c.scales.data(), sizeof c.scales);
      out += c.scales.size();
      for (const Part& p : c.parts)
        for (int64_t k = 0; k < p.columns; ++k)
          for (int64_t u = 0; u < p.rows; ++u)
            *out++ = p.t.defined() ? weight_word(p.t, (p.from + u) * p.width + p.column + k, p.quantized) : 0;
    });
  }
  std::vector<Cell> cells_;
};

/// Makes a Cell of a node's operands; each step is false where a kernel can't have them.
class CellMaker {
 public:
  explicit CellMaker(const KernelSpec& spec) : spec_(spec) {}
  Cell cell;

  bool has(int i) const { return i >= 0 && spec_.has(static_cast<size_t>(i)); }
  const Shape& shape(int i) const { return spec_.inputs[static_cast<size_t>(i)].shape; }
  int64_t rows(int i) const { return has(i) && shape(i).rank() == 2 ? shape(i)[0] : -1; }

  /// Where the sequences of x lie: what Walk of ops/recurrent/tf_recurrent.h says.
  bool walk(int x, bool sequence, bool time_major) {
    if (!real(x)) return false;
    const Shape& s = shape(x);
    if (s.rank() != 2 && !(s.rank() == 3 && sequence)) return false;
    CellPush& p = cell.push;
    const bool steps = s.rank() == 3;
    time_major_ = !steps || time_major;
    cell.x = x;
    cell.batch = s[steps && time_major ? 1 : 0];
    p.time = p.steps = steps ? u32(s[time_major ? 0 : 1]) : 1;
    p.features = u32(s[s.rank() - 1]);
    place(p.features, p.x_step, p.x_batch);
    return cell.batch >= 1 && cell.batch <= 65535 && p.time >= 1 && p.features >= 1;
  }
  bool auxiliary(int i) {
    const Shape& x = shape(cell.x);
    if (!real(i) || shape(i).rank() != x.rank()) return false;
    for (int d = 0; d + 1 < x.rank(); ++d)
      if (shape(i)[d] != x[d]) return false;
    cell.aux = i;
    cell.push.aux_features = u32(shape(i)[x.rank() - 1]);
    place(cell.push.aux_features, cell.push.a_step, cell.push.a_batch);
    return true;
  }
  bool states(int h, int c) {
    cell.h = h;
    cell.c = c;
    const auto fits = [&](int i, uint32_t n) { return real(i) && shape(i).elements() == cell.batch * int64_t{n}; };
    return fits(h, cell.push.outputs) && (c < 0 || fits(c, cell.push.units));
  }
  /// y with rows of `stride` entries, this direction's from `at` on; -1: not wanted.
  bool outputs(int y, int64_t stride, int64_t at, int h, int c) {
    if (wants(y)) {
      place(u32(stride), cell.push.y_step, cell.push.y_batch);
      cell.push.y_at = u32(at);
      cell.y = y;
      cell.has |= kWritesY;
    }
    if (wants(h)) {
      cell.h_out = h;
      cell.has |= kWritesH;
    }
    if (wants(c)) {
      cell.c_out = c;
      cell.has |= kWritesC;
    }
    for (int i : {cell.y, cell.h_out, cell.c_out}) {
      if (i < 0) continue;
      const ValueType& t = spec_.outputs[static_cast<size_t>(i)];
      if (t.dtype != DType::kF32 || t.quant) return false;
    }
    return (cell.has & (kWritesY | kWritesH | kWritesC)) != 0;
  }
  void activation(const Activation& act) { cell.push.act = gpu_activation(act); }
  void zeros(int64_t rows, int64_t columns) { cell.parts.push_back({{}, rows, columns}); }
  /// Weights, whose scale goes to `slot`; zeros when absent.
  bool matrix(int i, int64_t rows, int64_t columns, size_t slot) {
    if (!has(i)) {
      zeros(rows, columns);
      return true;
    }
    const Tensor* t = spec_.constant(static_cast<size_t>(i));
    if (!t || t->rank() != 2 || t->dim(0) != rows || t->dim(1) != columns) return false;
    const bool quantized = t->dtype() == DType::kI8 || t->dtype() == DType::kU8;
    if (quantized ? !t->quant() : t->dtype() != DType::kF32 && t->dtype() != DType::kF16 && t->dtype() != DType::kBF16)
      return false;
    if (quantized != ((cell.has & kQuantizes) != 0) && cell.w >= 0) return false;  // all of one kind
    if (quantized) {
      cell.has |= kQuantizes;
      cell.scales[slot] = t->quant()->scale();
    }
    if (cell.w < 0) cell.w = i;
    cell.parts.push_back({*t, rows, columns, quantized, 0, 0, columns});
    return true;
  }
  bool vector(int i, int64_t n) {
    if (!has(i)) {
      zeros(n, 1);
      return true;
    }
    const Tensor* t = spec_.constant(static_cast<size_t>(i));
    if (!t || t->elements() != n || (t->quant() ? !is_per_tensor(t->quant()) : !is_float(t->dtype()))) return false;
    cell.parts.push_back({*t, n, 1});
    return true;
  }
  bool done() const { return cell.w >= 0 && cell.iterations() <= kMaxLoopIterations; }

 private:
  bool real(int i) const {
    return has(i) && spec_.inputs[static_cast<size_t>(i)].dtype == DType::kF32 &&
           !spec_.inputs[static_cast<size_t>(i)].quant;
  }
  bool wants(int i) const { return i >= 0 && wanted(spec_, static_cast<size_t>(i)); }
  void place(uint32_t row, uint32_t& step, uint32_t& batch) const {
    step = time_major_ ? u32(cell.batch) * row : row;
    batch = time_major_ ? row : cell.push.time * row;
  }

  const KernelSpec& spec_;
  bool time_major_ = true;
};

/// Weights of an LSTM's direction. Precondition: its walk and auxiliary input are known.
bool lstm_weights(CellMaker& m, const TfLstmAttrs& a, const tf_lstm::Inputs& in) {
  Cell& c = m.cell;
  const int r = in.r[3];
  const bool diagonal = a.diagonal_recurrent && m.has(r) && m.shape(r).rank() == 1;
  if (!m.has(r) || (!diagonal && m.shape(r).rank() != 2) || m.rows(in.w[3]) < 1) return false;
  const int64_t n = m.rows(in.w[3]), outputs = diagonal ? m.shape(r)[0] : m.shape(r)[1];
  c.push.units = u32(n);
  c.push.outputs = u32(outputs);
  const bool norm = m.has(in.norm[3]);
  const bool peephole = m.has(in.peephole[0]) || m.has(in.peephole[1]) || m.has(in.peephole[2]);
  c.has |= (diagonal ? kDiagonal : 0) | (norm ? kNorm : 0) | (peephole ? kPeephole : 0);
  for (size_t g = 0; g < 4; ++g) {
    const bool present = m.has(in.w[g]);
    if (!present && g != 0) return false;
    if (!present) c.has |= kCoupled;
    const auto part = [&](int i) { return present ? i : -1; };
    if (present && (!m.has(in.r[g]) || m.has(in.norm[g]) != norm)) return false;
    if (!m.matrix(part(in.w[g]), n, c.push.features, 3 * g)) return false;
    if (!m.matrix(part(in.aux_w[g]), n, c.push.aux_features, 3 * g + 1)) return false;
    if (diagonal ? !m.vector(part(in.r[g]), n) : !m.matrix(part(in.r[g]), n, outputs, 3 * g + 2)) return false;
    const int peep = g == 2 ? -1 : in.peephole[g == 3 ? 2 : g];
    if (peephole && !m.vector(part(peep), n)) return false;
    if (norm && !m.vector(part(in.norm[g]), n)) return false;
    if (!m.vector(part(in.bias[g]), n)) return false;
  }
  if (!m.has(in.projection)) return n == outputs;
  c.has |= kProjection;
  return m.matrix(in.projection, outputs, n, 12) && m.vector(in.projection_bias, outputs);
}

bool lstm_cell(CellMaker& m, const TfLstmAttrs& a, const tf_lstm::Inputs& in) {
  if (a.asymmetric_inputs) m.cell.has |= kAsymmetricRows;
  m.cell.push.cell_clip = static_cast<float>(std::max(a.cell_clip, 0.0));
  m.cell.push.projection_clip = static_cast<float>(std::max(a.proj_clip, 0.0));
  m.activation(a.act);
  return lstm_weights(m, a, in) && m.states(in.output_state, in.cell_state);
}

/// The five-input kernel: rows of one matrix over [x, h] are the gates input, cell, forget, output.
bool basic_cell(CellMaker& m, const KernelSpec& spec) {
  if (!m.walk(0, false, true) || m.cell.batch > kMaxBasicBatch) return false;
  const Tensor *w = spec.constant(2), *b = spec.constant(3);
  const Shape& h = spec.inputs[1].shape;
  if (!w || !b || w->dtype() != DType::kF32 || b->dtype() != DType::kF32 || w->quant() || b->quant()) return false;
  Cell& c = m.cell;
  const int64_t f = c.push.features, n = h.rank() == 2 ? h[1] : 0;
  if (n < 1 || w->shape() != Shape{4 * n, f + n} || b->elements() != 4 * n) return false;
  c.push.units = c.push.outputs = u32(n);
  c.w = 2;
  for (int64_t gate : kBasicOrder) {
    c.parts.push_back({*w, n, f, false, gate * n, 0, f + n});
    c.parts.push_back({*w, n, n, false, gate * n, f, f + n});
    c.parts.push_back({*b, n, 1, false, gate * n, 0, 1});
  }
  if (wanted(spec, 2)) c.joined = 2;
  if (wanted(spec, 3)) c.sums = 3;
  m.activation({ActKind::kTanh});
  return m.states(1, 4) && m.outputs(-1, 0, 0, 0, 1);
}

bool rnn_cell(CellMaker& m, const TfRnnAttrs& a, int first, int aux_weights) {
  Cell& c = m.cell;
  c.has |= kRnn | (a.asymmetric_inputs ? kAsymmetricRows : 0);
  const int64_t n = m.rows(first);
  if (n < 1 || !m.has(first + 1) || !m.has(first + 2)) return false;
  c.push.units = c.push.outputs = u32(n);
  m.activation(a.act);
  if (!m.matrix(first, n, c.push.features, 0)) return false;
  if (!m.matrix(c.push.aux_features > 0 ? aux_weights : -1, n, c.push.aux_features, 1)) return false;
  return m.matrix(first + 1, n, n, 2) && m.vector(first + 2, n) && m.states(first + 3, -1);
}

std::unique_ptr<Kernel> kernel_of(std::vector<Cell> cells) { return std::make_unique<TfCells>(std::move(cells)); }

}  // namespace

std::unique_ptr<Kernel> make_tf_lstm(const KernelSpec& spec) {
  const auto& a = spec.attrs<TfLstmAttrs>();
  CellMaker forward(spec), backward(spec);
  if (a.basic) {
    if (!basic_cell(forward, spec) || !forward.done()) return nullptr;
    return kernel_of({forward.cell});
  }
  if (!forward.walk(0, a.sequence, a.time_major)) return nullptr;
  if (!a.bidirectional) {
    if (!lstm_cell(forward, a, tf_lstm::single_inputs())) return nullptr;
    if (!forward.outputs(0, forward.cell.push.outputs, 0, 1, 2) || !forward.done()) return nullptr;
    return kernel_of({forward.cell});
  }
  // Without weights of its own the auxiliary input is what the backward direction reads.
  const bool aux = forward.has(39), own = aux && forward.has(41);
  if (!backward.walk(aux && !own ? 39 : 0, a.sequence, a.time_major)) return nullptr;
  if (own && (!forward.auxiliary(39) || !backward.auxiliary(39))) return nullptr;
  if (!lstm_cell(forward, a, tf_lstm::forward_inputs()) || !lstm_cell(backward, a, tf_lstm::backward_inputs()))
    return nullptr;
  const int64_t nf = forward.cell.push.outputs, nb = backward.cell.push.outputs;
  const bool merged = a.merge_outputs;
  if (merged && wanted(spec, 1)) return nullptr;
  backward.cell.has |= kBackward;
  if (!forward.outputs(0, merged ? nf + nb : nf, 0, 2, 3) || !forward.done()) return nullptr;
  if (!backward.outputs(merged ? 0 : 1, merged ? nf + nb : nb, merged ? nf : 0, 4, 5) || !backward.done())
    return nullptr;
  return kernel_of({forward.cell, backward.cell});
}

std::unique_ptr<Kernel> make_tf_rnn(const KernelSpec& spec) {
  const auto& a = spec.attrs<TfRnnAttrs>();
  CellMaker forward(spec), backward(spec);
  if (!forward.walk(0, a.sequence, a.time_major)) return nullptr;
  if (!a.bidirectional) {
    if (!rnn_cell(forward, a, 1, -1) || !forward.outputs(0, forward.cell.push.units, 0, 1, -1)) return nullptr;
    return forward.done() ? kernel_of({forward.cell}) : nullptr;
  }
  const bool aux = forward.has(9), own = aux && forward.has(10);
  if (!backward.walk(aux && !own ? 9 : 0, a.sequence, a.time_major)) return nullptr;
  if (own && (!forward.auxiliary(9) || !backward.auxiliary(9))) return nullptr;
  if (!rnn_cell(forward, a, 1, 10) || !rnn_cell(backward, a, 5, 11)) return nullptr;
  const int64_t nf = forward.cell.push.units, nb = backward.cell.push.units;
  const bool merged = a.merge_outputs;
  if (merged && wanted(spec, 1)) return nullptr;
  backward.cell.has |= kBackward;
  if (!forward.outputs(0, merged ? nf + nb : nf, 0, 2, -1) || !forward.done()) return nullptr;
  if (!backward.outputs(merged ? 0 : 1, merged ? nf + nb : nb, merged ? nf : 0, 3, -1) || !backward.done())
    return nullptr;
  // The format's kernel for 8-bit weights walks a time-major sequence in both directions as often as it has steps.
  for (Cell* c : {&forward.cell, &backward.cell})
    if (c->has & kQuantizes && a.sequence && a.time_major) c->push.steps = c->push.time * c->push.time;
  return kernel_of({forward.cell, backward.cell});
}

}  // namespace smelt::vulkan
