#include <array>
#include <optional>
#include <vector>

#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/attention/attention.h"
#include "shaders/rotary.h"

namespace smelt::vulkan {
namespace {

/// A rotary embedding as both kinds of kernels run it.
struct Rotation {
  uint32_t n;  ///< elements of x
  shaders::RotaryGeometry geometry;
  bool interleaved;
  uint32_t words;  ///< of a position id; 0: there are none

  /// The bindings behind x.
  Result<std::array<Binding, 6>> operands(KernelRecorder& r, const Binding& x) const {
    SMELT_ASSIGN(const Binding cosines, r.input(1));
    SMELT_ASSIGN(const Binding sines, r.input(2));
    Binding ids = sines;
    if (words > 0) {
      SMELT_ASSIGN(ids, r.input(3));
    }
    return std::array<Binding, 6>{x, cosines, sines, ids, r.faults(), r.output(0)};
  }
};

class RotaryKernel final : public Kernel {
 public:
  RotaryKernel(shaders::Variant<shaders::Rotary> shader, const Rotation& rotation)
      : shader_(shader), rotation_(rotation) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const auto operands, rotation_.operands(r, x));
    return r.run(shader_, {.interleaved = rotation_.interleaved, .id_words = rotation_.words},
                 std::span<const Binding>(operands), Grid::flat(rotation_.n, kWidth),
                 {.n = rotation_.n, .geometry = rotation_.geometry, .fault_code = r.fault_code()});
  }

 private:
  shaders::Variant<shaders::Rotary> shader_;
  Rotation rotation_;
};

class RotaryTexture final : public TextureKernel {
 public:
  RotaryTexture(const ImageLayout& x, const ImageLayout& y, bool fp16_table, const Rotation& rotation)
      : TextureKernel({x}, y),
        packed_x_(static_cast<uint32_t>(x.packed())),
        fp16_table_(fp16_table),
        rotation_(rotation),
        x_size_(x.size),
        y_size_(y.size),
        texels_(static_cast<uint32_t>(y.count())) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const auto o, rotation_.operands(r, x));
    using Variants = shaders::Variant<shaders::RotaryTexture>[2];
    static constexpr Variants half{shaders::rotary_f16_3d, shaders::rotary_f16_2d},
        single{shaders::rotary_f32_3d, shaders::rotary_f32_2d};
    return run(
        r, fp16_table_ ? half : single,
        {.interleaved = rotation_.interleaved, .id_words = rotation_.words, .packed = packed(), .packed_x = packed_x_},
        {o[0], o[1], o[2], o[3], o[4], o[5]}, texels_,
        {.x_size = x_size_,
         .y_size = y_size_,
         .n = texels_,
         .geometry = rotation_.geometry,
         .fault_code = r.fault_code()});
  }

 private:
  uint32_t packed_x_;
  bool fp16_table_;
  Rotation rotation_;
  GpuSize x_size_, y_size_;
  uint32_t texels_;
};

/// The layout of x; nullopt when it is none that rotary embedding takes.
std::optional<shaders::RotaryGeometry> rotary_layout(const RotaryAttrs& a, const Shape& x) {
  int64_t heads, steps, depth;
  bool heads_inside = true;
  if (x.rank() == 3) {
    heads = a.num_heads > 0 ? a.num_heads : 1;
    if (x[2] % heads != 0) return std::nullopt;
    steps = x[1];
    depth = x[2] / heads;
  } else if (x.rank() == 4) {
    heads_inside = a.batch_seq_heads;
    heads = x[heads_inside ? 2 : 1];
    steps = x[heads_inside ? 1 : 2];
    depth = x[3];
  } else {
    return std::nullopt;
  }
  const int64_t rotary = a.rotary_dim > 0 ? a.rotary_dim : depth;
  if (rotary > depth || rotary % 2 != 0) return std::nullopt;
  shaders::RotaryGeometry p{};
  const auto set = [](uint32_t& to, int64_t v) { to = static_cast<uint32_t>(v); };
  set(p.depth, depth);
  set(p.half_size, rotary / 2);
  set(p.heads, heads);
  set(p.head_stride, heads_inside ? depth : steps * depth);
  set(p.steps, steps);
  set(p.step_stride, heads_inside ? heads * depth : depth);
  set(p.batch_stride, heads * steps * depth);
  return p;
}

std::optional<Rotation> rotation_of(const KernelSpec& spec) {
  const auto& a = spec.attrs<RotaryAttrs>();
  if (!unquantized_floats(spec, {0}, {0}) || !spec.has(1) || !spec.has(2)) return std::nullopt;
  auto geometry = rotary_layout(a, spec.inputs[0].shape);
  const ValueType &cosines = spec.inputs[1], &sines = spec.inputs[2];
  const DType dtype = spec.outputs[0].dtype;
  if (!geometry || geometry->half_size == 0 || cosines.dtype != sines.dtype || cosines.quant || sines.quant ||
      (cosines.dtype != dtype && cosines.dtype != DType::kF32))
    return std::nullopt;
  const int64_t n = cosines.shape.elements();
  if (cosines.shape.rank() < 1 || cosines.shape.back() != geometry->half_size || n != sines.shape.elements())
    return std::nullopt;
  const int64_t rows = n / geometry->half_size, batch = spec.inputs[0].shape[0], steps = geometry->steps;
  geometry->table_rows = static_cast<uint32_t>(rows);
  geometry->scale = static_cast<float>(a.scale);
  uint32_t words = 0;
  if (spec.has(3)) {
    const int64_t ids = spec.inputs[3].shape.elements();
    words = index_words(spec.inputs[3].dtype);
    if (words == 0) return std::nullopt;
    if (ids == batch * steps || ids == steps) {
      geometry->id_batch = ids == batch * steps ? geometry->steps : 0;
      geometry->id_step = 1;
    } else if (ids == 1 || ids == batch) {
      geometry->id_batch = ids == 1 ? 0 : 1;
      geometry->add_step = 1;
    } else {
      return std::nullopt;
    }
  } else {
    geometry->id_batch = rows == steps || batch == 1 ? 0 : geometry->steps;
    geometry->id_step = 1;
  }
  return Rotation{static_cast<uint32_t>(spec.inputs[0].shape.elements()), *geometry, a.interleaved, words};
}

}  // namespace

std::unique_ptr<Kernel> make_rotary(const KernelSpec& spec) {
  const auto rotation = rotation_of(spec);
  if (!rotation) return nullptr;
  const DType dtype = spec.outputs[0].dtype, table = spec.inputs[1].dtype;
  return std::make_unique<RotaryKernel>(dtype == DType::kF32 ? shaders::rotary_f32
                                        : table == dtype     ? shaders::rotary_f16
                                                             : shaders::rotary_f16_f32,
                                        *rotation);
}

std::unique_ptr<Kernel> make_rotary_texture(const KernelSpec& spec) {
  const auto rotation = rotation_of(spec);
  const auto y = image_of(spec, spec.outputs[0]);
  if (!rotation || !y || spec.constant(0)) return nullptr;
  const auto x = existing_image(spec, 0);
  return x ? std::make_unique<RotaryTexture>(*x, *y, spec.inputs[1].dtype == DType::kF16, *rotation) : nullptr;
}

}  // namespace smelt::vulkan
