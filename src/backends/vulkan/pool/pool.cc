#include <algorithm>
#include <cmath>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/pool/geometry.h"
#include "shaders/pool.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

using Geometry = shaders::PoolGeometry;
using Push = shaders::Pool::Push;

/// The kinds of pool.comp.
enum class Kind : uint32_t { kMean, kMaximum, kNorm, kNormOfTwo, kRootMeanSquare };

Kind kind_of(const PoolAttrs& a) {
  if (a.kind == PoolKind::kMax) return Kind::kMaximum;
  if (a.kind == PoolKind::kAverage) return Kind::kMean;
  return a.mean_square ? Kind::kRootMeanSquare : a.p == 2 ? Kind::kNormOfTwo : Kind::kNorm;
}

/// Which index goes with a maximum, and its words; none wanted: 0.
struct Indices {
  uint32_t words = 0, rule = 0;
};

Geometry empty_geometry(const Shape& y, int64_t channels, Layout layout) {
  Geometry g{};
  g.n = static_cast<uint32_t>(y.elements());
  for (int d = 0; d < 3; ++d) g.x_size[d] = g.y_size[d] = g.kernel[d] = g.stride[d] = g.dilation[d] = 1;
  g.channels = i32(channels);
  g.channels_last = layout == Layout::kChannelsLast ? 1 : 0;
  return g;
}

/// Nullopt: indices of another type than the shader's.
std::optional<Indices> indices_of(const KernelSpec& spec, PoolAttrs::Index rule) {
  if (!wanted(spec, 1)) return Indices{};
  const uint32_t words = index_words(spec.outputs[1].dtype);
  if (words == 0) return std::nullopt;
  return Indices{words, static_cast<uint32_t>(rule)};
}

std::unique_ptr<Kernel> pool_kernel(const KernelSpec& spec, Kind kind, bool adaptive, const Indices& indices,
                                    const Push& push) {
  return shader_kernel(spec.outputs[0].dtype == DType::kF16 ? shaders::pool_f16 : shaders::pool_f32,
                       {.kind = static_cast<uint32_t>(kind),
                        .adaptive = adaptive,
                        .index_words = indices.words,
                        .index_rule = indices.rule},
                       {input(0), output(0), output(indices.words ? 1 : 0)}, push.geometry.n, push);
}

/// Pool and AdaptivePool of 2-D images in textures.
std::unique_ptr<Kernel> pool_texture(const KernelSpec& spec, Layout layout, bool max, bool adaptive,
                                     PoolAttrs::Index rule, Geometry g, const Activation& act) {
  const Shape& y = spec.outputs[0].shape;
  const bool last = layout == Layout::kChannelsLast;
  const auto axes = pixel_axes(spec.form, y.rank(), last);
  const auto indices = indices_of(spec, rule);
  if (!indices || (indices->words > 0 && !max)) return nullptr;
  if (!axes || g.x_size[0] != 1 || g.y_size[0] != 1 || g.kernel[0] != 1 || g.pad[0] != 0) return nullptr;
  if (y.rank() == 3 && (g.x_size[1] != 1 || g.kernel[1] != 1)) return nullptr;  // a plane without a batch
  const auto from = image_of(spec, spec.inputs[0]), to = image_of(spec, spec.outputs[0]);
  if (!from || !to) return nullptr;
  g.channels = i32(last ? y.back() : y[1]);
  g.n = static_cast<uint32_t>(to->count());
  auto kernel = texture_kernel({spec.form, {from}, {to}}, {shaders::pool_3d, shaders::pool_2d},
                               {.kind = max ? 1u : 0u,
                                .adaptive = adaptive,
                                .index_words = indices->words,
                                .index_rule = indices->rule,
                                .axes = *axes},
                               {input(0), output(0), indices->words ? output(1) : no_arg()}, g.n,
                               {.geometry = g, .act = gpu_activation(act), .power = 0});
  kernel->gains_by_textures = true;
  return kernel;
}

std::optional<Geometry> pool_layout(const KernelSpec& spec) {
  const auto& a = spec.attrs<PoolAttrs>();
  const auto pool = pool_geometry(a, spec.inputs[0].shape);
  if (!pool.ok() || pool->output != spec.outputs[0].shape || pool->window.rank > 3) return std::nullopt;
  if (pool->window.taps() > kMaxLoopIterations) return std::nullopt;
  Geometry g = empty_geometry(pool->output, pool->channels, a.layout);
  const int rank = pool->window.rank;
  for (int i = 0; i < rank; ++i) {
    const WindowDim& from = pool->window.dims[static_cast<size_t>(i)];
    const int d = 3 - rank + i;
    if (from.stride > 1 << 20 || from.dilation > 1 << 20 || from.pad_begin > 1 << 20 || from.pad_end > 1 << 20)
      return std::nullopt;
    g.x_size[d] = i32(from.in);
    g.y_size[d] = i32(from.out);
    g.kernel[d] = i32(from.kernel);
    g.stride[d] = i32(from.stride);
    g.dilation[d] = i32(from.dilation);
    g.pad[d] = i32(from.pad_begin);
    g.pad_end[d] = i32(from.pad_end);
  }
  g.count_padding = a.count_include_pad ? 1 : 0;
  if (a.divisor_override > INT32_MAX || a.divisor_override < INT32_MIN) return std::nullopt;
  g.divisor = i32(a.divisor_override);
  return g;
}

}  // namespace

std::unique_ptr<Kernel> make_pool_float(const KernelSpec& spec) {
  const auto& a = spec.attrs<PoolAttrs>();
  const auto g = pool_layout(spec);
  const auto indices = indices_of(spec, a.index);
  if (!g || !indices || (indices->words > 0 && a.kind != PoolKind::kMax)) return nullptr;
  return pool_kernel(spec, kind_of(a), false, *indices,
                     {.geometry = *g, .act = gpu_activation(a.act), .power = static_cast<float>(a.p)});
}

std::unique_ptr<Kernel> make_pool_texture(const KernelSpec& spec) {
  const auto& a = spec.attrs<PoolAttrs>();
  if (a.kind == PoolKind::kLp) return nullptr;
  const auto g = pool_layout(spec);
  return g ? pool_texture(spec, a.layout, a.kind == PoolKind::kMax, false, a.index, *g, a.act) : nullptr;
}

std::unique_ptr<Kernel> make_pool_i8(const KernelSpec& spec) {
  const auto& a = spec.attrs<PoolAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (x.dtype != y.dtype || !x.quant != !y.quant) return nullptr;
  if (x.quant &&
      (!is_per_tensor(x.quant) || x.quant->scales != y.quant->scales || x.quant->zero_point() != y.quant->zero_point()))
    return nullptr;
  // Means in real numbers round in another way than integers.
  if (a.kind == PoolKind::kAverage && a.rounding == Rounding::kFloatHalfEven && x.quant) return nullptr;
  if (a.kind == PoolKind::kLp || wanted(spec, 1)) return nullptr;
  const auto g = pool_layout(spec);
  if (!g) return nullptr;
  const auto low = static_cast<double>(int_min(y.dtype)), high = static_cast<double>(int_max(y.dtype));
  const auto place = [&](float bound) {
    if (!y.quant) return static_cast<int32_t>(bound < 0 ? low : high);
    return static_cast<int32_t>(
        std::clamp(static_cast<double>(std::round(bound / y.quant->scale())) + y.quant->zero_point(), low, high));
  };
  const Bounds b = y.quant ? activation_bounds(a.act) : Bounds{-1, 1};  // of the type
  const auto shader = x.dtype == DType::kI8   ? shaders::pool_i8
                      : x.dtype == DType::kU8 ? shaders::pool_u8
                                              : shaders::pool_i16;
  return shader_kernel(shader, {.kind = a.kind == PoolKind::kMax ? 1u : 0u}, {input(0), output(0), output(0)}, g->n,
                       {.geometry = *g, .low = place(b.lo), .high = place(b.hi)});
}

namespace {
std::optional<Geometry> adaptive_layout(const KernelSpec& spec) {
  const auto& a = spec.attrs<AdaptivePoolAttrs>();
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  const int rank = static_cast<int>(a.output.size());
  const bool last = a.layout == Layout::kChannelsLast;
  const int first = x.rank() - rank - (last ? 1 : 0);
  if (a.kind == PoolKind::kLp) return std::nullopt;
  if (rank < 1 || rank > 3 || first < 0 || y.rank() != x.rank()) return std::nullopt;
  Geometry g = empty_geometry(y, last ? x.back() : 1, a.layout);
  int64_t taps = 1;
  for (int i = 0; i < rank; ++i) {
    const int d = 3 - rank + i;
    if (x[first + i] > 1 << 15 || y[first + i] > 1 << 15) return std::nullopt;
    g.x_size[d] = i32(x[first + i]);
    g.y_size[d] = i32(y[first + i]);
    taps *= x[first + i] / y[first + i] + 2;
  }
  if (taps > kMaxLoopIterations) return std::nullopt;
  return g;
}
}  // namespace

std::unique_ptr<Kernel> make_adaptive_pool_float(const KernelSpec& spec) {
  const auto g = adaptive_layout(spec);
  const bool max = spec.attrs<AdaptivePoolAttrs>().kind == PoolKind::kMax;
  // The index of an adaptive maximum counts within the plane.
  const auto indices = indices_of(spec, PoolAttrs::Index::kPlane);
  if (!g || !indices || (indices->words > 0 && !max)) return nullptr;
  return pool_kernel(spec, max ? Kind::kMaximum : Kind::kMean, true, *indices, {.geometry = *g, .act = {}, .power = 0});
}

std::unique_ptr<Kernel> make_adaptive_pool_texture(const KernelSpec& spec) {
  const auto& a = spec.attrs<AdaptivePoolAttrs>();
  const auto g = adaptive_layout(spec);
  if (!g || spec.outputs[0].shape.rank() != static_cast<int>(a.output.size()) + 2) return nullptr;
  return pool_texture(spec, a.layout, a.kind == PoolKind::kMax, true, PoolAttrs::Index::kPlane, *g, {});
}

}  // namespace smelt::vulkan
