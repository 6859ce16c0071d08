// Arithmetic of 8-bit values in float32, a few hundred at a time: equal to the reference kernel bit by bit.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/elementwise/binary_vector.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "ops/common/quantized_pair.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

bool is_quantized_per_tensor(const ValueType& t) {
  return is_8bit(t.dtype) && is_per_tensor(t.quant) && std::isfinite(t.quant->scale()) && t.quant->scale() > 0 &&
         std::abs(t.quant->zero_point()) <= 1 << 20;
}

class BinaryI8 final : public Kernel {
 public:
  BinaryI8(BinaryVector rows, const KernelSpec& spec, float alpha, Bounds bounds)
      : rows_(rows),
        a_(quant_rule(spec.inputs[0])),
        b_(quant_rule(spec.inputs[1])),
        y_(quant_rule(spec.outputs[0])),
        alpha_(alpha),
        loops_(BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape)),
        bounds_(bounds),
        quant_(dynamic_quant_ops(spec.isa)) {}
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, 1, 1, [&](const void* a, const void* b, void* y, int64_t n) {
      row(static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), static_cast<uint8_t*>(y), n);
    });
    return Ok();
  }

 private:
  static constexpr int64_t kChunk = 256;
  void row(const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n) const {
    alignas(64) float fa[kChunk], fb[kChunk], fy[kChunk];
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t here = std::min(kChunk, n - i);
      quant_.dequantize(a + i * loops_.inner_a, loops_.inner_a ? here : 1, a_, 1, fa);
      quant_.dequantize(b + i * loops_.inner_b, loops_.inner_b ? here : 1, b_, alpha_, fb);
      rows_(fa, loops_.inner_a, fb, loops_.inner_b, fy, here, bounds_.lo, bounds_.hi);
      quant_.quantize(fy, here, y_, y + i);
    }
  }

  BinaryVector rows_;
  QuantRule a_, b_, y_;
  float alpha_;
  BroadcastLoops loops_;
  Bounds bounds_;
  const DynamicQuantOps& quant_;
};

}  // namespace

std::unique_ptr<Kernel> make_binary_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  if (!is_quantized_per_tensor(spec.inputs[0]) || !is_quantized_per_tensor(spec.inputs[1]) ||
      !is_quantized_per_tensor(spec.outputs[0]))
    return nullptr;
  if (attrs.rounding != Rounding::kFloatHalfEven || !clamps(attrs.act)) return nullptr;
  const bool scaled = attrs.fn == Binary::kAdd || attrs.fn == Binary::kSub;
  const BinaryVector rows = scaled || attrs.fn == Binary::kMul ? binary_vector(spec.isa, attrs.fn) : nullptr;
  if (!rows) return nullptr;
  return std::make_unique<BinaryI8>(rows, spec, scaled ? static_cast<float>(attrs.alpha) : 1.0f,
                                    activation_bounds(attrs.act));
}

}  // namespace smelt
