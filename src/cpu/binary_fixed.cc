// TFLite's fixed-point sums, differences and products.
#include <algorithm>
#include <array>
#include <vector>

#include "cpu/broadcast.h"
#include "cpu/kernel.h"
#include "cpu/requant.h"
#include "ops/elementwise/binary_fixed.h"
#include "tensor/numeric.h"
#include "tensor/one_grid.h"

namespace smelt {
namespace {

/// 8-bit operands come by tables to 32-bit numbers, whose sums or products are rescaled a few hundred at a time.
class FixedBytes final : public Kernel {
 public:
  FixedBytes(const FixedArithmetic& f, const KernelSpec& spec, const BroadcastLoops& loops)
      : loops_(loops), product_(f.product) {
    const bool is_signed = spec.outputs[0].dtype == DType::kI8;
    for (int i = 0; i < 256; ++i) {
      const int32_t stored = is_signed ? static_cast<int8_t>(i) : i;
      a_[static_cast<size_t>(i)] = f.of_a(stored);
      b_[static_cast<size_t>(i)] = f.of_b(stored);
    }
    requant_.rounding = Rounding::kFixedDouble;
    requant_.is_signed = is_signed;
    requant_.zero = f.zero;
    requant_.low = static_cast<int32_t>(f.low);
    requant_.high = static_cast<int32_t>(std::max(f.low, f.high));
    requant_.factors.resize(kChunk + 64);
    requant_.multipliers.assign(kChunk + 64, f.out.multiplier);
    requant_.shifts.assign(kChunk + 64, -f.out.shift);
    const auto largest = [](const std::array<int32_t, 256>& values) {
      int64_t most = 0;
      for (int32_t v : values) most = std::max(most, std::abs(static_cast<int64_t>(v)));
      return most;
    };
    const int64_t a = largest(a_), b = largest(b_);
    requant_.reach = std::min<int64_t>(INT32_MAX, product_ ? a * b : a + b);
    requant_.prepare();
    rescale_ = requant_rows(spec.isa, requant_);
  }
  Status run(KernelContext& ctx) const override {
    const auto* a = ctx.input(0).data<uint8_t>();
    const auto* b = ctx.input(1).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    loops_.each_row(ctx.threads(), 8192,
                    [&](int64_t at_a, int64_t at_b, int64_t at_y, int64_t n) { row(a + at_a, b + at_b, y + at_y, n); });
    return Ok();
  }

 private:
  static constexpr int64_t kChunk = 256;
  void row(const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n) const {
    alignas(64) int32_t sums[kChunk + 16];
    for (int64_t at = 0; at < n; at += kChunk) {
      const int64_t here = std::min(kChunk, n - at);
      const uint8_t *p = a + at * loops_.inner_a, *q = b + at * loops_.inner_b;
      const auto combine = [&](auto f) {
        if (loops_.inner_a && loops_.inner_b) {
          for (int64_t i = 0; i < here; ++i) sums[i] = f(a_[p[i]], b_[q[i]]);
        } else {
          for (int64_t i = 0; i < here; ++i) sums[i] = f(a_[p[i * loops_.inner_a]], b_[q[i * loops_.inner_b]]);
        }
      };
      if (product_)
        combine([](int32_t u, int32_t v) { return u * v; });
      else
        combine([](int32_t u, int32_t v) {
          return static_cast<int32_t>(static_cast<uint32_t>(u) + static_cast<uint32_t>(v));
        });
      rescale_(requant_, sums, kChunk, 1, here, 0, y + at, here);
    }
  }

  BroadcastLoops loops_;
  bool product_;
  RequantRows rescale_ = nullptr;
  Requant requant_;
  std::array<int32_t, 256> a_{}, b_{};
};

/// 16-bit operands, one after the other.
class FixedShorts final : public Kernel {
 public:
  FixedShorts(const FixedArithmetic& f, const BroadcastLoops& loops) : f_(f), loops_(loops) {}
  Status run(KernelContext& ctx) const override {
    const auto* a = ctx.input(0).data<int16_t>();
    const auto* b = ctx.input(1).data<int16_t>();
    auto* y = ctx.output(0).data<int16_t>();
    loops_.each_row(ctx.threads(), 4096,
                    [&](int64_t at_a, int64_t at_b, int64_t at_y, int64_t n) { row(a + at_a, b + at_b, y + at_y, n); });
    return Ok();
  }

 private:
  void row(const int16_t* a, const int16_t* b, int16_t* y, int64_t n) const {
    const FixedArithmetic f = f_;
    const int64_t sa = loops_.inner_a, sb = loops_.inner_b;
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<int16_t>(f.stored(f.combine(f.of_a(a[i * sa]), f.of_b(b[i * sb]))));
  }

  FixedArithmetic f_;
  BroadcastLoops loops_;
};

}  // namespace

std::unique_ptr<Kernel> make_binary_fixed(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1], &y = spec.outputs[0];
  if (attrs.rounding == Rounding::kFloatHalfEven || !on_one_grid(a.quant) || !on_one_grid(b.quant) ||
      !on_one_grid(y.quant))
    return nullptr;
  const auto typed = [](const ValueType& t) {
    Tensor tensor = Tensor::view(t.dtype, t.shape, nullptr, nullptr);
    tensor.set_quant(t.quant);
    return tensor;
  };
  Tensor out = typed(y);
  const auto f = FixedArithmetic::make(attrs, typed(a), typed(b), out);
  if (!f || f->low < int_min(y.dtype) || f->high > int_max(y.dtype)) return nullptr;
  const BroadcastLoops loops = BroadcastLoops::make(a.shape, b.shape, y.shape);
  if (y.dtype == DType::kI16) return std::make_unique<FixedShorts>(*f, loops);
  if (f->out.shift > 0 || f->out.shift < -31 || std::abs(f->zero) > (1 << 20)) return nullptr;
  return std::make_unique<FixedBytes>(*f, spec, loops);
}

}  // namespace smelt
