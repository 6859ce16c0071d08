#pragma once

#include <string>

#include "backends/vulkan/record/kernel_recorder.h"

namespace smelt::vulkan {

/// A constant operand that the device sees as float32 (or float16), whatever the model holds it as: dequantized,
/// widened.
class FloatConstant {
 public:
  FloatConstant() = default;
  FloatConstant(size_t input, const Tensor& t, bool half = false) : input_(input), tensor_(t), half_(half) {}
  explicit operator bool() const { return tensor_.defined(); }
  size_t bytes() const { return static_cast<size_t>(tensor_.elements()) * (half_ ? sizeof(uint16_t) : sizeof(float)); }
  Result<Binding> bind(KernelRecorder& r) const;

 private:
  size_t input_ = 0;
  Tensor tensor_;
  bool half_ = false;
};

/// How a real operand of a product is read: as float32 or float16 elements as they lie, or as a FloatConstant.
struct RealOperand {
  bool half = false;
  FloatConstant constant;  ///< when its elements are not read as they lie
  size_t input = 0;
  /// Whether the device binds it. (That it binds operands as they lie is the choice of kernels' concern.)
  bool fits(const Device& device) const;
  Result<Binding> bind(KernelRecorder& r) const { return constant ? constant.bind(r) : r.input(input); }
};
/// False where there is no way: a computed operand of another type.
bool make_real_operand(const KernelSpec& spec, size_t input, RealOperand& out);
/// The same, always read as float32: false for a computed one of float16.
bool make_float_operand(const KernelSpec& spec, size_t input, RealOperand& out);

/// A constant operand is read as float16 from now on, whatever it is stored as.
void halve(const KernelSpec& spec, RealOperand& operand);
/// The values of `t` in float16, nearest.
Status half_values(const Tensor& t, uint16_t* out);

/// Invocations of a workgroup, outputs along the lanes, and outputs in registers of the shaders of products.
struct Tiling {
  uint32_t width = 64, lanes = 1, tile = 4;
};
/// For an output of `lanes` x `tiles`.
Tiling choose_tiling(const Device& device, int64_t lanes, int64_t tiles);

}  // namespace smelt::vulkan
