// 3x3 convolutions by Winograd's F(2x2, 3x3): transformed input tiles of 16 points, a 1x1 convolution with a group per
// point, and the output transform.
#include <algorithm>
#include <vector>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "ops/common/operands.h"
#include "ops/conv/conv_shape.h"
#include "shaders/winograd_in.h"
#include "shaders/winograd_out.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

constexpr int64_t kPoints = 16;  // of a tile

/// Fills `points` with the filter as [point][output channel][input channel]: G g G^T.
Status compute_points(const Tensor& filter, const ConvShape& s, Tensor points) {
  std::vector<float> g(static_cast<size_t>(filter.elements()));
  SMELT_TRY(real_values(filter, g.data()));
  auto* to = points.data<float>();
  const auto thirds = [](float a, float b, float c, float* out) {
    out[0] = a;
    out[1] = 0.5f * (a + b + c);
    out[2] = 0.5f * (a - b + c);
    out[3] = c;
  };
  for (int64_t o = 0; o < s.c_out; ++o)
    for (int64_t i = 0; i < s.c_in; ++i) {
      const float* w = g.data() + o * s.filter_o + i * s.filter_i;
      float rows[3][4];
      for (int y = 0; y < 3; ++y)
        thirds(w[(y * 3 + 0) * s.filter_s], w[(y * 3 + 1) * s.filter_s], w[(y * 3 + 2) * s.filter_s], rows[y]);
      for (int x = 0; x < 4; ++x) {
        float column[4];
        thirds(rows[0][x], rows[1][x], rows[2][x], column);
        for (int y = 0; y < 4; ++y) to[((y * 4 + x) * s.c_out + o) * s.c_in + i] = column[y];
      }
    }
  return Ok();
}

class Winograd final : public Kernel {
 public:
  Winograd(const KernelSpec& spec, const ConvShape& s, Tensor points)
      : s_(s), act_(gpu_activation(spec.attrs<ConvAttrs>().act)), points_(std::move(points)), has_bias_(spec.has(2)) {
    for (int d = 0; d < 2; ++d) tiles_[d] = (s.out[d + 1] + 1) / 2;
    ConvAttrs attrs;
    attrs.layout = Layout::kChannelsLast;
    attrs.filter = FilterLayout::kOSI;
    attrs.groups = kPoints;
    Node node;
    node.op = Op::kConv;
    node.inputs = {0, 1};
    node.outputs = {2};
    node.attrs = make_attrs<ConvAttrs>(attrs);
    const ValueType in[] = {ValueType::tensor(DType::kF32, Shape{1, 1, tiles(), kPoints * s.c_in}),
                            ValueType::tensor(DType::kF32, points_.shape())};
    const ValueType out[] = {ValueType::tensor(DType::kF32, Shape{1, 1, tiles(), kPoints * s.c_out})};
    const Tensor* const constants[] = {nullptr, &points_};
    in_bytes_ = align_binding(Tensor::byte_size(DType::kF32, in[0].shape.elements()));
    out_bytes_ = align_binding(Tensor::byte_size(DType::kF32, out[0].shape.elements()));
    if (std::max(in_bytes_, out_bytes_) <= spec.device.max_binding())
      product_ = listed_kernel({{node, in, constants, out}, spec.device});
  }
  bool works() const { return product_ != nullptr; }
  FloatOperand bias;

  bool reads(size_t i) const override { return i != 1; }
  size_t scratch_bytes() const override { return in_bytes_ + out_bytes_ + product_->scratch_bytes(); }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const int64_t vec4_in = s_.c_in % 4 == 0 ? 4 : 1, vec4_out = s_.c_out % 4 == 0 ? 4 : 1;
    const int64_t in_channels = s_.c_in / vec4_in, out_channels = s_.c_out / vec4_out;
    SMELT_TRY(r.run(vec4_in == 4 ? shaders::winograd_in_vec4_f32 : shaders::winograd_in_f32, {},
                    {x, r.scratch(0, in_bytes_, true)},
                    Grid::flat(static_cast<uint64_t>(tiles() * in_channels), kWidth),
                    {.x_size = {i32(s_.in[1]), i32(s_.in[2])},
                     .tiles = {i32(tiles_[0]), i32(tiles_[1])},
                     .pad = {i32(s_.pad[1]), i32(s_.pad[2])},
                     .channels = i32(in_channels),
                     .n = i32(tiles() * in_channels)}));

    const KernelRecorder::Operand& filter = r.operand(1);
    Status status;
    const std::function<void()> compute = [&] { status = compute_points(*filter.constant, s_, points_); };
    const KernelRecorder::Operand operands[] = {
        {r.scratch(0, in_bytes_, false)}, {{}, &points_, filter.store, filter.constant->raw(), "points, ", &compute}};
    const Binding products[] = {r.scratch(in_bytes_, out_bytes_, false)};
    KernelRecorder inner =
        r.nested(operands, products, r.scratch(in_bytes_ + out_bytes_, product_->scratch_bytes(), false));
    SMELT_TRY(product_->record(inner));
    SMELT_TRY(status);

    Binding added = products[0];
    if (has_bias_) {
      SMELT_ASSIGN(added, bias.bind(r));
    }
    return r.run(vec4_out == 4 ? shaders::winograd_out_vec4_f32 : shaders::winograd_out_f32, {.bias = has_bias_},
                 {products[0], added, r.output(0)}, Grid::flat(static_cast<uint64_t>(tiles() * out_channels), kWidth),
                 {.y_size = {i32(s_.out[1]), i32(s_.out[2])},
                  .tiles = {i32(tiles_[0]), i32(tiles_[1])},
                  .channels = i32(out_channels),
                  .n = i32(tiles() * out_channels),
                  .act = act_});
  }

 private:
  int64_t tiles() const { return s_.batch * tiles_[0] * tiles_[1]; }

  ConvShape s_;
  int64_t tiles_[2];
  GpuActivation act_;
  Tensor points_;  ///< filled by compute_points() when the model first uploads them
  std::unique_ptr<Kernel> product_;
  size_t in_bytes_ = 0, out_bytes_ = 0;
  bool has_bias_;
};

/// True if the saved products outweigh the transforms. SMELT_VULKAN_WINOGRAD=1 skips this check, 0 forbids the kernel.
bool pays_off(const ConvShape& s) {
  return environment_switch("SMELT_VULKAN_WINOGRAD")
      .value_or(s.c_in >= 64 && s.c_out >= 64 && s.out[1] >= 8 && s.out[2] >= 8);
}

}  // namespace

std::unique_ptr<Kernel> make_winograd_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  if (attrs.dynamic_quant || spec.fp16) return nullptr;
  const auto s = ConvShape::make(spec);
  if (!s || s->groups != 1 || !s->planar() || s->filter_s == 0) return nullptr;
  for (int d = 1; d < 3; ++d)
    if (s->kernel[d] != 3 || s->stride[d] != 1 || s->dilation[d] != 1 || s->pad[d] < 0 || s->pad[d] > 2) return nullptr;
  FloatOperand filter, bias;
  if (!make_float_operand(spec, 1, filter) || !pays_off(*s)) return nullptr;
  if (spec.has(2) && (!make_float_operand(spec, 2, bias) || bias.fp16)) return nullptr;
  const int64_t largest =
      s->batch * ((s->out[1] + 1) / 2) * ((s->out[2] + 1) / 2) * kPoints * std::max(s->c_in, s->c_out);
  if (largest >= INT32_MAX) return nullptr;
  auto points = Tensor::allocate(DType::kF32, Shape{kPoints * s->c_out, 1, 1, s->c_in}, false);
  if (!points.ok()) return nullptr;
  auto kernel = std::make_unique<Winograd>(spec, *s, std::move(*points));
  kernel->bias = bias;
  return kernel->works() ? std::move(kernel) : nullptr;
}

}  // namespace smelt::vulkan
