#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/decompose/decomposed_kernel.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "base/cat.h"
#include "ops/resize/integer.h"
#include "ops/resize/plan.h"
#include "shaders/resample.h"
#include "shaders/resize_integer.h"
#include "shaders/resize_texture.h"

namespace smelt::vulkan {
namespace {

struct Tap {
  int32_t place;
  float weight;
};

/// One dimension resampled.
struct Pass {
  shaders::Resample::Push push;
  std::vector<uint32_t> begins;
  std::vector<Tap> taps;
};

Pass make_pass(const AxisTaps& t, const ResizeAxis& d, const Shape& in, float extrapolation) {
  Pass p;
  const auto inner = Shape(in.dims().subspan(static_cast<size_t>(d.axis) + 1)).elements();
  p.push = {.n = static_cast<uint32_t>(in.elements() / d.in * d.out),
            .in_length = static_cast<uint32_t>(d.in),
            .out_length = static_cast<uint32_t>(d.out),
            .inner = static_cast<uint32_t>(inner)};
  for (int64_t i = 0; i < d.out; ++i) {
    p.begins.push_back(static_cast<uint32_t>(p.taps.size()));
    const auto at = static_cast<size_t>(i);
    if (t.outside[at]) {
      p.taps.push_back({-1, extrapolation});
      continue;
    }
    for (auto k = static_cast<size_t>(t.begin[at]); k < static_cast<size_t>(t.begin[at + 1]); ++k)
      p.taps.push_back({static_cast<int32_t>(t.index[k]), static_cast<float>(t.weight[k])});
  }
  p.begins.push_back(static_cast<uint32_t>(p.taps.size()));
  return p;
}

/// Passes from the last axis to the first; what lies between two of them is float32.
class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(DType dtype, std::vector<Pass> passes) : dtype_(dtype), passes_(std::move(passes)) {
    for (size_t i = 0; i + 1 < passes_.size(); ++i) {
      offsets_.push_back(scratch_);
      scratch_ += align_binding(size_t{passes_[i].push.n} * sizeof(float));
    }
  }
  bool reads(size_t i) const override { return i == 0; }
  size_t scratch_bytes() const override { return scratch_; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(Binding x, r.input(0));
    const bool half = dtype_ == DType::kF16;
    for (size_t i = 0; i < passes_.size(); ++i) {
      const Pass& p = passes_[i];
      const bool last = i + 1 == passes_.size(), from_half = half && i == 0, to_half = half && last;
      SMELT_ASSIGN(const Binding begins, upload(r, i, "begins", p.begins.data(), p.begins.size() * sizeof(uint32_t)));
      SMELT_ASSIGN(const Binding taps, upload(r, i, "taps", p.taps.data(), p.taps.size() * sizeof(Tap)));
      const size_t bytes = size_t{p.push.n} * sizeof(float);
      SMELT_TRY(r.run(from_half ? (to_half ? shaders::resample_f16_f16 : shaders::resample_f16_f32)
                                : (to_half ? shaders::resample_f32_f16 : shaders::resample_f32_f32),
                      {}, {x, begins, taps, last ? r.output(0) : r.scratch(offsets_[i], bytes, true)},
                      Grid::flat(p.push.n, kWidth), p.push));
      if (!last) x = r.scratch(offsets_[i], bytes, false);
    }
    return Ok();
  }

 private:
  Result<Binding> upload(KernelRecorder& r, size_t pass, const char* what, const void* data, size_t bytes) const {
    return r.table(Cat(what, ' ', reinterpret_cast<uintptr_t>(this), ' ', pass), bytes,
                   [&](void* to) { std::memcpy(to, data, bytes); });
  }

  DType dtype_;
  std::vector<Pass> passes_;
  std::vector<size_t> offsets_;
  size_t scratch_ = 0;
};

/// The dimensions that the node resizes; nullopt if its sizes are not constant.
std::optional<std::vector<ResizeAxis>> named_axes(const KernelSpec& spec) {
  for (size_t i = 1; i < spec.inputs.size(); ++i)
    if (spec.has(i) && !spec.constant(i)) return std::nullopt;
  const auto content = [&](size_t i) { return spec.has(i) ? spec.constant(i) : nullptr; };
  auto axes =
      plan_resize(spec.attrs<ResizeAttrs>(), spec.inputs[0].shape, resize_request(content(1), content(2), content(3)));
  if (!axes.ok()) return std::nullopt;
  return std::move(*axes);
}

/// The dimensions that change, in order; nullopt if sizes are not constant or do not give the output's shape.
std::optional<std::vector<std::pair<ResizeAxis, AxisTaps>>> changed_axes(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  Shape shape = spec.inputs[0].shape;
  const auto axes = named_axes(spec);
  if (!axes) return std::nullopt;
  std::vector<std::pair<ResizeAxis, AxisTaps>> changed;
  for (size_t i = axes->size(); i-- > 0;) {
    const ResizeAxis& d = (*axes)[i];
    const auto taps = axis_taps(a, d);
    if (!taps.ok()) return std::nullopt;
    if (taps->identity && d.in == d.out && (i > 0 || !changed.empty())) continue;
    changed.emplace(changed.begin(), d, *taps);
    shape[d.axis] = d.out;
  }
  if (changed.empty() || !(shape == spec.outputs[0].shape)) return std::nullopt;
  return changed;
}

/// Appends a dimension's table for resize_texture.comp: begins, then taps. Returns where it begins.
uint32_t append(const Pass& p, std::vector<uint32_t>& table) {
  const auto at = static_cast<uint32_t>(table.size()), taps = static_cast<uint32_t>(at + p.begins.size());
  for (uint32_t b : p.begins) table.push_back(taps + 2 * b);
  for (const Tap& t : p.taps)
    table.insert(table.end(), {static_cast<uint32_t>(t.place), std::bit_cast<uint32_t>(t.weight)});
  return at;
}

size_t most_taps(const Pass& p) {
  size_t most = 0;
  for (size_t i = 0; i + 1 < p.begins.size(); ++i) most = std::max<size_t>(most, p.begins[i + 1] - p.begins[i]);
  return most;
}

}  // namespace

std::unique_ptr<Kernel> make_resize_texture(const KernelSpec& spec) {
  const auto changed = changed_axes(spec);
  const Shape &in = spec.inputs[0].shape, &out = spec.outputs[0].shape;
  if (!changed || changed->size() > 2) return nullptr;
  const auto x = image_of(spec, spec.inputs[0]), y = image_of(spec, spec.outputs[0]);
  if (!x || !y) return nullptr;
  std::vector<uint32_t> dims;
  std::vector<Pass> passes;
  for (const auto& [axis, taps] : *changed) {
    dims.push_back(static_cast<uint32_t>(in.rank() - 1 - axis.axis));
    passes.push_back(make_pass(taps, axis, in, static_cast<float>(spec.attrs<ResizeAttrs>().extrapolation)));
  }
  if (dims.size() == 1) {
    // The other dimension is one that stays, each coordinate its own tap.
    uint32_t other = 0;
    while (other == dims[0] || static_cast<int>(other) == x->packed()) ++other;
    Pass stays;
    for (int32_t i = 0; i < y->size[other]; ++i) {
      stays.begins.push_back(static_cast<uint32_t>(i));
      stays.taps.push_back({i, 1.0f});
    }
    stays.begins.push_back(static_cast<uint32_t>(y->size[other]));
    dims.push_back(other);
    passes.push_back(std::move(stays));
  }
  for (uint32_t d : dims)
    if (static_cast<int>(d) == x->packed() || out.rank() > 4) return nullptr;
  if (most_taps(passes[0]) * (most_taps(passes[1]) + 1) > static_cast<size_t>(kMaxLoopIterations)) return nullptr;
  std::vector<uint32_t> taps;
  shaders::ResizeTexture::Push push{
      .x_size = x->size, .y_size = y->size, .begins = {}, .n = static_cast<uint32_t>(y->count())};
  for (size_t i = 0; i < 2; ++i) push.begins[i] = append(passes[i], taps);
  auto kernel = texture_kernel({spec.form, {x}, {y}}, {shaders::resize_3d, shaders::resize_2d},
                               {.first = dims[0], .second = dims[1]},
                               {input(0), table("resize", std::move(taps)), output(0)}, push.n, push);
  kernel->gains_by_textures = true;
  return kernel;
}

std::unique_ptr<Kernel> make_resize_float(const KernelSpec& spec) {
  const auto changed = changed_axes(spec);
  if (!changed) return nullptr;
  std::vector<Pass> passes;
  Shape shape = spec.inputs[0].shape;
  for (size_t i = changed->size(); i-- > 0;) {
    const auto& [axis, taps] = (*changed)[i];
    passes.push_back(make_pass(taps, axis, shape, static_cast<float>(spec.attrs<ResizeAttrs>().extrapolation)));
    shape[axis.axis] = axis.out;
  }
  return std::make_unique<ResizeKernel>(spec.outputs[0].dtype, std::move(passes));
}

namespace {

/// True if the weights are multiples of 1/256, so that float32 sums of 8-bit values are exact along two dimensions.
bool exact_weights(const AxisTaps& taps) {
  return std::ranges::all_of(taps.weight, [](double w) { return w * 256 == std::floor(w * 256); });
}

}  // namespace

std::unique_ptr<Kernel> make_resize_unquantized(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  const DType dtype = spec.outputs[0].dtype;
  if (a.mode != ResizeAttrs::Mode::kLinear || a.antialias) return nullptr;
  const auto axes = named_axes(spec);
  if (!axes || integer_resize(a, dtype, dtype, *axes) != IntegerResize::kNone) return nullptr;
  int weighed = 0;
  for (const ResizeAxis& d : *axes) {
    const auto taps = axis_taps(a, d);
    if (!taps.ok() || !exact_weights(*taps)) return nullptr;
    weighed += taps->identity ? 0 : 1;
  }
  if (weighed > 2 || a.coord == ResizeAttrs::Coord::kTfCropAndResize) return nullptr;
  Decomposition c(spec);
  std::vector<ValueId> inputs{c.cast(c.input(0), DType::kF32)};
  if (inputs[0] == kNoValue) return nullptr;
  for (size_t i = 1; i < spec.inputs.size(); ++i) inputs.push_back(c.input(i));
  return decomposed_kernel(spec, c, {c.cast(c.add(Op::kResize, spec.node.attrs, inputs, true), dtype)});
}

std::unique_ptr<Kernel> make_resize_integer(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  const DType dtype = spec.inputs[0].dtype;
  if (dtype == DType::kI16 && !spec.device.info().int64) return nullptr;
  const auto axes = named_axes(spec);
  if (!axes) return nullptr;
  const IntegerResize arithmetic = integer_resize(a, dtype, spec.outputs[0].dtype, *axes);
  if (arithmetic == IntegerResize::kNone) return nullptr;
  const Shape& x = spec.inputs[0].shape;
  const ResizeAxis &v = (*axes)[0], &h = (*axes)[1];
  Shape want = x;
  want[v.axis] = v.out;
  want[h.axis] = h.out;
  if (want != spec.outputs[0].shape) return nullptr;
  std::vector<uint32_t> neighbours;
  const bool real = arithmetic == IntegerResize::kReal, xnnpack = arithmetic == IntegerResize::kXnnpack;
  for (const ResizeAxis* d : {&v, &h})
    for (int64_t i = 0; i < d->out; ++i) {
      const ResizeNeighbours n = resize_neighbours(a, *d, i, arithmetic);
      neighbours.insert(neighbours.end(), {static_cast<uint32_t>(n.lower), static_cast<uint32_t>(n.upper),
                                           real ? std::bit_cast<uint32_t>(n.real) : static_cast<uint32_t>(n.fixed)});
    }
  const auto shader = dtype == DType::kI8   ? xnnpack ? shaders::resize_xnnpack_i8 : shaders::resize_i8
                      : dtype == DType::kU8 ? xnnpack ? shaders::resize_xnnpack_u8 : shaders::resize_u8
                                            : shaders::resize_i16;
  return shader_kernel(shader, {}, {input(0), table("neighbours", std::move(neighbours)), output(0)},
                       static_cast<uint64_t>(want.elements()),
                       {.n = u32(want.elements()),
                        .in_rows = u32(v.in),
                        .in_columns = u32(h.in),
                        .rows = u32(v.out),
                        .columns = u32(h.out),
                        .inner = u32(Shape(x.dims().subspan(static_cast<size_t>(h.axis) + 1)).elements())});
}

}  // namespace smelt::vulkan
