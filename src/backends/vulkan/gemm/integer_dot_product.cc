// Convolutions and matrix products of 8-bit values by cooperative matrices or by VK_KHR_shader_integer_dot_product.
#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <vector>

#include "backends/vulkan/gemm/integer_dot_product.h"

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/cooperative_matrix.h"
#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/quantized_gemm.h"
#include "backends/vulkan/matmul/per_token.h"
#include "backends/vulkan/quantize/dynamic_quantize.h"
#include "ops/common/operands.h"
#include "ops/common/requantizer.h"
#include "ops/conv/conv.h"
#include "shaders/cooperative_matrix.h"
#include "shaders/integer_dot_product.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

/// The base of the kernels: packs the filter as int8, four input channels a word, uint8 values shifted by -128.
class DotProductKernel : public Kernel {
 public:
  DotProductKernel(const ConvShape& s, const Tensor& filter, bool x_signed, bool w_signed)
      : shape_(s), filter_(filter), x_signed_(x_signed), w_signed_(w_signed) {}
  static bool suits(const ConvShape& s) { return s.c_in >= 4; }
  /// Chooses the dispatch grid; false if the shape exceeds a dispatch or the device lacks both instructions.
  bool set_grid(const Device& device) {
    const ConvShape& s = shape_;
    cooperative_ = CooperativeMatrixTiling::make(device, s, CooperativeMatrixTiling::Factors::kInt8);
    if (cooperative_) return true;
    if (!uses_integer_dot_product(device)) return false;
    tiling_ = choose_tiling(device, s.out_pixels(), s.c_out);
    const auto grid = gemm_grid(tiling_, s.out_pixels(), s.c_out, s.batch * s.groups);
    if (!grid || s.taps() * ((s.c_in + 3) / 4 + 1) > kMaxLoopIterations) return false;
    const int64_t words = filter_words(s);
    if (words > INT32_MAX || static_cast<uint64_t>(words) * 4 > device.max_binding()) return false;
    grid_ = *grid;
    return true;
  }

 protected:
  int32_t signed_weight(int64_t quantized) const {
    return static_cast<int32_t>(w_signed_ ? quantized : quantized - 128);
  }
  /// The sum of the packed filter's values of each output channel.
  std::vector<int64_t> filter_sums() const {
    std::vector<int8_t> w(static_cast<size_t>(filter_words(shape_) * 4));
    pack(w.data());
    const size_t n = w.size() / static_cast<size_t>(shape_.all_out());
    std::vector<int64_t> sums(static_cast<size_t>(shape_.all_out()), 0);
    for (size_t i = 0; i < w.size(); ++i) sums[i / n] += w[i];
    return sums;
  }
  /// Runs one variant or the other. `channels`: the shader's table by output channel; `fill(push)` completes the push
  /// constants; `more`: further bindings.
  template <class Dot, class Matrix, class Fill>
  Status record_product(KernelRecorder& r, shaders::Variant<Dot> dot, shaders::Variant<Matrix> matrix,
                        const Binding& channels, uint32_t rounding, bool filter_zeros, std::optional<Binding> x_zero,
                        const Fill& fill, const std::vector<Binding>& more = {}) const {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const auto words = static_cast<size_t>(filter_words(shape_));
    SMELT_ASSIGN(const Binding filter, r.table(1, "int8 packed by 4" + filter_order(shape_), words * 4,
                                               [&](void* to) { pack(static_cast<int8_t*>(to)); }));
    std::vector<Binding> bindings{x, filter, channels, r.output(0), x, x_zero.value_or(x)};
    bindings.insert(bindings.end(), more.begin(), more.end());
    const auto run = [&](auto shader, auto constants, const Grid& grid, auto push) {
      constants.rounding = rounding;
      constants.filter_zeros = filter_zeros;
      constants.input_zero = x_zero.has_value();
      push.geometry = packed_geometry(shape_);
      fill(push);
      return r.run(shader, constants, std::span<const Binding>(bindings), grid, push);
    };
    if (cooperative_)
      return run(matrix, cooperative_->constants<typename Matrix::Constants>(shape_), cooperative_->grid,
                 typename Matrix::Push{});
    typename Dot::Constants constants;
    constants.width = tiling_.width;
    constants.tile = tiling_.tile;
    constants.pixels = tiling_.lanes;
    constants.words = shape_.channels_last && shape_.c_in % 4 == 0;
    return run(dot, constants, grid_, typename Dot::Push{});
  }

  ConvShape shape_;
  Tensor filter_;
  bool x_signed_, w_signed_;

 private:
  void pack(int8_t* to) const {
    std::vector<int64_t> quantized(static_cast<size_t>(filter_.elements()));
    to_ints(filter_, quantized.data());
    pack_by_4(
        shape_, [&](size_t at) { return static_cast<int8_t>(signed_weight(quantized[at])); }, to);
  }

  std::optional<CooperativeMatrixTiling> cooperative_;
  Tiling tiling_;
  Grid grid_;
};

/// 8-bit results, requantized.
class DotProductQuantized final : public DotProductKernel {
 public:
  static std::unique_ptr<Kernel> make(const KernelSpec& spec, const ConvShape& s, QuantizedGemm product) {
    auto kernel = std::make_unique<DotProductQuantized>(s, *spec.constant(1), std::move(product));
    return kernel->set_grid(spec.device) ? std::move(kernel) : nullptr;
  }
  DotProductQuantized(const ConvShape& s, const Tensor& filter, QuantizedGemm product)
      : DotProductKernel(s, filter, product.pair.x_signed, product.pair.w_signed), product_(std::move(product)) {}
  bool reads(size_t i) const override { return i == 0; }

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding channels, folded().table(r));
    const auto& zeros = product_.pair.w_zeros;
    const bool filter_zeros = std::ranges::any_of(zeros, [&](int32_t z) { return signed_weight(z); });
    const auto fill = [&](auto& push) { push.requantization = product_.push(signed_x_zero(), 0); };
    const auto record = [&](auto dot, auto matrix) {
      return record_product(r, dot, matrix, channels, product_.rounding(), filter_zeros, std::nullopt, fill);
    };
    return x_signed_ ? record(shaders::integer_dot_product_i8, shaders::cooperative_matrix_i8)
                     : record(shaders::integer_dot_product_u8, shaders::cooperative_matrix_u8);
  }

 private:
  int32_t signed_x_zero() const { return product_.pair.x_zero - (x_signed_ ? 0 : 128); }
  /// The gemm with the terms of sum((x - x_zero) * (w - w_zero)) that do not depend on x added to the bias, modulo 2^32
  /// as the accumulators.
  QuantizedGemm folded() const {
    QuantizedGemm p = product_;
    const auto sums = filter_sums();
    const auto products = static_cast<int64_t>(shape_.taps() * shape_.c_in);
    for (size_t o = 0; o < sums.size(); ++o) {
      const int64_t w_zero = signed_weight(product_.pair.w_zeros[o]);
      p.requantize.bias[o] =
          static_cast<int32_t>(p.requantize.bias[o] - signed_x_zero() * sums[o] + products * signed_x_zero() * w_zero);
    }
    return p;
  }

  QuantizedGemm product_;
};

/// int32 results, with zero points from inputs; those of the filter are constant.
class DotProductInteger final : public DotProductKernel {
 public:
  static std::unique_ptr<Kernel> make(const KernelSpec& spec, const std::optional<ConvShape>& s) {
    const ValueType &x = spec.inputs[0], &w = spec.inputs[1];
    if (!s || !suits(*s) || !is_int8(spec, x) || !is_int8(spec, w)) return nullptr;
    const auto x_zeros = zero_points(spec, 2, x.dtype, 1), w_zeros = zero_points(spec, 3, w.dtype, s->all_out());
    const bool has_w_zeros = w_zeros != ZeroPoints::kNone;
    if (x_zeros == ZeroPoints::kUnsupported || w_zeros == ZeroPoints::kUnsupported) return nullptr;
    auto kernel =
        std::make_unique<DotProductInteger>(*s, *spec.constant(1), x.dtype == DType::kI8, w.dtype == DType::kI8);
    kernel->has_x_zero_ = x_zeros != ZeroPoints::kNone;
    kernel->w_zeros_.assign(static_cast<size_t>(s->all_out()), has_w_zeros ? 0 : kernel->signed_weight(0));
    for (size_t o = 0; has_w_zeros && o < kernel->w_zeros_.size(); ++o)
      kernel->w_zeros_[o] = kernel->signed_weight(
          get_int(*spec.constant(3), w_zeros == ZeroPoints::kPerTensor ? 0 : static_cast<int64_t>(o)));
    return kernel->set_grid(spec.device) ? std::move(kernel) : nullptr;
  }
  using DotProductKernel::DotProductKernel;
  bool reads(size_t i) const override { return i == 0 || (i == 2 && has_x_zero_); }

  Status record(KernelRecorder& r) const override {
    const auto sums = filter_sums();
    std::vector<int32_t> rows;
    for (size_t o = 0; o < sums.size(); ++o) {
      rows.push_back(static_cast<int32_t>(sums[o]));
      rows.push_back(w_zeros_[o]);
    }
    SMELT_ASSIGN(const Binding channels, r.table("sums", std::span<const int32_t>(rows)));
    std::optional<Binding> x_zero;
    if (has_x_zero_) {
      SMELT_ASSIGN(x_zero, r.input(2));
    }
    const bool filter_zeros = std::ranges::any_of(w_zeros_, [](int32_t z) { return z != 0; });
    const auto record = [&](auto dot, auto matrix) {
      return record_product(r, dot, matrix, channels, 0, filter_zeros, x_zero, [](auto&) {});
    };
    return x_signed_
               ? record(shaders::integer_dot_product_accumulators_i8, shaders::cooperative_matrix_accumulators_i8)
               : record(shaders::integer_dot_product_accumulators_u8, shaders::cooperative_matrix_accumulators_u8);
  }

 private:
  bool has_x_zero_ = false;
  std::vector<int32_t> w_zeros_;  ///< as signed_weight() has them
};

/// Dynamic quantization: float32 images, each quantized to int8 with its own parameters, and float32 results.
class DotProductDynamicQuant final : public DotProductKernel {
 public:
  /// `spec`: the node with ConvAttrs::dynamic_quant cleared.
  static std::unique_ptr<Kernel> make(const KernelSpec& spec, bool asymmetric) {
    const auto& attrs = spec.attrs<ConvAttrs>();
    const auto s = conv_2d_shape(spec);
    if (!s || !suits(*s)) return nullptr;
    const Tensor& filter = *spec.constant(1);
    const int o_axis = filter_output_axis(attrs, filter.rank());
    if (!has_integer_quant_params(filter, o_axis)) return nullptr;
    for (const auto zero : filter.quant()->zero_points)
      if (zero != 0) return nullptr;
    const auto rows =
        dynamic_quant_rows(spec, shaders::dynamic_quantize_i8, spec.inputs[0].shape.elements() / s->batch, asymmetric);
    if (!rows) return nullptr;
    auto kernel = std::make_unique<DotProductDynamicQuant>(*s, filter, *rows);
    kernel->act_ = gpu_activation(attrs.act);
    kernel->bias_.assign(static_cast<size_t>(s->all_out()), 0.0f);
    if (spec.has(2) && !real_values(*spec.constant(2), kernel->bias_.data()).ok()) return nullptr;
    return kernel->set_grid(spec.device) ? std::move(kernel) : nullptr;
  }
  DotProductDynamicQuant(const ConvShape& s, const Tensor& filter, const DynamicQuant& rows)
      : DotProductKernel(s, filter, true, true), rows_{rows} {}
  bool reads(size_t i) const override { return i == 0; }
  size_t scratch_bytes() const override { return rows_.bytes(); }

  Status record(KernelRecorder& r) const override {
    SMELT_TRY(rows_.record(r));
    const auto quantized = rows_.bindings(r, false);
    const KernelRecorder::Operand inputs[] = {{quantized[0]}, r.operand(1)};
    const Binding outputs[] = {r.place(0)};
    KernelRecorder product = r.nested(inputs, outputs, {});
    const Quantization& q = *filter_.quant();
    const auto sums = filter_sums();
    std::vector<int32_t> table;
    for (size_t o = 0; o < sums.size(); ++o) {
      const float scale = q.scale(q.scales.size() > 1 ? static_cast<int64_t>(o) : 0);
      table.insert(table.end(),
                   {static_cast<int32_t>(sums[o]), std::bit_cast<int32_t>(scale), std::bit_cast<int32_t>(bias_[o]), 0});
    }
    SMELT_ASSIGN(const Binding channels, r.table("images", std::span<const int32_t>(table)));
    return record_product(product, shaders::integer_dot_product_dynamic_i8, shaders::cooperative_matrix_dynamic_i8,
                          channels, 0, false, quantized[2], [&](auto& push) { push.act = act_; }, {quantized[1]});
  }

 private:
  QuantizedRows rows_;
  GpuActivation act_;
  std::vector<float> bias_;
};

}  // namespace

std::unique_ptr<Kernel> dot_product_kernel(const KernelSpec& spec, const std::optional<ConvShape>& s,
                                           std::optional<QuantizedGemm> product) {
  if (!s || !DotProductKernel::suits(*s) || !product) return nullptr;
  return DotProductQuantized::make(spec, *s, std::move(*product));
}

std::unique_ptr<Kernel> dot_product_accumulators(const KernelSpec& spec, const std::optional<ConvShape>& s) {
  return DotProductInteger::make(spec, s);
}

std::unique_ptr<Kernel> dot_product_dynamic_quant(const KernelSpec& spec, bool asymmetric) {
  return DotProductDynamicQuant::make(spec, asymmetric);
}

}  // namespace smelt::vulkan
