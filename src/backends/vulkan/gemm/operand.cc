#include "backends/vulkan/gemm/operand.h"

#include <algorithm>
#include <vector>

#include "backends/vulkan/device/device.h"
#include "ops/common/operands.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {

Result<Binding> FloatConstant::bind(KernelRecorder& r) const {
  if (tensor_.dtype() == (fp16_ ? DType::kF16 : DType::kF32) && !tensor_.quant()) return r.input(input_);
  Status status;
  const auto binding = r.table(input_, fp16_ ? "float16" : "float32", bytes(), [&](void* to) {
    status = fp16_ ? fp16_values(tensor_, static_cast<uint16_t*>(to)) : real_values(tensor_, static_cast<float*>(to));
  });
  SMELT_TRY(status);
  return binding;
}

bool FloatOperand::fits(const Device& device) const { return !constant || constant.bytes() <= device.max_binding(); }

Arg zeros_arg(int64_t channels) {
  return {[bytes = static_cast<size_t>(channels) * sizeof(float), channels](KernelRecorder& r) {
    return r.table(Cat("zeros ", channels), bytes, [&](void* to) { std::memset(to, 0, bytes); });
  }};
}

Arg packed_filter(const Tensor& filter, std::string key, size_t floats,
                  std::function<void(const float*, float*)> pack) {
  return {[filter, key = std::move(key), floats, pack = std::move(pack)](KernelRecorder& r) -> Result<Binding> {
    Status status;
    const auto binding = r.table(1, key, floats * sizeof(float), [&](void* to) {
      std::vector<float> values(static_cast<size_t>(filter.elements()));
      status = real_values(filter, values.data());
      if (status.ok()) pack(values.data(), static_cast<float*>(to));
    });
    SMELT_TRY(status);
    return binding;
  }};
}

bool make_float_operand(const KernelSpec& spec, size_t input, FloatOperand& out) {
  const ValueType& t = spec.inputs[input];
  out.input = input;
  const bool unquantized =
      !t.quant && (t.dtype == DType::kF32 || t.dtype == DType::kF16) && spec.device.stores(t.dtype);
  out.fp16 = unquantized && t.dtype == DType::kF16;
  if (unquantized) return true;
  const Tensor* c = spec.constant(input);
  if (!c || !(t.quant || is_float(t.dtype)) || t.dtype == DType::kF64) return false;
  out.constant = FloatConstant(input, *c);
  return true;
}

bool make_f32_operand(const KernelSpec& spec, size_t input, FloatOperand& out) {
  if (!make_float_operand(spec, input, out)) return false;
  if (!out.fp16) return true;
  if (!spec.constant(input)) return false;
  out = {false, FloatConstant(input, *spec.constant(input)), input};
  return true;
}

void round_to_fp16(const KernelSpec& spec, FloatOperand& operand) {
  if (const Tensor* c = spec.constant(operand.input); c && !operand.fp16)
    operand = {true, FloatConstant(operand.input, *c, true), operand.input};
}

Status fp16_values(const Tensor& t, uint16_t* out) {
  std::vector<float> values(static_cast<size_t>(t.elements()));
  SMELT_TRY(real_values(t, values.data()));
  std::transform(values.begin(), values.end(), out, f32_to_f16);
  return Ok();
}

Tiling choose_tiling(const Device& device, int64_t lanes, int64_t tiles) {
  Tiling t;
  const bool software = device.info().type == "CPU";
  // A CPU wants one value a lane to meet many that all lanes share; a GPU wants many invocations.
  if (software) t.width = 8;
  const uint32_t most = software ? 16 : 8;
  t.tile = 1;
  while (t.tile < most && t.tile < tiles) t.tile *= 2;
  while (t.width > 8 && static_cast<int64_t>(t.width) / 2 >= lanes) t.width /= 2;
  t.lanes = lanes >= 2 * static_cast<int64_t>(t.width) ? 2 : 1;
  return t;
}

std::optional<Grid> gemm_grid(const Tiling& t, int64_t lanes, int64_t tiles, int64_t batch) {
  const int64_t across = int64_t{t.width} * t.lanes, x = (lanes + across - 1) / across;
  const int64_t y = (tiles + t.tile - 1) / t.tile;
  if (std::max({x, y, batch}) > 65535 || std::min({x, y, batch}) < 1) return std::nullopt;
  return Grid{static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(batch)};
}

}  // namespace smelt::vulkan
