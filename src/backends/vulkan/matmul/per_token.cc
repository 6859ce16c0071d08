#include "backends/vulkan/matmul/per_token.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/vulkan/core/type_checks.h"
#include "shaders/per_token.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

constexpr uint32_t kMaxSlices = 8;
}  // namespace

bool uses_integer_dot_product(const Device& device) {
  const DeviceInfo& info = device.info();
  return info.int8_dot_product && environment_switch("SMELT_VULKAN_DOT").value_or(info.fast_int8_dot_product);
}

std::optional<PerTokenDotProduct> PerTokenDotProduct::make(const KernelSpec& product) {
  const auto& attrs = product.attrs<MatMulAttrs>();
  const Device& device = product.device;
  if (!device.stores(DType::kI8) || attrs.alpha != 1 || attrs.beta != 1) return std::nullopt;
  const auto s = matmul_as_conv(product, attrs);
  if (!s) return std::nullopt;
  const int o_axis = attrs.transpose_b ? 0 : 1;
  const auto quantized = QuantizedWeights::make(device, product.inputs[1], *s, o_axis, 1 - o_axis);
  if (!quantized) return std::nullopt;
  PerTokenDotProduct d;
  d.shape_ = *s;
  d.quantized_ = *quantized;
  d.weights_ = *product.constant(1);
  if (product.has(2)) d.bias_ = *product.constant(2);
  d.act_ = gpu_activation(attrs.act);
  if (s->c_in % 8 != 0 || quantized->block % 8 != 0) d.quantized_.bits = 8;
  const int64_t a_chunk = 32 / d.quantized_.bits;
  if (s->c_in % a_chunk != 0 || d.quantized_.block % a_chunk != 0) return std::nullopt;
  const int64_t rows = s->out_pixels(), words = d.chunks() * s->c_out;
  if (words > INT32_MAX || static_cast<uint64_t>(words) * 4 > device.max_binding()) return std::nullopt;
  if (d.chunks() + 2 * quantized->blocks(*s) > kMaxLoopIterations || rows * s->c_out > INT32_MAX) return std::nullopt;
  d.tiling_ = choose_tiling(device, s->c_out, rows);
  if ((rows + d.tiling_.tile - 1) / d.tiling_.tile > 65535) return std::nullopt;
  if (rows == 1) {
    d.tiling_.lanes = 1;
    while (d.slices_ < kMaxSlices && d.tiling_.width * d.slices_ < 256 && d.chunks() >= 32 * d.slices_) d.slices_ *= 2;
  }
  return d;
}

void PerTokenDotProduct::pack(int32_t* words) const {
  const std::vector<int8_t> values = quantized_.values(weights_, shape_);
  const int64_t a_chunk = 32 / quantized_.bits;
  const auto value = [&](int64_t o, int64_t i) {
    return static_cast<uint32_t>(values[static_cast<size_t>(o * shape_.filter_o + i * shape_.filter_i)]);
  };
  for (int64_t c = 0; c < chunks(); ++c)
    for (int64_t o = 0; o < shape_.c_out; ++o) {
      uint32_t word = 0;
      for (int64_t i = 0; i < a_chunk; ++i) {
        const auto shift = static_cast<uint32_t>(i % 4 * 8 + i / 4 * 4);
        word |= (value(o, c * a_chunk + i) & (quantized_.bits == 4 ? 15u : 255u)) << shift;
      }
      *words++ = static_cast<int32_t>(word);
    }
}

void PerTokenDotProduct::parameters(int32_t* rows) const {
  const std::vector<int8_t> values = quantized_.values(weights_, shape_);
  const Quantization& q = *weights_.quant();
  for (int64_t b = 0; b < quantized_.blocks(shape_); ++b)
    for (int64_t o = 0; o < shape_.c_out; ++o) {
      const int64_t first = b * quantized_.block, last = std::min(first + quantized_.block, shape_.c_in);
      int32_t sum = 0;
      for (int64_t i = first; i < last; ++i)
        sum += values[static_cast<size_t>(o * shape_.filter_o + i * shape_.filter_i)];
      *rows++ = sum;
      *rows++ = std::bit_cast<int32_t>(q.scale(quantized_.parameter(q, shape_, o, first)));
    }
}

Status PerTokenDotProduct::record(KernelRecorder& r, const Operands& o) const {
  const int64_t blocks = quantized_.blocks(shape_), words = chunks() * shape_.c_out;
  SMELT_ASSIGN(const Binding weights,
               r.table(1, Cat("rows of dot products, bits ", quantized_.bits, filter_order(shape_)),
                       static_cast<size_t>(words) * 4, [&](void* to) { pack(static_cast<int32_t*>(to)); }));
  SMELT_ASSIGN(const Binding columns, r.table(1, "sums and scales of blocks" + filter_order(shape_),
                                              static_cast<size_t>(blocks * shape_.c_out) * 8,
                                              [&](void* to) { parameters(static_cast<int32_t*>(to)); }));
  SMELT_ASSIGN(const Binding bias, bias_.defined() ? FloatConstant(2, bias_).bind(r) : zeros_arg(shape_.c_out).bind(r));
  static constexpr shaders::Variant<shaders::PerToken> kVariants[2][2] = {
      {shaders::per_token_w8, shaders::per_token_w8_blocks}, {shaders::per_token_w4, shaders::per_token_w4_blocks}};
  const int64_t across = int64_t{tiling_.width} * tiling_.lanes;
  return r.run(kVariants[quantized_.bits == 4 ? 1 : 0][blocks > 1 ? 1 : 0],
               {.width = tiling_.width * slices_,
                .tile = tiling_.tile,
                .lanes = tiling_.lanes,
                .slices = slices_,
                .per_tensor = o.per_tensor},
               {o.x, weights, o.scales, o.zeros, columns, bias, r.output(0)},
               {u32((shape_.c_out + across - 1) / across), u32((rows() + tiling_.tile - 1) / tiling_.tile), 1},
               {.rows = i32(rows()),
                .columns = i32(shape_.c_out),
                .words = i32(shape_.c_in / 4),
                .chunks = i32(chunks()),
                .block = i32(blocks > 1 ? quantized_.block * quantized_.bits / 32 : chunks()),
                .blocks = i32(blocks),
                .act = act_});
}

namespace {

/// A MatMul whose inputs 3 and 4 are the scales and zero points of the rows of input 0.
class PerTokenMatMul final : public Kernel {
 public:
  PerTokenMatMul(PerTokenDotProduct product, bool per_tensor) : product_(std::move(product)), per_tensor_(per_tensor) {}
  bool reads(size_t i) const override { return i == 0 || i > 2; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding scales, r.input(3));
    SMELT_ASSIGN(const Binding zeros, r.input(4));
    return product_.record(r, {x, scales, zeros, per_tensor_});
  }

 private:
  PerTokenDotProduct product_;
  bool per_tensor_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_per_token_dot_product(const KernelSpec& spec) {
  if (!spec.has(3) || !spec.has(4)) return nullptr;
  const ValueType &scale = spec.inputs[3], &zero = spec.inputs[4];
  if (zero.dtype != DType::kI8) return nullptr;
  auto product = PerTokenDotProduct::make(spec);
  if (!product) return nullptr;
  const int64_t parameters = scale.shape.elements();
  if ((parameters != product->rows() && parameters != 1) || zero.shape.elements() != parameters) return nullptr;
  return std::make_unique<PerTokenMatMul>(std::move(*product), parameters == 1);
}

}  // namespace smelt::vulkan
