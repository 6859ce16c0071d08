#include "ops/recurrent/recurrent.h"

#include <algorithm>
#include <array>
#include <optional>

#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/quantize/dynamic_quantize.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/recurrent/gates.h"
#include "shaders/recurrent.h"

namespace smelt::vulkan {
namespace {

constexpr int64_t kMaxHidden = 1024;  // of recurrent.comp

/// Operands that may be missing: kBias, ... of the shader.
constexpr uint32_t kBias = 1, kLengths = 2, kInitialH = 4, kInitialC = 8, kPeepholes = 16, kAll = 32, kLastH = 64,
                   kLastC = 128;
constexpr uint32_t kReverse = 1, kLinearBeforeReset = 2, kInputForget = 4;  // flags

using Push = shaders::Recurrent::Push;

struct Sizes {
  int64_t directions, gates, steps, batch, inputs, hidden;
};

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const KernelSpec& spec, const Sizes& s, std::vector<RecurrentGate> gates, uint32_t present,
                  const std::optional<DynamicQuant>& rounding)
      : attrs_(spec.attrs<RecurrentAttrs>()),
        s_(s),
        activations_(std::move(gates)),
        present_(present),
        rounding_(rounding) {
    if (spec.has(4)) length_words_ = index_words(spec.inputs[4].dtype);
    for (size_t i : {1, 2}) constant_[i - 1] = spec.constant(i) != nullptr;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(s_.directions) * state_bytes() + rounded_bytes(); }
  Status record(KernelRecorder& r) const override {
    std::vector<Binding> buffers;
    SMELT_ASSIGN(Binding x, r.input(0));
    if (rounding_) {
      const size_t at = scratch_bytes() - rounded_bytes();
      SMELT_TRY(rounding_->record(r, {r.scratch(at, rounded_bytes(), true)}));
      x = r.scratch(at, rounded_bytes(), false);
    }
    buffers.push_back(x);
    const int64_t rows = s_.gates * s_.hidden;
    for (size_t i : {1, 2}) {
      const int64_t columns = i == 1 ? s_.inputs : s_.hidden;
      SMELT_ASSIGN(const Binding weights, constant_[i - 1] ? transposed(r, i, rows, columns) : r.input(i));
      buffers.push_back(weights);
    }
    const std::pair<size_t, uint32_t> optional[] = {
        {3, kBias}, {4, kLengths}, {5, kInitialH}, {6, kInitialC}, {7, kPeepholes}};
    for (const auto& [i, flag] : optional) {
      Binding b = x;
      if (present_ & flag) {
        SMELT_ASSIGN(b, r.input(i));
      }
      buffers.push_back(b);
    }
    const bool any[] = {(present_ & kAll) != 0, (present_ & kLastH) != 0, (present_ & kLastC) != 0};
    const size_t some = any[0] ? 0 : any[1] ? 1 : 2;
    for (size_t i = 0; i < 3; ++i) buffers.push_back(r.output(any[i] ? i : some));
    buffers.push_back({});
    buffers.push_back(present_ & kLengths ? r.faults() : r.output(some));
    for (int64_t d = 0; d < s_.directions; ++d) {
      buffers[11] = r.scratch(static_cast<size_t>(d) * state_bytes(), state_bytes(), true);
      SMELT_TRY(record_direction(r, d, buffers));
    }
    return Ok();
  }
  /// Steps that one dispatch runs; 0 if one step exceeds kMaxLoopIterations.
  static int64_t steps_per_dispatch(const Sizes& s, bool rounded) {
    const int64_t units = (s.hidden + width(s) - 1) / width(s);
    const int64_t iterations = units * (s.inputs + 2 * s.hidden + 16);
    if (rounded) return iterations + units * (s.batch + 1) <= kMaxLoopIterations ? 1 : 0;
    return std::min(s.steps, kMaxLoopIterations / iterations);
  }

 private:
  static uint32_t width(const Sizes& s) { return s.hidden > 128 ? 256 : s.hidden > 32 ? kWidth : 32; }
  size_t state_bytes() const {
    const int64_t copies = rounding_ ? 2 : 1;
    return align_binding(static_cast<size_t>(copies * s_.batch * 2 * s_.hidden) * sizeof(float));
  }
  size_t rounded_bytes() const { return rounding_ ? align_binding(size_t{rounding_->push.count} * sizeof(float)) : 0; }
  /// Weights as [direction][column][row], so that neighbouring units are neighbours.
  Result<Binding> transposed(KernelRecorder& r, size_t i, int64_t rows, int64_t columns) const {
    const auto n = static_cast<size_t>(s_.directions * rows * columns);
    const Tensor& t = *r.operand(i).constant;
    return r.table(i, Cat("units innermost ", rows, ' ', columns), n * sizeof(float), [&](void* to) {
      auto* out = static_cast<float*>(to);
      const float* from = t.data<float>();
      for (int64_t d = 0; d < s_.directions; ++d, from += rows * columns)
        for (int64_t k = 0; k < columns; ++k)
          for (int64_t row = 0; row < rows; ++row) *out++ = from[row * columns + k];
    });
  }
  Status record_direction(KernelRecorder& r, int64_t d, const std::vector<Binding>& buffers) const {
    const int64_t rows = s_.gates * s_.hidden, h = s_.hidden;
    const bool batch_first = attrs_.batch_first;
    Push p{};
    p.steps = u32(s_.steps);
    p.inputs = u32(s_.inputs);
    p.hidden = u32(h);
    p.x_step = u32(batch_first ? s_.inputs : s_.batch * s_.inputs);
    p.x_batch = u32(batch_first ? s_.steps * s_.inputs : s_.inputs);
    p.y_step = u32(s_.directions * h * (batch_first ? 1 : s_.batch));
    p.s_at = p.y_at = u32(d * (batch_first ? h : s_.batch * h));
    p.y_batch = u32(batch_first ? s_.steps * s_.directions * h : h);
    p.s_batch = u32(batch_first ? s_.directions * h : h);
    p.w_at = u32(d * rows * s_.inputs);
    p.r_at = u32(d * rows * h);
    p.b_at = u32(d * 2 * rows);
    p.p_at = u32(d * 3 * h);
    p.w_unit = constant_[0] ? 1 : p.inputs;
    p.w_k = constant_[0] ? u32(rows) : 1;
    p.r_unit = constant_[1] ? 1 : p.hidden;
    p.r_k = constant_[1] ? u32(rows) : 1;
    p.flags = (attrs_.backward && (d == 1 || !attrs_.forward) ? kReverse : 0) |
              (attrs_.linear_before_reset ? kLinearBeforeReset : 0) | (attrs_.input_forget ? kInputForget : 0);
    p.clip = static_cast<float>(std::max(attrs_.clip, 0.0));
    p.fault_code = r.fault_code();
    const size_t each = activations_.size() / static_cast<size_t>(s_.directions);
    shaders::Recurrent::Constants constants{.width = width(s_),
                                            .cell = static_cast<uint32_t>(attrs_.cell),
                                            .present = present_,
                                            .length_words = length_words_,
                                            .fn0 = 0,
                                            .fn1 = 0,
                                            .fn2 = 0,
                                            .rounded = rounding_.has_value()};
    uint32_t* const functions[] = {&constants.fn0, &constants.fn1, &constants.fn2};
    for (size_t i = 0; i < each; ++i) {
      const RecurrentGate& gate = activations_[static_cast<size_t>(d) * each + i];
      *functions[i] = static_cast<uint32_t>(gate.fn);
      p.alpha[i] = static_cast<float>(gate.alpha);
      p.beta[i] = static_cast<float>(gate.beta);
    }
    for (p.first = 0; p.first < p.steps; p.first += p.count) {
      p.count = std::min(u32(steps_per_dispatch(s_, rounding_.has_value())), p.steps - p.first);
      SMELT_TRY(r.run(shaders::recurrent, constants, std::span<const Binding>(buffers), {u32(s_.batch), 1, 1}, p));
    }
    return Ok();
  }

  RecurrentAttrs attrs_;
  Sizes s_;
  std::vector<RecurrentGate> activations_;
  uint32_t present_, length_words_ = 1;
  std::optional<DynamicQuant> rounding_;  ///< of x, with RecurrentAttrs::dynamic_quantization
  bool constant_[2] = {};
};

}  // namespace

std::unique_ptr<Kernel> make_recurrent(const KernelSpec& spec) {
  const auto& a = spec.attrs<RecurrentAttrs>();
  const Shape& x = spec.inputs[0].shape;
  if (x.rank() != 3) return nullptr;
  std::optional<DynamicQuant> rounding;
  if (a.dynamic_quantization) {
    rounding = DynamicQuant::make(spec, shaders::dynamic_fake_quant_f32, DynamicQuant::Rule::kAsymmetric, x.elements(),
                                  {.low = 0, .high = 255});
    if (a.cell != RecurrentAttrs::Cell::kLstm || !rounding) return nullptr;
  }
  const Sizes s{(a.forward ? 1 : 0) + (a.backward ? 1 : 0),
                a.cell == RecurrentAttrs::Cell::kRnn   ? 1
                : a.cell == RecurrentAttrs::Cell::kGru ? 3
                                                       : 4,
                x[a.batch_first ? 1 : 0],
                x[a.batch_first ? 0 : 1],
                x[2],
                a.hidden};
  if (s.hidden > kMaxHidden || s.batch > 65535 || s.batch < 1 || s.steps < 1) return nullptr;
  uint32_t present = 0;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!spec.has(i)) continue;
    const ValueType& t = spec.inputs[i];
    if (i == 4 ? index_words(t.dtype) == 0 : t.dtype != DType::kF32 || t.quant) return nullptr;
    if (i >= 3) present |= 1u << (i - 3);
  }
  for (size_t i = 0; i < 3; ++i) {
    if (!wanted(spec, i)) continue;
    if (spec.outputs[i].dtype != DType::kF32 || spec.outputs[i].quant) return nullptr;
    present |= kAll << i;
  }
  if ((present & kLastC) && a.cell != RecurrentAttrs::Cell::kLstm) return nullptr;
  auto gates = recurrent_gates(a, static_cast<int>(s.directions));
  if (!gates.ok() || RecurrentKernel::steps_per_dispatch(s, rounding.has_value()) < 1) return nullptr;
  return std::make_unique<RecurrentKernel>(spec, s, std::move(*gates), present, rounding);
}

}  // namespace smelt::vulkan
