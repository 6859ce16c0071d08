// 8-bit integers without quantization parameters by separable weights, in float64 and in the order of the reference
// kernel: the results, which are truncated, are equal. Where weights are so short that 16 bits hold every sum, as for
// twice the size, integers give them.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/resize/resize_bytes.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/resize/resize_passes.h"
#include "ops/resize/resize.h"

#ifndef SMELT_CPU_RESIZE_BYTES
#define SMELT_CPU_RESIZE_BYTES
namespace smelt {
struct ByteResizeOps {
  /// to[j] = sum over t < taps of weight[t] * from[index[t] * n + j], j < n, term by term.
  void (*weighted_sum)(const double* from, const int64_t* index, const double* weight, int64_t taps, int64_t n,
                       double* to);
  /// n numbers clamped to the type, rounded to even or truncated.
  void (*to_bytes)(const double* from, int64_t n, bool is_signed, bool round, uint8_t* to);
};

/// A pass whose weights are in units of a power of two: output i is the sum of weight[k] * entry index[k] for k in
/// [begin[i], begin[i + 1]); entries are `inner` neighbours.
struct ShortPass {
  const int64_t *begin, *index;
  const int16_t* weight;
  int64_t inner;
};
struct ShortResizeOps {
  /// Neighbours [j, j + n) of outputs [first, last) of one image; the first one's go to `to`, the others' follow
  /// `inner` apart.
  void (*of_bytes)(const ShortPass& p, const uint8_t* from, bool is_signed, int64_t first, int64_t last, int64_t j,
                   int64_t n, int16_t* to);
  void (*of_int16)(const ShortPass& p, const int16_t* from, int64_t first, int64_t last, int64_t j, int64_t n,
                   int16_t* to);
  /// n numbers over 2^bits, truncated, within the range of the type.
  void (*to_bytes)(const int16_t* from, int64_t n, int bits, bool is_signed, uint8_t* to);
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void weighted_sum_f64(const double* from, const int64_t* index, const double* weight, int64_t taps, int64_t n,
                      double* to) {
  const auto step = [&](auto d, int64_t j) HWY_ATTR {
    auto sum = hn::Mul(hn::Set(d, weight[0]), hn::LoadU(d, from + index[0] * n + j));
    for (int64_t t = 1; t < taps; ++t)
      sum = hn::Add(sum, hn::Mul(hn::Set(d, weight[t]), hn::LoadU(d, from + index[t] * n + j)));
    hn::StoreU(sum, d, to + j);
  };
  for_lanes<double>(n, step);
}

void doubles_to_bytes(const double* from, int64_t n, bool is_signed, bool round, uint8_t* to) {
  const double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<int32_t, decltype(d)> d32;
    auto v = hn::Min(hn::Max(hn::LoadU(d, from + i), hn::Set(d, low)), hn::Set(d, high));
    if (round) v = hn::Round(v);
    const auto wide = hn::DemoteTo(d32, v);
    if (is_signed) {
      const hn::Rebind<int8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, wide), d8, reinterpret_cast<int8_t*>(to) + i);
    } else {
      const hn::Rebind<uint8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, wide), d8, to + i);
    }
  };
  for_lanes<double>(n, step);
}

ByteResizeOps byte_resize_ops() { return {weighted_sum_f64, doubles_to_bytes}; }

template <class T>
void weight_short(const ShortPass& p, const T* from, int64_t first, int64_t last, int64_t j, int64_t n, int16_t* to) {
  for (int64_t i = first; i < last; ++i, to += p.inner) {
    const int64_t begin = p.begin[i], end = p.begin[i + 1];
    for_lanes<int16_t>(n, [&](auto d, int64_t at) HWY_ATTR {
      const hn::Rebind<T, decltype(d)> narrow;
      auto sum = hn::Zero(d);
      for (int64_t k = begin; k < end; ++k) {
        const auto entry = hn::LoadU(narrow, from + p.index[k] * p.inner + j + at);
        const auto weight = hn::Set(d, p.weight[k]);
        if constexpr (sizeof(T) == 2)
          sum = hn::Add(sum, hn::Mul(entry, weight));
        else
          sum = hn::Add(sum, hn::Mul(hn::PromoteTo(d, entry), weight));
      }
      hn::StoreU(sum, d, to + at);
    });
  }
}
void weight_short_bytes(const ShortPass& p, const uint8_t* from, bool is_signed, int64_t first, int64_t last, int64_t j,
                        int64_t n, int16_t* to) {
  if (is_signed)
    weight_short(p, reinterpret_cast<const int8_t*>(from), first, last, j, n, to);
  else
    weight_short(p, from, first, last, j, n, to);
}

void short_to_bytes(const int16_t* from, int64_t n, int bits, bool is_signed, uint8_t* to) {
  for_lanes<int16_t>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, from + i);
    // What is negative is rounded up.
    const auto less = hn::And(hn::BroadcastSignBit(v), hn::Set(d, static_cast<int16_t>((1 << bits) - 1)));
    const auto whole = hn::ShiftRightSame(hn::Add(v, less), bits);
    if (is_signed) {
      const hn::Rebind<int8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, whole), d8, reinterpret_cast<int8_t*>(to) + i);
    } else {
      const hn::Rebind<uint8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, whole), d8, to + i);
    }
  });
}

ShortResizeOps short_resize_ops() { return {weight_short_bytes, weight_short<int16_t>, short_to_bytes}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class ResizeBytes final : public Kernel {
 public:
  ResizeBytes(std::vector<ResizePass<double>> passes, const KernelSpec& spec)
      : passes_(std::move(passes)),
        ops_(SMELT_FOR_LEVEL(spec.isa, byte_resize_ops)()),
        elements_(spec.inputs[0].shape.elements()),
        most_(elements_),
        signed_(spec.inputs[0].dtype == DType::kI8),
        round_(spec.attrs<ResizeAttrs>().antialias) {
    for (const auto& p : passes_) most_ = std::max(most_, p.outer * p.out * p.inner);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(2 * most_) * sizeof(double); }
  Status run(KernelContext& ctx) const override {
    auto* from = static_cast<double*>(ctx.scratch(scratch_bytes()));
    if (!from) return Error(ErrorCode::kLimit, "no memory to resize");
    double* to = from + most_;
    if (signed_)
      std::copy_n(ctx.input(0).data<int8_t>(), elements_, from);
    else
      std::copy_n(ctx.input(0).data<uint8_t>(), elements_, from);
    for (const auto& p : passes_) {
      const int64_t grain = std::max<int64_t>(1, 8192 / p.inner);
      ctx.threads().parallel_for(p.outer * p.out, grain,
                                 [&](int64_t first, int64_t last) { pass(p, from, first, last, to); });
      std::swap(from, to);
    }
    const int64_t n = ctx.output(0).elements();
    ctx.threads().parallel_for(n, 16384, [&](int64_t first, int64_t last) {
      ops_.to_bytes(from + first, last - first, signed_, round_, ctx.output(0).data<uint8_t>() + first);
    });
    return Ok();
  }

 private:
  /// Output places [first, last), counted over all of outer.
  void pass(const ResizePass<double>& p, const double* from, int64_t first, int64_t last, double* to) const {
    for (int64_t at = first; at < last; ++at) {
      const auto i = static_cast<size_t>(at % p.out);
      const int64_t b = p.begin[i];
      ops_.weighted_sum(from + at / p.out * p.in * p.inner, p.index.data() + b, p.weight.data() + b, p.begin[i + 1] - b,
                        p.inner, to + at * p.inner);
    }
  }

  std::vector<ResizePass<double>> passes_;
  ByteResizeOps ops_;
  int64_t elements_, most_;
  bool signed_, round_;
};

/// A pass in units of 2^-bits.
struct ShortWeights {
  ResizePass<double> pass;
  std::vector<int16_t> weight;
  int bits = 0;
  int64_t most = 1;  ///< the largest sum of magnitudes of an output's weights, in those units
  ShortPass ops_pass() const { return {pass.begin.data(), pass.index.data(), weight.data(), pass.inner}; }
};

/// nullopt: no unit of a power of two makes all weights short integers.
std::optional<ShortWeights> short_weights(const ResizePass<double>& pass) {
  constexpr int kMostBits = 7;
  ShortWeights s{pass};
  const auto whole = [&](double w) { return std::ldexp(w, s.bits) == std::nearbyint(std::ldexp(w, s.bits)); };
  while (s.bits <= kMostBits && !std::ranges::all_of(pass.weight, whole)) ++s.bits;
  if (s.bits > kMostBits) return std::nullopt;
  for (size_t i = 0; i + 1 < pass.begin.size(); ++i) {
    double sum = 0;
    for (int64_t k = pass.begin[i]; k < pass.begin[i + 1]; ++k) sum += std::abs(pass.weight[static_cast<size_t>(k)]);
    sum = std::ldexp(sum, s.bits);
    if (sum > 255) return std::nullopt;
    s.most = std::max(s.most, static_cast<int64_t>(sum));
  }
  for (const double w : pass.weight) s.weight.push_back(static_cast<int16_t>(std::ldexp(w, s.bits)));
  return s;
}

class ResizeShort final : public Kernel {
 public:
  /// nullptr: sums may not fit 16 bits.
  static std::unique_ptr<ResizeShort> make(const std::vector<ResizePass<double>>& passes, const KernelSpec& spec) {
    std::vector<ShortWeights> all;
    int64_t most = 255;
    for (const auto& p : passes) {
      auto s = short_weights(p);
      if (!s) return nullptr;
      most *= s->most;
      if (most > INT16_MAX) return nullptr;
      all.push_back(std::move(*s));
    }
    if (all.empty() || all.back().pass.inner == 1) return nullptr;
    return std::make_unique<ResizeShort>(std::move(all), spec);
  }
  ResizeShort(std::vector<ShortWeights> passes, const KernelSpec& spec)
      : passes_(std::move(passes)),
        ops_(SMELT_FOR_LEVEL(spec.isa, short_resize_ops)()),
        signed_(spec.inputs[0].dtype == DType::kI8) {
    for (size_t i = 0; i < passes_.size(); ++i) {
      const auto& p = passes_[i].pass;
      bits_ += passes_[i].bits;
      if (i + 1 < passes_.size()) most_ = std::max(most_, round_up(p.outer * p.out * p.inner, 64));
    }
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(2 * most_) * sizeof(int16_t); }
  Status run(KernelContext& ctx) const override {
    int16_t* scratch = nullptr;
    if (most_ > 0) {
      scratch = static_cast<int16_t*>(ctx.scratch(scratch_bytes()));
      if (!scratch) return Error(ErrorCode::kLimit, "no memory to resize");
    }
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    const int16_t* from = nullptr;  // null: the bytes
    for (size_t i = 0; i < passes_.size(); ++i) {
      const auto& p = passes_[i].pass;
      int16_t* const to = scratch + static_cast<int64_t>(i % 2) * most_;
      const bool last = i + 1 == passes_.size();
      ctx.threads().parallel_for(
          p.outer * p.out, std::max<int64_t>(1, 16384 / p.inner), [&](int64_t begin, int64_t end) {
            for (int64_t n = 0; begin < end; begin += n) {
              n = std::min(end - begin, p.out - begin % p.out);
              const Part part{i, begin / p.out * p.in * p.inner, begin % p.out, begin % p.out + n};
              if (last)
                bytes(part, x, from, y + begin * p.inner);
              else
                sums(part, x, from, 0, p.inner, to + begin * p.inner);
            }
          });
      from = to;
    }
    return Ok();
  }

 private:
  /// Outputs [first, last) of the image that starts at `start`, in a pass.
  struct Part {
    size_t pass;
    int64_t start, first, last;
  };
  void sums(const Part& p, const uint8_t* x, const int16_t* from, int64_t j, int64_t n, int16_t* to) const {
    const ShortPass pass = passes_[p.pass].ops_pass();
    if (from)
      ops_.of_int16(pass, from + p.start, p.first, p.last, j, n, to);
    else
      ops_.of_bytes(pass, x + p.start, signed_, p.first, p.last, j, n, to);
  }
  /// The last pass, block by block.
  void bytes(Part p, const uint8_t* x, const int16_t* from, uint8_t* y) const {
    constexpr int64_t kBlock = 1024;
    const int64_t inner = passes_[p.pass].pass.inner, last = p.last;
    int16_t block[kBlock];
    for (; p.first < last; ++p.first, y += inner) {
      p.last = p.first + 1;
      for (int64_t j = 0; j < inner; j += kBlock) {
        const int64_t n = std::min(kBlock, inner - j);
        sums(p, x, from, j, n, block);
        ops_.to_bytes(block, n, bits_, signed_, y + j);
      }
    }
  }

  std::vector<ShortWeights> passes_;
  ShortResizeOps ops_;
  int64_t most_ = 0;  ///< numbers between passes
  int bits_ = 0;
  bool signed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_resize_bytes(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  if (spec.inputs[0].dtype != spec.outputs[0].dtype || a.mode == ResizeAttrs::Mode::kNearest || a.tflite)
    return spec.refuse("nearest neighbours, or arithmetic of a format");
  auto passes = resize_passes<double>(spec);
  if (!passes) return spec.refuse("sizes that are not known, or coordinates outside the image");
  if (auto fast = a.antialias ? nullptr : ResizeShort::make(*passes, spec)) return fast;
  return std::make_unique<ResizeBytes>(std::move(*passes), spec);
}

}  // namespace smelt
#endif
