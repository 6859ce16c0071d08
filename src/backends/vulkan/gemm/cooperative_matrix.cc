// Float convolutions and products by cooperative matrices of float16, with --fp16.
#include "backends/vulkan/gemm/cooperative_matrix.h"

#include <algorithm>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/gemm/packed.h"
#include "ops/conv/conv.h"
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
  t.grid = {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
  return t;
}

namespace {

class CooperativeMatrixConv final : public Kernel {
 public:
  static std::unique_ptr<Kernel> make(const KernelSpec& spec, const std::optional<ConvShape>& s,
                                      const Activation& act) {
    const DType dtype = spec.outputs[0].dtype;
    if (!spec.fp16 || !s || !spec.constant(1) || (dtype != DType::kF32 && dtype != DType::kF16)) return nullptr;
    if (spec.inputs[0].dtype != dtype || spec.inputs[0].quant || spec.outputs[0].quant) return nullptr;
    FloatOperand bias;
    if (spec.has(2) && (!spec.constant(2) || !make_f32_operand(spec, 2, bias) || !bias.fits(spec.device)))
      return nullptr;
    const auto tiles = CooperativeMatrixTiling::make(spec.device, *s, CooperativeMatrixTiling::Factors::kFp16);
    if (!tiles) return nullptr;
    auto kernel = std::make_unique<CooperativeMatrixConv>(*s, *spec.constant(1), *tiles);
    kernel->fp16_ = dtype == DType::kF16;
    kernel->act_ = gpu_activation(act);
    if (spec.has(2)) kernel->bias_ = bias;
    return kernel;
  }
  CooperativeMatrixConv(const ConvShape& s, const Tensor& filter, const CooperativeMatrixTiling& tiles)
      : shape_(s), filter_(filter), tiles_(tiles) {}
  bool reads(size_t i) const override { return i == 0 || (i == 2 && bias_ && !bias_->constant); }

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const auto n = static_cast<size_t>(filter_words(shape_) * 4);
    Status packed = Ok();
    SMELT_ASSIGN(const Binding filter,
                 r.table(1, Cat("float16 packed by 4, groups ", shape_.groups), n * sizeof(uint16_t),
                         [&](void* to) { packed = pack(static_cast<uint16_t*>(to)); }));
    SMELT_TRY(packed);
    Binding bias;
    if (bias_) {
      SMELT_ASSIGN(bias, bias_->bind(r));
    } else {
      const std::vector<float> none(static_cast<size_t>(shape_.all_out()), 0.0f);
      SMELT_ASSIGN(bias, r.table("bias", std::span<const float>(none)));
    }
    struct Push {
      PackedGeometry g;
      GpuActivation act;
    };
    Dispatch d{fp16_ ? "cooperative_matrix_f16" : "cooperative_matrix_f32",
               tiles_.constants(0, {shape_.channels_last, false, false}),
               {x, filter, bias, r.output(0)},
               tiles_.grid[0],
               tiles_.grid[1],
               tiles_.grid[2]};
    return r.dispatch(d, Push{packed_geometry(shape_), act_});
  }

 private:
  Status pack(uint16_t* to) const {
    std::vector<uint16_t> w(static_cast<size_t>(filter_.elements()));
    SMELT_TRY(fp16_values(filter_, w.data()));
    pack_by_4(
        shape_, [&](size_t at) { return w[at]; }, to);
    return Ok();
  }

  ConvShape shape_;
  Tensor filter_;
  CooperativeMatrixTiling tiles_;
  std::optional<FloatOperand> bias_;
  GpuActivation act_;
  bool fp16_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_cooperative_matrix(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  return attrs.hybrid ? nullptr : CooperativeMatrixConv::make(spec, conv_2d_shape(spec), attrs.act);
}

std::unique_ptr<Kernel> make_matmul_cooperative_matrix(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (attrs.alpha != 1 || (spec.has(2) && attrs.beta != 1)) return nullptr;
  return CooperativeMatrixConv::make(spec, matmul_as_conv(spec, attrs), attrs.act);
}

}  // namespace smelt::vulkan
