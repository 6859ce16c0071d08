#pragma once

#include <string>

#include "backends/vulkan/record/shader_kernel.h"

namespace smelt::vulkan {

/// A constant operand that the host converts to float32 (or float16) for the device: dequantized, widened or rounded.
class FloatConstant {
 public:
  FloatConstant() = default;
  FloatConstant(size_t input, const Tensor& t, bool fp16 = false) : input_(input), tensor_(t), fp16_(fp16) {}
  explicit operator bool() const { return tensor_.defined(); }
  size_t bytes() const { return static_cast<size_t>(tensor_.elements()) * (fp16_ ? sizeof(uint16_t) : sizeof(float)); }
  Result<Binding> bind(KernelRecorder& r) const;

 private:
  size_t input_ = 0;
  Tensor tensor_;
  bool fp16_ = false;
};

/// A floating-point operand of a product: an input read as float32 or float16, or a FloatConstant.
struct FloatOperand {
  bool fp16 = false;
  FloatConstant constant;  ///< set if the host converts the elements
  size_t input = 0;
  /// True if the device can bind the converted constant; make_kernel() checks other operands.
  bool fits(const Device& device) const;
  Result<Binding> bind(KernelRecorder& r) const { return constant ? constant.bind(r) : r.input(input); }
};
/// The operand as a binding of a ShaderKernel.
inline Arg float_arg(const FloatOperand& operand) {
  return {[operand](KernelRecorder& r) { return operand.bind(r); },
          operand.constant ? -1 : static_cast<int>(operand.input)};
}
/// That many float32 zeros, in place of an absent bias.
Arg zeros_arg(int64_t channels);
/// A table of that many floats that `pack(values, to)` makes of the dequantized filter, constant input 1; `key` names
/// the form.
Arg packed_filter(const Tensor& filter, std::string key, size_t floats, std::function<void(const float*, float*)> pack);
/// False for a non-constant operand that is neither float32 nor float16, or is quantized.
bool make_float_operand(const KernelSpec& spec, size_t input, FloatOperand& out);
/// An operand that is read as float32; false for a non-constant one of another type.
bool make_f32_operand(const KernelSpec& spec, size_t input, FloatOperand& out);

/// Makes a constant operand be read as float16, rounded to nearest.
void round_to_fp16(const KernelSpec& spec, FloatOperand& operand);
/// Writes the values of `t`, dequantized and rounded to the nearest float16.
Status fp16_values(const Tensor& t, uint16_t* out);

/// How a gemm or convolution shader divides its output: invocations of a workgroup, columns per invocation, rows per
/// invocation.
struct Tiling {
  uint32_t width = 64, lanes = 1, tile = 4;
};
/// The tiling for an output of `lanes` columns and `tiles` rows.
Tiling choose_tiling(const Device& device, int64_t lanes, int64_t tiles);
/// The dispatch grid of that output for each of `batch` products; nullopt if a dimension is 0 or exceeds 65535.
std::optional<Grid> gemm_grid(const Tiling& tiling, int64_t lanes, int64_t tiles, int64_t batch);

}  // namespace smelt::vulkan
