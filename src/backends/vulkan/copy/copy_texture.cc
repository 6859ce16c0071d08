// Elements copied from texture to texture.
#include <algorithm>

#include "backends/vulkan/copy/copy_plan.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "shaders/strided_copy_texture.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

/// What becomes of the elements of y that a dispatch has no source for (kRest of strided_copy_texture.comp).
enum class Rest : uint32_t { kAnything, kKept, kValue };

using BoxPush = shaders::CopyBox::Push;
using WalkPush = shaders::CopyWalk::Push;

/// A box of one element at the origins of both images.
BoxPush empty_box(const GpuSize& x = {}, const GpuSize& y = {}) {
  return {.x_size = x,
          .y_size = y,
          .box = {1, 1, 1, 1},
          .to = {},
          .at = {},
          .step = {1, 1, 1, 1},
          .axes = 0b11100100,  // each its own
          .n = 0,
          .value = 0};
}

/// One dispatch: what an output has from one input.
struct TextureStep {
  enum class Source : uint32_t { kBox, kWalk, kMap };
  size_t in = 0, out = 0;
  Source source = Source::kBox;
  bool whole = false;  ///< texels are copied as they are
  bool all = false;    ///< every texel of y gets an invocation, else those of the box
  Rest rest = Rest::kAnything;
  BoxPush box = empty_box();
  WalkPush walk = {};
  std::vector<int32_t> index_map;  ///< ElementCopy::index_map
};

GpuSize coordinates(int64_t offset, const GpuSize& size) {
  GpuSize c{};
  for (size_t d = 0; d < 4; ++d) {
    c[d] = static_cast<int32_t>(d == 3 ? offset : offset % size[d]);
    offset /= size[d];
  }
  return c;
}

/// The elements from one to the next along each dimension.
std::array<int64_t, 4> strides_of(const GpuSize& size) {
  std::array<int64_t, 4> s{1, 0, 0, 0};
  for (size_t d = 1; d < 4; ++d) s[d] = s[d - 1] * size[d - 1];
  return s;
}

/// Cuts the loop nest along the dimensions of y: sets b.box, and the stride in x of every dimension of the box. False
/// where the elements written are no box.
bool cut_box(const StridedCopy& c, BoxPush& b, std::array<int64_t, 4>& in_strides) {
  const auto own = strides_of(b.y_size);
  std::array<bool, 4> taken{};
  for (size_t k = c.dims.size(); k-- > 0;) {
    int64_t n = c.dims[k], in = c.in_strides[k];
    auto d = static_cast<size_t>(std::ranges::find(own, c.out_strides[k]) - own.begin());
    for (; n > 1; ++d) {
      if (d >= 4 || taken[d]) return false;
      const bool fits = n <= b.y_size[d] - b.to[d];
      if (!fits && (b.to[d] != 0 || n % b.y_size[d] != 0)) return false;
      const int64_t part = fits ? n : b.y_size[d];
      taken[d] = part > 1;
      b.box[d] = static_cast<int32_t>(part);
      in_strides[d] = in;
      n /= part;
      in *= part;
    }
  }
  return true;
}

/// Finds the dimension of x along which dimension d of the box runs. False where it runs along none.
bool find_axis(BoxPush& b, size_t d, int64_t in_stride) {
  b.step[d] = 0;
  if (in_stride == 0) return true;
  const auto own = strides_of(b.x_size);
  for (size_t k = 4; k-- > 0;) {
    const int64_t step = in_stride / own[k], last = b.at[k] + step * (b.box[d] - 1);
    if (in_stride % own[k] != 0 || last < 0 || last >= b.x_size[k]) continue;
    b.step[d] = static_cast<int32_t>(step);
    b.axes = (b.axes & ~(3u << 2 * d)) | static_cast<uint32_t>(k) << 2 * d;
    return true;
  }
  return false;
}

/// True if the dimensions of the box, together, stay inside those of x that they run along.
bool stays_inside(const BoxPush& b) {
  GpuSize low = b.at, high = b.at;
  for (size_t d = 0; d < 4; ++d) (b.step[d] < 0 ? low : high)[b.axes >> 2 * d & 3] += b.step[d] * (b.box[d] - 1);
  for (size_t d = 0; d < 4; ++d)
    if (low[d] < 0 || high[d] >= b.x_size[d]) return false;
  return true;
}

/// The copy as a box of y, each of whose dimensions runs along one of x.
std::optional<BoxPush> as_box(const StridedCopy& c, const GpuSize& x, const GpuSize& y) {
  BoxPush b = empty_box(x, y);
  b.to = coordinates(c.out_offset, y);
  b.at = coordinates(c.in_offset, x);
  std::array<int64_t, 4> in_strides{};
  if (!cut_box(c, b, in_strides)) return std::nullopt;
  for (size_t d = 0; d < 4; ++d)
    if (b.box[d] > 1 && !find_axis(b, d, in_strides[d])) return std::nullopt;
  return stays_inside(b) ? std::optional(b) : std::nullopt;
}

/// True if whole texels of x, packed along dimension q, become whole texels of the box, packed along dimension p.
bool copies_texels(const BoxPush& b, size_t q, size_t p) {
  if (b.to[p] % 4 != 0 || b.at[q] % 4 != 0) return false;
  for (size_t d = 0; d < 4; ++d) {
    if (b.box[d] == 1) continue;
    const bool along = (b.axes >> 2 * d & 3) == q;
    if (d == p ? !along || b.step[d] != 1 : along && b.step[d] % 4 != 0) return false;
  }
  return true;
}

/// The copy as the shader walks it: dimensions by ascending stride in y, each step larger than what is inside it.
std::optional<WalkPush> as_walk(const StridedCopy& c, const GpuSize& x, const GpuSize& y) {
  WalkPush w{};
  if (c.dims.size() > std::size(w.size)) return std::nullopt;
  w.x_size = x;
  w.y_size = y;
  w.x_offset = i32(c.in_offset);
  w.y_offset = i32(c.out_offset);
  std::vector<size_t> order;
  for (size_t d = 0; d < c.dims.size(); ++d) order.push_back(d);
  std::ranges::sort(order, {}, [&](size_t d) { return c.out_strides[d]; });
  int64_t reach = 0;
  for (size_t d : order) {
    if (c.out_strides[d] <= reach) return std::nullopt;
    reach += (c.dims[d] - 1) * c.out_strides[d];
    w.size[w.rank] = static_cast<uint32_t>(c.dims[d]);
    w.x_stride[w.rank] = static_cast<int32_t>(c.in_strides[d]);
    w.y_stride[w.rank++] = static_cast<int32_t>(c.out_strides[d]);
  }
  return w;
}

/// The dispatch of one copy; nullopt where it needs an index map.
std::optional<TextureStep> texture_step(const ElementCopy& e, const ImageLayout& x, const ImageLayout& y) {
  TextureStep step;
  step.in = e.strided.input;
  step.out = e.strided.output;
  const auto p = static_cast<size_t>(y.packed());
  if (!e.index_map.empty()) {
    step.source = TextureStep::Source::kMap;
    step.index_map = e.index_map;
  } else if (const auto box = as_box(e.strided, x.size, y.size)) {
    step.box = *box;
    step.whole = copies_texels(*box, static_cast<size_t>(x.packed()), p);
    const int32_t end = box->to[p] + box->box[p];
    step.rest = box->to[p] % 4 == 0 && (end % 4 == 0 || end == y.size[p]) ? Rest::kAnything : Rest::kKept;
    return step;
  } else if (const auto walk = as_walk(e.strided, x.size, y.size)) {
    step.source = TextureStep::Source::kWalk;
    step.walk = *walk;
  } else {
    return std::nullopt;
  }
  step.all = true;
  step.rest = Rest::kKept;
  return step;
}

class StridedCopyTexture final : public TextureKernel {
 public:
  StridedCopyTexture(const TextureForm& form, Images inputs, Images outputs, std::vector<TextureStep> steps)
      : TextureKernel(form, std::move(inputs), std::move(outputs)), steps_(std::move(steps)) {}
  bool reads(size_t i) const override { return input_image(i) != nullptr; }
  Status record(KernelRecorder& r) const override {
    for (const TextureStep& step : steps_) SMELT_TRY(record(r, step));
    return Ok();
  }

 private:
  Status record(KernelRecorder& r, const TextureStep& step) const {
    SMELT_ASSIGN(const Binding x, r.input(step.in));
    const Binding y = r.output(step.out);
    Binding before = x;
    if (step.rest == Rest::kKept) {
      before = y;
      before.written = false;
    }
    // The three interfaces have the same constants.
    const auto run_from = [&](auto constants, const auto& variants, const auto& push, const auto&... more) {
      constants.packed = packed();
      constants.rest = static_cast<uint32_t>(step.rest);
      constants.all = step.all;
      constants.whole = step.whole;
      constants.packed_x = static_cast<uint32_t>(input_image(step.in)->packed());
      return run(r, variants, constants, {x, before, y, more...}, push.n, push);
    };
    if (step.source == TextureStep::Source::kWalk) {
      static constexpr shaders::Variant<shaders::CopyWalk> kWalk[] = {shaders::copy_walk_3d, shaders::copy_walk_2d};
      return run_from(shaders::CopyWalk::Constants{}, kWalk, step.walk);
    }
    if (step.source == TextureStep::Source::kBox) {
      static constexpr shaders::Variant<shaders::CopyBox> kBox[] = {shaders::copy_box_3d, shaders::copy_box_2d};
      return run_from(shaders::CopyBox::Constants{}, kBox, step.box);
    }
    const size_t bytes = step.index_map.size() * sizeof(int32_t);
    SMELT_ASSIGN(const Binding map, r.table(Cat("index map ", reinterpret_cast<uintptr_t>(&step)), bytes,
                                            [&](void* to) { std::memcpy(to, step.index_map.data(), bytes); }));
    static constexpr shaders::Variant<shaders::CopyMap> kMap[] = {shaders::copy_map_3d, shaders::copy_map_2d};
    return run_from(shaders::CopyMap::Constants{}, kMap,
                    shaders::CopyMap::Push{step.box.x_size, step.box.y_size, step.box.n, step.box.value}, map);
  }

  std::vector<TextureStep> steps_;
};

/// Texels of y that get an invocation.
uint32_t texels(const TextureStep& step, const ImageLayout& y) {
  if (step.all) return static_cast<uint32_t>(y.count());
  ImageLayout part = y;
  part.size = step.box.box;
  part.size[static_cast<size_t>(y.packed())] += step.box.to[static_cast<size_t>(y.packed())] % 4;
  return static_cast<uint32_t>(part.count());
}

/// The dispatches of copies between the same two operands. Nullopt where an index map would be too large.
std::optional<std::vector<TextureStep>> texture_steps(std::span<const ElementCopy> group, const ImageLayout& x,
                                                      const ImageLayout& y) {
  std::vector<TextureStep> steps;
  size_t walks = 0;  // each has an invocation for every texel of y: one index map is faster than several
  for (const ElementCopy& e : group) {
    auto step = texture_step(e, x, y);
    walks += step ? step->source == TextureStep::Source::kWalk : group.size() + 2;
    if (step) steps.push_back(std::move(*step));
  }
  if (walks <= 1) return steps;
  const auto map = as_index_map(group, int64_t{y.size[0]} * y.size[1] * y.size[2] * y.size[3]);
  if (!map) return walks > group.size() ? std::nullopt : std::optional(std::move(steps));
  return std::vector<TextureStep>{*texture_step(*map, x, y)};
}

std::unique_ptr<Kernel> run_texture_plan(const KernelSpec& spec, std::optional<CopyPlan> plan) {
  if (!plan) return nullptr;
  TextureKernel::Images inputs(spec.inputs.size()), outputs;
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    outputs.push_back(wanted(spec, o) ? image_of(spec, spec.outputs[o]) : std::nullopt);
    if (wanted(spec, o) && !outputs.back()) return nullptr;
  }
  std::vector<bool> written(outputs.size(), false);
  std::vector<TextureStep> steps;
  const std::span<const ElementCopy> copies = plan->copies;
  for (size_t first = 0, end; first < copies.size(); first = end) {
    const size_t in = copies[first].strided.input, out = copies[first].strided.output;
    for (end = first + 1; end < copies.size(); ++end)
      if (copies[end].strided.input != in || copies[end].strided.output != out) break;
    inputs[in] = existing_image(spec, in);
    if (!inputs[in]) return nullptr;
    auto group = texture_steps(copies.subspan(first, end - first), *inputs[in], *outputs[out]);
    if (!group) return nullptr;
    for (TextureStep& step : *group) {
      const bool fills = out == 0 && plan->fill.defined();
      if (!written[out] && fills) step.all = true;
      if (!written[out] && step.all) step.rest = fills ? Rest::kValue : Rest::kAnything;
      written[out] = true;
      step.box.x_size = inputs[in]->size;
      step.box.y_size = outputs[out]->size;
      step.box.n = step.walk.n = texels(step, *outputs[out]);
      step.box.value = step.walk.value = fills ? static_cast<float>(get_double(plan->fill, 0)) : 0.0f;
      steps.push_back(std::move(step));
    }
  }
  for (size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o] && !written[o]) return nullptr;  // nothing but a fill value
  return std::make_unique<StridedCopyTexture>(spec.form, std::move(inputs), std::move(outputs), std::move(steps));
}

/// True if images of values like input 0 are copied as they are.
bool has_images(const KernelSpec& spec) {
  return spec.has(0) && !spec.inputs[0].quant && spec.inputs[0].shape.rank() <= 4;
}

}  // namespace

std::unique_ptr<Kernel> make_strided_copy_texture(const KernelSpec& spec) {
  return has_images(spec) ? run_texture_plan(spec, plan_strided_copies(spec)) : nullptr;
}

std::unique_ptr<Kernel> make_index_map_texture(const KernelSpec& spec) {
  return has_images(spec) ? run_texture_plan(spec, plan_index_map(spec)) : nullptr;
}

}  // namespace smelt::vulkan
