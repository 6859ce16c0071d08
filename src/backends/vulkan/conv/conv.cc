#include "backends/vulkan/conv/conv.h"

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/int64_accumulators.h"
#include "backends/vulkan/gemm/quantized_gemm.h"

namespace smelt::vulkan {
namespace {

/// The layout of conv.comp.
struct Geometry {
  int32_t x_size[3], y_size[3], kernel[3], stride[3], dilation[3], pad[3];
  int32_t filter_g, filter_o, filter_i, filter_s;
  int32_t c_in, c_out, groups;
  int32_t channels_last;
};
struct Push {
  Geometry g;
  GpuActivation act;
};

Geometry geometry_of(const ConvShape& s, bool inputs_first) {
  const auto i32 = [](int64_t v) { return static_cast<int32_t>(v); };
  Geometry g{};
  for (int d = 0; d < 3; ++d) {
    g.x_size[d] = i32(s.in[d]);
    g.y_size[d] = i32(s.out[d]);
    g.kernel[d] = i32(s.kernel[d]);
    g.stride[d] = i32(s.stride[d]);
    g.dilation[d] = i32(s.dilation[d]);
    g.pad[d] = i32(s.pad[d]);
  }
  g.filter_g = i32(inputs_first ? s.c_in * s.filter_i : s.c_out * s.filter_o);
  g.filter_o = i32(s.filter_o);
  g.filter_i = i32(s.filter_i);
  g.filter_s = i32(s.filter_s);
  g.c_in = i32(s.c_in);
  g.c_out = i32(s.c_out);
  g.groups = i32(s.groups);
  g.channels_last = s.channels_last ? 1 : 0;
  return g;
}

/// The dispatch grid of conv.comp: pixels, output channels, batch and groups. False if a dimension exceeds 65535.
bool set_conv_grid(const ConvShape& s, const Tiling& t, uint32_t grid[3]) {
  const int64_t across = int64_t{t.width} * t.lanes;
  const int64_t x = (s.out_pixels() + across - 1) / across, y = (s.c_out + t.tile - 1) / t.tile, z = s.batch * s.groups;
  if (x > 65535 || y > 65535 || z > 65535 || x * y * z == 0) return false;
  grid[0] = static_cast<uint32_t>(x);
  grid[1] = static_cast<uint32_t>(y);
  grid[2] = static_cast<uint32_t>(z);
  return true;
}

struct StoredPush {
  Geometry g;
  IntegerPush q;
};

class QuantizedConv final : public Kernel {
 public:
  QuantizedConv(const char* shader, const Geometry& geometry, QuantizedGemm product, const Tiling& tiling,
                const uint32_t (&grid)[3])
      : shader_(shader), product_(std::move(product)), tiling_(tiling), grid_{grid[0], grid[1], grid[2]} {
    const RequantParams& q = product_.requant;
    push_ = {geometry, {product_.pair.x_zero, *product_.w_zero(), q.zero, q.low, q.high}};
  }
  bool reads(size_t i) const override { return i < 2; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding filter, r.input(1));
    SMELT_ASSIGN(const Binding channels, product_.table(r));
    return r.dispatch({shader_,
                       {tiling_.width, tiling_.tile, tiling_.lanes, 1u, product_.rounding()},
                       {x, filter, channels, r.output(0)},
                       grid_[0],
                       grid_[1],
                       grid_[2]},
                      push_);
  }

 private:
  const char* shader_;
  QuantizedGemm product_;
  Tiling tiling_;
  StoredPush push_;
  uint32_t grid_[3];
};

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const char* shader, const Geometry& geometry, const Activation& act, const Tiling& tiling)
      : shader_(shader), tiling_(tiling), push_{geometry, gpu_activation(act)} {}
  FloatOperand x, filter, bias;
  bool has_bias = false;
  uint32_t grid[3] = {1, 1, 1};

  bool reads(size_t i) const override { return i < 3; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x_at, x.bind(r));
    SMELT_ASSIGN(const Binding filter_at, filter.bind(r));
    Binding bias_at = x_at;
    if (has_bias) {
      SMELT_ASSIGN(bias_at, bias.bind(r));
    }
    return r.dispatch({shader_,
                       {tiling_.width, tiling_.tile, tiling_.lanes, has_bias ? 1u : 0u, 0u},
                       {x_at, filter_at, bias_at, r.output(0)},
                       grid[0],
                       grid[1],
                       grid[2]},
                      push_);
  }

 private:
  const char* shader_;
  Tiling tiling_;
  Push push_;
};

/// ConvInteger: 8-bit operands, int32 results, zero points from inputs 2 and 3.
class IntegerConv final : public Kernel {
 public:
  IntegerConv(const char* shader, const Geometry& g, const Tiling& tiling, bool x_zero, uint32_t w_zeros)
      : shader_(shader), g_(g), tiling_(tiling), x_zero_(x_zero), w_zeros_(w_zeros) {}
  uint32_t grid[3] = {1, 1, 1};

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding filter, r.input(1));
    Binding x_zero = x, w_zeros = filter;
    if (x_zero_) {
      SMELT_ASSIGN(x_zero, r.input(2));
    }
    if (w_zeros_) {
      SMELT_ASSIGN(w_zeros, r.input(3));
    }
    return r.dispatch({shader_,
                       {tiling_.width, tiling_.tile, tiling_.lanes, 0u, 0u, x_zero_ ? 1u : 0u, w_zeros_},
                       {x, filter, w_zeros, r.output(0), x_zero},
                       grid[0],
                       grid[1],
                       grid[2]},
                      g_);
  }

 private:
  const char* shader_;
  Geometry g_;
  Tiling tiling_;
  bool x_zero_;
  uint32_t w_zeros_;
};

/// True if coordinates fit in 32 bits and loops in kMaxLoopIterations.
bool within_limits(const ConvShape& s) {
  for (int d = 0; d < 3; ++d)
    if (s.dilation[d] > INT32_MAX / (s.kernel[d] + 1) / 4 || s.stride[d] > INT32_MAX / (s.out[d] + 1) / 4 ||
        s.pad[d] > INT32_MAX / 4 || s.pad[d] < -(INT32_MAX / 4))
      return false;
  return s.taps() * (s.c_in + 1) <= kMaxLoopIterations;
}

std::unique_ptr<Kernel> make_float(const KernelSpec& spec, const ConvShape& shape, const ConvAttrs& attrs,
                                   bool transposed) {
  if (!within_limits(shape)) return nullptr;
  const DType dtype = spec.outputs[0].dtype;
  const bool fp16 = dtype == DType::kF16;
  if ((dtype != DType::kF32 && !fp16) || spec.outputs[0].quant) return nullptr;
  FloatOperand x, filter, bias;
  if (!make_float_operand(spec, 0, x) || x.fp16 != fp16 || (x.constant && fp16)) return nullptr;
  if (!(fp16 ? make_float_operand : make_f32_operand)(spec, 1, filter)) return nullptr;
  if (!x.fits(spec.device) || !filter.fits(spec.device)) return nullptr;
  const bool has_bias = spec.has(2);
  if (has_bias && !make_f32_operand(spec, 2, bias)) return nullptr;
  if (spec.fp16) round_to_fp16(spec, filter);
  const Tiling tiling = choose_tiling(spec.device, shape.out_pixels(), shape.c_out);
  static const char* const direct[] = {"conv_f32", "conv_f16", "conv_f16_f32", "conv_fp16_multiply_f32",
                                       "conv_fp16_multiply_f16"};
  static const char* const turned[] = {"conv_transpose_f32", "conv_transpose_f16", "conv_transpose_f16_f32",
                                       "conv_transpose_fp16_multiply_f32", "conv_transpose_fp16_multiply_f16"};
  const int variant = spec.fp16 && filter.fp16 ? (fp16 ? 4 : 3) : !fp16 ? 0 : filter.fp16 ? 1 : 2;
  auto k = std::make_unique<ConvKernel>((transposed ? turned : direct)[variant],
                                        geometry_of(shape, transposed && attrs.filter == FilterLayout::kIOS), attrs.act,
                                        tiling);
  if (!set_conv_grid(shape, tiling, k->grid)) return nullptr;
  k->x = x;
  k->filter = filter;
  k->bias = bias;
  k->has_bias = has_bias;
  return k;
}

std::unique_ptr<Kernel> make_quantized(const KernelSpec& spec, const ConvShape& shape, const ConvAttrs& attrs,
                                       bool transposed) {
  if (!within_limits(shape) || !spec.device.stores(spec.inputs[1].dtype)) return nullptr;
  // Transposed filters of several groups share their scales between groups: only one scale for all is supported.
  const bool inputs_first = transposed && attrs.filter == FilterLayout::kIOS;
  if (inputs_first && shape.groups > 1 && spec.inputs[1].quant && spec.inputs[1].quant->scales.size() != 1)
    return nullptr;
  auto product = QuantizedGemm::make(spec, filter_output_axis(attrs, spec.inputs[1].shape.rank()), shape.all_out(),
                                     attrs.rescale_rule());
  if (!product || !product->w_zero()) return nullptr;
  static const char* const direct[] = {"conv_i8", "conv_u8", "conv_u8_i8"};
  static const char* const turned[] = {"conv_transpose_i8", "conv_transpose_u8", "conv_transpose_u8_i8"};
  const int variant = product->pair.x_signed ? 0 : product->pair.w_signed ? 2 : 1;
  const Tiling tiling = choose_tiling(spec.device, shape.out_pixels(), shape.c_out);
  uint32_t grid[3];
  if (!set_conv_grid(shape, tiling, grid)) return nullptr;
  return std::make_unique<QuantizedConv>((transposed ? turned : direct)[variant], geometry_of(shape, inputs_first),
                                         std::move(*product), tiling, grid);
}

/// int16 images and 8-bit filters with int64 accumulators.
class Int16Conv final : public Kernel {
 public:
  struct Push {
    Geometry g;
    int32_t x_zero, w_zero;
  };
  Int16Conv(const char* shader, const Geometry& g, Int64Accumulators sums, const Tiling& tiling)
      : shader_(shader),
        accumulators_(std::move(sums)),
        tiling_(tiling),
        push_{g, accumulators_.x_zero(), accumulators_.w_zero()} {}
  uint32_t grid[3] = {1, 1, 1};

  bool reads(size_t i) const override { return i < 2; }
  size_t scratch_bytes() const override { return accumulators_.scratch_bytes(); }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding filter, r.input(1));
    SMELT_TRY(r.dispatch({shader_,
                          {tiling_.width, tiling_.tile, tiling_.lanes, 0u, 0u},
                          {x, filter, filter, accumulators_.accumulators(r, true)},
                          grid[0],
                          grid[1],
                          grid[2]},
                         push_));
    return accumulators_.record(r);
  }

 private:
  const char* shader_;
  Int64Accumulators accumulators_;
  Tiling tiling_;
  Push push_;
};

std::unique_ptr<Kernel> make_int16(const KernelSpec& spec, const ConvShape& shape, const ConvAttrs& attrs,
                                   bool transposed) {
  const ValueType &x = spec.inputs[0], &w = spec.inputs[1];
  if (!within_limits(shape) || x.dtype != DType::kI16 || w.dtype != DType::kI8 || !spec.device.stores(w.dtype))
    return nullptr;
  const bool inputs_first = transposed && attrs.filter == FilterLayout::kIOS;
  if (inputs_first && shape.groups > 1 && w.quant && w.quant->scales.size() != 1) return nullptr;
  if (w.quant && w.quant->kind == Quantization::Kind::kPerAxis &&
      w.quant->axis != filter_output_axis(attrs, w.shape.rank()))
    return nullptr;
  auto sums = Int64Accumulators::make(spec, shape.all_out(), shape.channels_last ? 1 : shape.out_pixels(),
                                      attrs.rescale_rule());
  if (!sums) return nullptr;
  const Tiling tiling = choose_tiling(spec.device, shape.out_pixels(), shape.c_out);
  auto kernel = std::make_unique<Int16Conv>(transposed ? "conv_transpose_int64_i16" : "conv_int64_i16",
                                            geometry_of(shape, inputs_first), std::move(*sums), tiling);
  return set_conv_grid(shape, tiling, kernel->grid) ? std::move(kernel) : nullptr;
}

}  // namespace

std::optional<ConvShape> transposed_shape(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  const Shape &x = spec.inputs[0].shape, &w = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  if (attrs.hybrid || y.rank() < 3) return std::nullopt;
  std::vector<int64_t> sizes = attrs.output_shape;
  if (spec.has(3)) {
    const int first = spatial_dim(attrs.layout);
    sizes.assign(y.begin() + first, y.begin() + first + (y.rank() - 2));
  }
  const auto g = conv_transpose_geometry(attrs, x, w, sizes);
  if (!g.ok() || g->output_shape(attrs.layout) != y) return std::nullopt;
  if (spec.has(2) && spec.inputs[2].shape.elements() != g->out_channels) return std::nullopt;
  return ConvShape::of(*g, attrs, w);
}

std::unique_ptr<Kernel> make_conv_i8(const KernelSpec& spec) {
  const auto shape = ConvShape::make(spec);
  return shape ? make_quantized(spec, *shape, spec.attrs<ConvAttrs>(), false) : nullptr;
}

std::unique_ptr<Kernel> make_conv_integer(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &filter = spec.inputs[1];
  if (!is_int8(spec, x) || !is_int8(spec, filter) || spec.outputs[0].dtype != DType::kI32) return nullptr;
  const auto shape = ConvShape::make(spec, false);
  if (!shape || !within_limits(*shape)) return nullptr;
  const auto x_zero = zero_points(spec, 2, x.dtype, 1), w_zeros = zero_points(spec, 3, filter.dtype, shape->all_out());
  if (x_zero == ZeroPoints::kUnsupported || w_zeros == ZeroPoints::kUnsupported) return nullptr;
  const bool x_signed = x.dtype == DType::kI8, w_signed = filter.dtype == DType::kI8;
  const char* shader = w_signed ? (x_signed ? "conv_integer_i8" : "conv_integer_u8_i8")
                                : (x_signed ? "conv_integer_i8_u8" : "conv_integer_u8");
  const Tiling tiling = choose_tiling(spec.device, shape->out_pixels(), shape->c_out);
  auto kernel = std::make_unique<IntegerConv>(shader, geometry_of(*shape, false), tiling, x_zero != ZeroPoints::kNone,
                                              static_cast<uint32_t>(w_zeros));
  return set_conv_grid(*shape, tiling, kernel->grid) ? std::move(kernel) : nullptr;
}

std::unique_ptr<Kernel> make_conv_i16(const KernelSpec& spec) {
  if (spec.inputs[0].dtype != DType::kI16 || spec.outputs[0].dtype != DType::kI16) return nullptr;
  const auto shape = ConvShape::make(spec);
  return shape ? make_int16(spec, *shape, spec.attrs<ConvAttrs>(), false) : nullptr;
}

std::unique_ptr<Kernel> make_conv_transpose_i16(const KernelSpec& spec) {
  if (spec.inputs[0].dtype != DType::kI16 || spec.outputs[0].dtype != DType::kI16) return nullptr;
  const auto shape = transposed_shape(spec);
  return shape ? make_int16(spec, *shape, spec.attrs<ConvTransposeAttrs>(), true) : nullptr;
}

std::unique_ptr<Kernel> make_conv_transpose_i8(const KernelSpec& spec) {
  const auto shape = transposed_shape(spec);
  return shape ? make_quantized(spec, *shape, spec.attrs<ConvTransposeAttrs>(), true) : nullptr;
}

std::unique_ptr<Kernel> make_conv_float(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto shape = ConvShape::make(spec);
  if (!shape || attrs.hybrid) return nullptr;
  return make_float(spec, *shape, attrs, false);
}

std::unique_ptr<Kernel> make_conv_transpose_float(const KernelSpec& spec) {
  const auto shape = transposed_shape(spec);
  return shape ? make_float(spec, *shape, spec.attrs<ConvTransposeAttrs>(), true) : nullptr;
}

}  // namespace smelt::vulkan
