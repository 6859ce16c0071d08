// Softmax, layer normalization and reductions of float32.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/fixed_point.h"
#include "ops/normalization/normalization.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

bool unquantized_f32(const ValueType& t) { return t.dtype == DType::kF32 && !t.quant; }

/// Product of dimensions [first, last).
int64_t product(const Shape& s, int first, int last) {
  int64_t n = 1;
  for (int i = first; i < last; ++i) n *= s[i];
  return n;
}

class SoftmaxF32 final : public Kernel {
 public:
  SoftmaxF32(int64_t rows, int64_t n, const SoftmaxAttrs& attrs, const VectorOps& ops)
      : rows_(rows),
        n_(n),
        beta_(static_cast<float>(attrs.beta)),
        logarithm_(attrs.kind == SoftmaxAttrs::Kind::kLogSoftmax),
        ops_(ops) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(rows_, std::max<int64_t>(1, 4096 / n_), [&](int64_t begin, int64_t end) {
      ops_.softmax(x + begin * n_, end - begin, n_, beta_, logarithm_, y + begin * n_);
    });
    return Ok();
  }

 private:
  int64_t rows_, n_;
  float beta_;
  bool logarithm_;
  const VectorOps& ops_;
};

/// Over the middle of [outer, count, inner].
class SoftmaxStridedF32 final : public Kernel {
 public:
  SoftmaxStridedF32(int64_t outer, int64_t count, int64_t inner, double beta, const VectorOps& ops)
      : outer_(outer), count_(count), inner_(inner), beta_(static_cast<float>(beta)), ops_(ops) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t chunks = (inner_ + kChunk - 1) / kChunk;
    ctx.threads().parallel_for(outer_ * chunks, std::max<int64_t>(1, 4 / count_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % chunks * kChunk, at = i / chunks * count_ * inner_ + first;
        ops_.softmax_strided(x + at, count_, inner_, std::min(kChunk, inner_ - first), beta_, y + at);
      }
    });
    return Ok();
  }

 private:
  static constexpr int64_t kChunk = 512;
  int64_t outer_, count_, inner_;
  float beta_;
  const VectorOps& ops_;
};

class LayerNormF32 final : public Kernel {
 public:
  LayerNormF32(int64_t rows, int64_t n, const LayerNormAttrs& attrs, bool scale, bool bias, const VectorOps& ops)
      : rows_(rows), n_(n), epsilon_(attrs.epsilon), rms_(attrs.rms), scale_(scale), bias_(bias), ops_(ops) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    const float* scale = scale_ ? ctx.input(1).data<float>() : nullptr;
    const float* bias = bias_ ? ctx.input(2).data<float>() : nullptr;
    float* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(rows_, std::max<int64_t>(1, 4096 / n_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) ops_.layer_norm(x + r * n_, n_, epsilon_, rms_, scale, bias, y + r * n_);
    });
    return Ok();
  }

 private:
  int64_t rows_, n_;
  double epsilon_;
  bool rms_, scale_, bias_;
  const VectorOps& ops_;
};

/// [outer, count, inner] -> [outer, inner].
class ReduceF32 final : public Kernel {
 public:
  ReduceF32(int64_t outer, int64_t count, int64_t inner, Reduction fn, int64_t threads, const VectorOps& ops)
      : outer_(outer), count_(count), inner_(inner), fn_(fn), threads_(threads), ops_(ops) {}
  size_t scratch_bytes() const override {
    return inner_ == 1 ? 0 : static_cast<size_t>(threads_ * count_) * sizeof(float*);
  }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const double divisor = fn_ == Reduction::kMean ? static_cast<double>(count_) : 1.0;
    if (inner_ == 1) {
      ctx.threads().parallel_for(outer_, std::max<int64_t>(1, 16384 / count_), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const float* row = x + i * count_;
          y[i] = of_row(row, divisor);
        }
      });
      return Ok();
    }
    auto* scratch = static_cast<const float**>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a reduction");
    const int64_t slots = std::min(threads_, outer_);
    const float inf = std::numeric_limits<float>::infinity();
    ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        const float** taps = scratch + slot * count_;
        for (int64_t i = outer_ * slot / slots; i < outer_ * (slot + 1) / slots; ++i) {
          for (int64_t t = 0; t < count_; ++t) taps[t] = x + (i * count_ + t) * inner_;
          (fn_ == Reduction::kMax ? ops_.max_taps : ops_.sum_taps)(taps, count_, inner_, y + i * inner_);
          if (fn_ == Reduction::kMean)
            ops_.scale_clamp(y + i * inner_, inner_, static_cast<float>(1 / divisor), -inf, inf);
        }
      }
    });
    return Ok();
  }

 private:
  float of_row(const float* row, double divisor) const {
    switch (fn_) {
      case Reduction::kMax:
        return ops_.reduce_max(row, count_);
      case Reduction::kSumSquare:
        return static_cast<float>(ops_.reduce_sum_squares(row, count_));
      default:
        return static_cast<float>(ops_.reduce_sum(row, count_) / divisor);
    }
  }

  int64_t outer_, count_, inner_;
  Reduction fn_;
  int64_t threads_;
  const VectorOps& ops_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (!unquantized_f32(spec.inputs[0]) || !unquantized_f32(spec.outputs[0]) || shape.rank() == 0 ||
      shape.elements() == 0)
    return nullptr;
  if (attrs.kind == SoftmaxAttrs::Kind::kHardmax) return nullptr;
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + shape.rank() : attrs.axis);
  if (axis < 0 || axis >= shape.rank()) return nullptr;
  // The values of one group must lie side by side.
  const int64_t n = product(shape, axis, shape.rank());
  if (!attrs.flatten && n != shape[axis]) return nullptr;
  return std::make_unique<SoftmaxF32>(product(shape, 0, axis), n, attrs, vector_ops(spec.isa));
}

std::unique_ptr<Kernel> make_softmax_strided_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (!unquantized_f32(spec.inputs[0]) || !unquantized_f32(spec.outputs[0]) || shape.rank() == 0 ||
      shape.elements() == 0)
    return nullptr;
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + shape.rank() : attrs.axis);
  if (attrs.kind != SoftmaxAttrs::Kind::kSoftmax || attrs.flatten || axis < 0 || axis >= shape.rank()) return nullptr;
  return std::make_unique<SoftmaxStridedF32>(product(shape, 0, axis), shape[axis],
                                             product(shape, axis + 1, shape.rank()), attrs.beta, vector_ops(spec.isa));
}

std::unique_ptr<Kernel> make_layer_norm_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<LayerNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (!unquantized_f32(spec.inputs[0]) || !unquantized_f32(spec.outputs[0]) || shape.rank() == 0 ||
      shape.elements() == 0)
    return nullptr;
  for (size_t i = 1; i < spec.node.outputs.size(); ++i)
    if (spec.node.outputs[i] != kNoValue) return nullptr;
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + shape.rank() : attrs.axis);
  if (axis < 0 || axis >= shape.rank()) return nullptr;
  const int64_t n = product(shape, axis, shape.rank());
  for (size_t i = 1; i <= 2; ++i) {  // one entry for each value of a row
    if (!spec.has(i)) continue;
    const Shape& s = spec.inputs[i].shape;
    if (!unquantized_f32(spec.inputs[i]) || s.elements() != n || s.rank() > shape.rank()) return nullptr;
    for (int d = 1; d <= s.rank(); ++d)
      if (s[s.rank() - d] != (shape.rank() - d >= axis ? shape[shape.rank() - d] : 1)) return nullptr;
  }
  return std::make_unique<LayerNormF32>(product(shape, 0, axis), n, attrs, spec.has(1), spec.has(2),
                                        vector_ops(spec.isa));
}

/// A reduction as [outer, count, inner] -> [outer, inner].
struct ReduceView {
  int64_t outer = 1, count = 1, inner = 1;
};

/// nullopt: the reduced dimensions are not neighbours or not known.
std::optional<ReduceView> reduce_view(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (shape.elements() == 0) return std::nullopt;
  const Tensor* axes = spec.constant(1);
  if (spec.has(1) && !axes) return std::nullopt;
  std::vector<bool> reduced(static_cast<size_t>(shape.rank()), false);
  if (axes && axes->elements() > 0) {
    for (int64_t i = 0; i < axes->elements(); ++i) {
      int64_t axis = get_int(*axes, i);
      axis += axis < 0 ? shape.rank() : 0;
      if (axis < 0 || axis >= shape.rank()) return std::nullopt;
      reduced[static_cast<size_t>(axis)] = true;
    }
  } else {
    if (attrs.noop_with_empty_axes) return std::nullopt;
    reduced.assign(reduced.size(), true);
  }
  // Dimensions of 1 count as reduced or not, whatever keeps the reduced ones together.
  int first = 0, last = shape.rank();
  while (first < last && (!reduced[static_cast<size_t>(first)] || shape[first] == 1)) ++first;
  while (last > first && (!reduced[static_cast<size_t>(last - 1)] || shape[last - 1] == 1)) --last;
  for (int d = first; d < last; ++d)
    if (!reduced[static_cast<size_t>(d)] && shape[d] != 1) return std::nullopt;
  return ReduceView{product(shape, 0, first), product(shape, first, last), product(shape, last, shape.rank())};
}

std::unique_ptr<Kernel> make_reduce_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  if (!unquantized_f32(spec.inputs[0]) || !unquantized_f32(spec.outputs[0])) return nullptr;
  const bool squares = attrs.fn == Reduction::kSumSquare;
  if (!squares && attrs.fn != Reduction::kSum && attrs.fn != Reduction::kMean && attrs.fn != Reduction::kMax)
    return nullptr;
  if (attrs.accumulate != DType::kInvalid && attrs.accumulate != DType::kF32) return nullptr;
  const auto v = reduce_view(spec);
  if (!v || (squares && v->inner != 1)) return nullptr;
  return std::make_unique<ReduceF32>(v->outer, v->count, v->inner, attrs.fn, std::max(spec.threads, 1),
                                     vector_ops(spec.isa));
}

namespace {

/// Accumulators in 32 bits, then as the reference kernel does it: real numbers where ties go to even, else a
/// fixed-point factor with the division by the count folded in.
class MeanI8 final : public Kernel {
 public:
  MeanI8(const ReduceView& v, const ValueType& x, const ValueType& y, bool real, int64_t threads, Isa isa)
      : v_(v),
        real_(real),
        away_(y.quant->rounding != Rounding::kFloatHalfEven),
        x_scale_(x.quant->scale()),
        y_scale_(y.quant->scale()),
        signed_(x.dtype == DType::kI8),
        x_zero_(x.quant->zero_point()),
        y_zero_(y.quant->zero_point()),
        threads_(threads),
        ops_(vector_ops(isa)) {
    factor_ = fixed_factor(static_cast<double>(x.quant->scale()) / static_cast<double>(y.quant->scale()));
    int shift = std::min(63 - std::countl_zero(static_cast<uint64_t>(v.count)), 32);
    shift = std::max(std::min(shift, 31 + factor_.shift), 0);
    factor_.multiplier = static_cast<int32_t>((int64_t{factor_.multiplier} << shift) / v.count);
    factor_.shift -= shift;
    if (real_ || factor_.shift > 0 || factor_.shift < -31 || std::abs(x_zero_) > 255) return;
    const auto n = static_cast<size_t>(v.inner) + 64;
    rule_.rounding = Rounding::kFixedDouble;
    rule_.is_signed = signed_;
    rule_.zero = y_zero_;
    rule_.low = signed_ ? -128 : 0;
    rule_.high = signed_ ? 127 : 255;
    rule_.factors.resize(n);
    rule_.multipliers.assign(n, factor_.multiplier);
    rule_.shifts.assign(n, -factor_.shift);
    rule_.reach = std::min<int64_t>(INT32_MAX, v.count * 510);
    rule_.prepare();
    rescale_ = requantize_accumulators(isa, rule_);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_) * slot_bytes(); }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a reduction");
    const int64_t slots = std::min(threads_, v_.outer);
    ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        auto** taps = reinterpret_cast<const uint8_t**>(scratch + static_cast<size_t>(slot) * slot_bytes());
        auto* sums = reinterpret_cast<int32_t*>(taps + v_.count);
        for (int64_t i = v_.outer * slot / slots; i < v_.outer * (slot + 1) / slots; ++i) {
          for (int64_t t = 0; t < v_.count; ++t) taps[t] = x + (i * v_.count + t) * v_.inner;
          ops_.sum_taps_i8(taps, v_.count, v_.inner, signed_, sums);
          if (rescale_ && v_.inner >= kShort) {
            for (int64_t c = 0; c < v_.inner; ++c) sums[c] -= static_cast<int32_t>(x_zero_ * v_.count);
            rescale_(rule_, sums, v_.inner, 1, v_.inner, 0, y + i * v_.inner, v_.inner);
            continue;
          }
          for (int64_t c = 0; c < v_.inner; ++c) y[i * v_.inner + c] = quantized(sums[c]);
        }
      }
    });
    return Ok();
  }

 private:
  size_t slot_bytes() const { return static_cast<size_t>((v_.count * 8 + v_.inner * 4 + 127) / 64 * 64); }
  static constexpr int64_t kShort = 8;  ///< so many means are rescaled together
  uint8_t quantized(int32_t sum) const {
    const double lo = signed_ ? -128 : 0, hi = signed_ ? 127 : 255;
    if (real_) {
      const double total = static_cast<double>(x_scale_) * static_cast<double>(sum - int64_t{x_zero_} * v_.count);
      const float scaled = static_cast<float>(total / static_cast<double>(v_.count)) / y_scale_;
      const double r = static_cast<double>(away_ ? std::round(scaled) : std::nearbyint(scaled)) + y_zero_;
      return static_cast<uint8_t>(r != r ? 0 : static_cast<int64_t>(std::clamp(r, lo, hi)));
    }
    const auto centred = static_cast<int32_t>(sum - int64_t{x_zero_} * v_.count);
    const int64_t q = int64_t{rescale_double(centred, factor_)} + y_zero_;
    return static_cast<uint8_t>(std::clamp(q, static_cast<int64_t>(lo), static_cast<int64_t>(hi)));
  }
  ReduceView v_;
  bool real_, away_;
  float x_scale_, y_scale_;
  bool signed_;
  int32_t x_zero_, y_zero_;
  int64_t threads_;
  const VectorOps& ops_;
  FixedFactor factor_;
  RequantParams rule_;
  RequantizeAccumulators rescale_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_mean_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (attrs.fn != Reduction::kMean || x.dtype != y.dtype || (x.dtype != DType::kI8 && x.dtype != DType::kU8))
    return nullptr;
  for (const ValueType* t : {&x, &y})
    if (!is_per_tensor(t->quant)) return nullptr;
  const auto v = reduce_view(spec);
  if (!v || v->count > (1 << 22)) return nullptr;
  const bool real = attrs.rounding == Rounding::kFloatHalfEven;
  return std::make_unique<MeanI8>(*v, x, y, real, std::max(spec.threads, 1), spec.isa);
}

namespace {

/// Bytes of bool, each 0 or not.
class ReduceBool final : public Kernel {
 public:
  ReduceBool(const ReduceView& v, bool any) : v_(v), any_(any) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    const int64_t grain = std::max<int64_t>(1, 32768 / (v_.count * v_.inner));
    ctx.threads().parallel_for(v_.outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) slice(x + i * v_.count * v_.inner, y + i * v_.inner);
    });
    return Ok();
  }

 private:
  void slice(const uint8_t* x, uint8_t* y) const {
    if (v_.inner == 1) {
      *y = any_ ? some(x, v_.count) : std::memchr(x, 0, static_cast<size_t>(v_.count)) == nullptr;
      return;
    }
    for (int64_t c = 0; c < v_.inner; ++c) y[c] = any_ ? 0 : 1;
    for (int64_t k = 0; k < v_.count; ++k, x += v_.inner)
      for (int64_t c = 0; c < v_.inner; ++c) {
        const auto truth = static_cast<uint8_t>(x[c] != 0);
        y[c] = any_ ? y[c] | truth : y[c] & truth;
      }
  }
  static bool some(const uint8_t* x, int64_t n) {
    uint64_t bits = 0, word;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      std::memcpy(&word, x + i, 8);
      bits |= word;
    }
    for (; i < n; ++i) bits |= x[i];
    return bits != 0;
  }

  ReduceView v_;
  bool any_;
};

}  // namespace

std::unique_ptr<Kernel> make_reduce_bool(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const bool any = attrs.fn == Reduction::kAny;
  if ((!any && attrs.fn != Reduction::kAll) || spec.inputs[0].dtype != DType::kBool ||
      spec.outputs[0].dtype != DType::kBool)
    return nullptr;
  const auto v = reduce_view(spec);
  return v ? std::make_unique<ReduceBool>(*v, any) : nullptr;
}

}  // namespace smelt
