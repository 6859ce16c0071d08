// Float convolutions and products by cooperative matrices of float16, with --fp16.
#include "backends/vulkan/gemm/cooperative_matrix.h"

#include <algorithm>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/gemm/packed.h"
#include "shaders/cooperative_matrix.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

constexpr int64_t kBlock = 64, kWords = 16;  // of cooperative_matrix.comp
constexpr uint32_t kSubgroups = 4;
constexpr int64_t kMinExtent = 32;  // of pixels, channels and K below which the kernel does not pay off: half a block

}  // namespace

std::optional<CooperativeMatrixTiling> CooperativeMatrixTiling::make(const Device& device, const ConvShape& s,
                                                                     Factors factors) {
  const DeviceInfo& info = device.info();
  const auto& size = factors == Factors::kFp16 ? info.half_matrices : info.int8_matrices;
  if (!size) return std::nullopt;
  const auto asked = environment_switch("SMELT_VULKAN_MATRIX");
  const bool large = std::min({s.out_pixels(), s.c_out, s.k()}) >= kMinExtent;
  if (!asked.value_or(large && info.type != "CPU")) return std::nullopt;
  CooperativeMatrixTiling t(*size, kSubgroups * info.subgroup_size);
  const int64_t x = (s.out_pixels() + kBlock - 1) / kBlock, y = (s.c_out + kBlock - 1) / kBlock, z = s.batch * s.groups;
  if (x > 65535 || y > 65535 || z > 65535) return std::nullopt;
  const int64_t words = filter_words(s) * (factors == Factors::kFp16 ? 2 : 1);
  if (words > INT32_MAX || static_cast<uint64_t>(words) * 4 > device.max_binding()) return std::nullopt;
  const int64_t steps = (words / s.all_out() + kWords - 1) / kWords;
  if ((2 * steps + kBlock / kWords) * (kBlock * kWords / t.width_ + 1) > kMaxLoopIterations) return std::nullopt;
  t.grid = {u32(x), u32(y), u32(z)};
  return t;
}

std::unique_ptr<Kernel> cooperative_matrix_kernel(const KernelSpec& spec, const std::optional<ConvShape>& s,
                                                  const Activation& act) {
  if (!spec.fp16 || !s) return nullptr;
  FloatOperand bias;
  if (spec.has(2) && (!make_f32_operand(spec, 2, bias) || !bias.fits(spec.device))) return nullptr;
  const auto tiles = CooperativeMatrixTiling::make(spec.device, *s, CooperativeMatrixTiling::Factors::kFp16);
  if (!tiles) return nullptr;
  const Arg filter{[shape = *s, filter = *spec.constant(1)](KernelRecorder& r) -> Result<Binding> {
    const auto n = static_cast<size_t>(filter_words(shape) * 4);
    Status status;
    const auto binding = r.table(1, "float16 packed by 4" + filter_order(shape), n * sizeof(uint16_t), [&](void* to) {
      std::vector<uint16_t> w(static_cast<size_t>(filter.elements()));
      status = fp16_values(filter, w.data());
      if (status.ok())
        pack_by_4(
            shape, [&](size_t at) { return w[at]; }, static_cast<uint16_t*>(to));
    });
    SMELT_TRY(status);
    return binding;
  }};
  return shader_kernel(
      spec.outputs[0].dtype == DType::kF16 ? shaders::cooperative_matrix_f16 : shaders::cooperative_matrix_f32,
      tiles->constants<shaders::CooperativeMatrixFloat::Constants>(*s),
      {input(0), filter, spec.has(2) ? float_arg(bias) : zeros_arg(s->all_out()), output(0)}, tiles->grid,
      {.geometry = packed_geometry(*s), .act = gpu_activation(act)});
}

}  // namespace smelt::vulkan
