#include <array>
#include <optional>
#include <vector>

#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/attention/attention.h"
#include "ops/attention/rotary.h"
#include "shaders/rotary.h"

namespace smelt::vulkan {
namespace {

/// A rotary embedding as both kinds of kernels run it.
struct Rotation {
  uint32_t n;  ///< elements of x
  shaders::RotaryGeometry geometry;
  bool interleaved;
  uint32_t words;  ///< of a position id; 0: there are none
};

std::optional<Rotation> rotation_of(const KernelSpec& spec) {
  const auto& a = spec.attrs<RotaryAttrs>();
  if (!spec.has(1) || !spec.has(2)) return std::nullopt;
  const ValueType &cosines = spec.inputs[1], &sines = spec.inputs[2];
  const DType dtype = spec.outputs[0].dtype;
  const auto g = rotary_geometry(a, spec.inputs[0].shape, cosines.shape, sines.shape);
  if (!g.ok() || g->rotary == 0 || cosines.dtype != sines.dtype || cosines.quant || sines.quant ||
      (cosines.dtype != dtype && cosines.dtype != DType::kF32))
    return std::nullopt;
  const int64_t batch = g->batch, steps = g->length;
  shaders::RotaryGeometry geometry{};
  geometry.depth = u32(g->depth);
  geometry.half_size = u32(g->rotary / 2);
  geometry.heads = u32(g->heads);
  geometry.head_stride = u32(g->head_stride);
  geometry.steps = u32(steps);
  geometry.step_stride = u32(g->step);
  geometry.batch_stride = u32(g->batch_stride);
  geometry.table_rows = u32(g->rows);
  geometry.scale = static_cast<float>(a.scale);
  uint32_t words = 0;
  if (spec.has(3)) {
    const int64_t ids = spec.inputs[3].shape.elements();
    words = index_words(spec.inputs[3].dtype);
    if (words == 0) return std::nullopt;
    if (ids == batch * steps || ids == steps) {
      geometry.id_batch = ids == batch * steps ? geometry.steps : 0;
      geometry.id_step = 1;
    } else if (ids == 1 || ids == batch) {
      geometry.id_batch = ids == 1 ? 0 : 1;
      geometry.add_step = 1;
    } else {
      return std::nullopt;
    }
  } else {
    geometry.id_batch = u32(g->row_batch);
    geometry.id_step = u32(g->row_step);
  }
  return Rotation{static_cast<uint32_t>(spec.inputs[0].shape.elements()), geometry, a.interleaved, words};
}

}  // namespace

std::unique_ptr<Kernel> make_rotary(const KernelSpec& spec) {
  const auto rotation = rotation_of(spec);
  if (!rotation) return nullptr;
  const DType dtype = spec.outputs[0].dtype, table = spec.inputs[1].dtype;
  return shader_kernel(dtype == DType::kF32 ? shaders::rotary_f32
                       : table == dtype     ? shaders::rotary_f16
                                            : shaders::rotary_f16_f32,
                       {.interleaved = rotation->interleaved, .id_words = rotation->words},
                       {input(0), input(1), input(2), input(rotation->words ? 3 : 2), faults(), output(0)}, rotation->n,
                       {.n = rotation->n, .geometry = rotation->geometry, .fault_code = 0});
}

std::unique_ptr<Kernel> make_rotary_texture(const KernelSpec& spec) {
  const auto rotation = rotation_of(spec);
  const auto x = existing_image(spec, 0), y = image_of(spec, spec.outputs[0]);
  if (!rotation || !x || !y) return nullptr;
  using Variants = shaders::Variant<shaders::RotaryTexture>[2];
  static constexpr Variants f16{shaders::rotary_f16_3d, shaders::rotary_f16_2d},
      f32{shaders::rotary_f32_3d, shaders::rotary_f32_2d};
  return texture_kernel({spec.form, {x}, {y}}, spec.inputs[1].dtype == DType::kF16 ? f16 : f32,
                        {.interleaved = rotation->interleaved, .id_words = rotation->words},
                        {input(0), input(1), input(2), input(rotation->words ? 3 : 2), faults(), output(0)}, y->count(),
                        {.x_size = x->size,
                         .y_size = y->size,
                         .n = static_cast<uint32_t>(y->count()),
                         .geometry = rotation->geometry,
                         .fault_code = 0});
}

}  // namespace smelt::vulkan
