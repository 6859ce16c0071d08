#include <optional>
#include <vector>

#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/attention/attention.h"

namespace smelt::vulkan {
namespace {

struct RotaryPush {
  uint32_t n, depth, half_size, heads, head_stride, steps, step_stride, batch_stride;
  uint32_t id_batch, id_step, add_step, table_rows;
  float scale;
  uint32_t fault_code;
};

/// A rotary embedding as both kinds of kernels run it.
struct Rotation {
  RotaryPush push;
  bool interleaved;
  uint32_t words;  ///< of a position id; 0: there are none

  /// The bindings behind x.
  Result<std::vector<Binding>> operands(KernelRecorder& r, const Binding& x) const {
    SMELT_ASSIGN(const Binding cosines, r.input(1));
    SMELT_ASSIGN(const Binding sines, r.input(2));
    Binding ids = sines;
    if (words > 0) {
      SMELT_ASSIGN(ids, r.input(3));
    }
    return std::vector<Binding>{x, cosines, sines, ids, r.faults(), r.output(0)};
  }
};

class RotaryKernel final : public Kernel {
 public:
  RotaryKernel(const char* shader, const Rotation& rotation) : shader_(shader), rotation_(rotation) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(auto operands, rotation_.operands(r, x));
    Dispatch d{shader_, {kWidth, rotation_.interleaved ? 1u : 0u, rotation_.words}, std::move(operands)};
    return dispatch_checked(r, std::move(d), rotation_.push.n, rotation_.push);
  }

 private:
  const char* shader_;
  Rotation rotation_;
};

class RotaryTexture final : public TextureKernel {
 public:
  RotaryTexture(const ImageLayout& x, const ImageLayout& y, bool fp16_table, const Rotation& rotation)
      : TextureKernel({x}, y),
        packed_x_(static_cast<uint32_t>(x.packed())),
        fp16_table_(fp16_table),
        rotation_(rotation),
        push_{x.size, y.size, rotation.push} {
    push_.own.n = static_cast<uint32_t>(y.count());
  }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(auto operands, rotation_.operands(r, x));
    auto push = push_;
    push.own.fault_code = r.fault_code();
    return dispatch(r, fp16_table_ ? "rotary_f16" : "rotary_f32",
                    {rotation_.interleaved ? 1u : 0u, rotation_.words, packed(), packed_x_}, std::move(operands),
                    push.own.n, push);
  }

 private:
  uint32_t packed_x_;
  bool fp16_table_;
  Rotation rotation_;
  ElementsPush<RotaryPush> push_;
};

/// The layout of x; nullopt when it is none that rotary embedding takes.
std::optional<RotaryPush> rotary_layout(const RotaryAttrs& a, const Shape& x) {
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
  RotaryPush p{};
  const auto set = [](uint32_t& to, int64_t v) { to = static_cast<uint32_t>(v); };
  set(p.n, x.elements());
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
  auto push = rotary_layout(a, spec.inputs[0].shape);
  const ValueType &cosines = spec.inputs[1], &sines = spec.inputs[2];
  const DType dtype = spec.outputs[0].dtype;
  if (!push || push->half_size == 0 || cosines.dtype != sines.dtype || cosines.quant || sines.quant ||
      (cosines.dtype != dtype && cosines.dtype != DType::kF32))
    return std::nullopt;
  const int64_t n = cosines.shape.elements();
  if (cosines.shape.rank() < 1 || cosines.shape.back() != push->half_size || n != sines.shape.elements())
    return std::nullopt;
  const int64_t rows = n / push->half_size, batch = spec.inputs[0].shape[0], steps = push->steps;
  push->table_rows = static_cast<uint32_t>(rows);
  push->scale = static_cast<float>(a.scale);
  uint32_t words = 0;
  if (spec.has(3)) {
    const int64_t ids = spec.inputs[3].shape.elements();
    words = index_words(spec.inputs[3].dtype);
    if (words == 0) return std::nullopt;
    if (ids == batch * steps || ids == steps) {
      push->id_batch = ids == batch * steps ? push->steps : 0;
      push->id_step = 1;
    } else if (ids == 1 || ids == batch) {
      push->id_batch = ids == 1 ? 0 : 1;
      push->add_step = 1;
    } else {
      return std::nullopt;
    }
  } else {
    push->id_batch = rows == steps || batch == 1 ? 0 : push->steps;
    push->id_step = 1;
  }
  return Rotation{*push, a.interleaved, words};
}

}  // namespace

std::unique_ptr<Kernel> make_rotary(const KernelSpec& spec) {
  const auto rotation = rotation_of(spec);
  if (!rotation) return nullptr;
  const DType dtype = spec.outputs[0].dtype, table = spec.inputs[1].dtype;
  return std::make_unique<RotaryKernel>(dtype == DType::kF32 ? "rotary_f32"
                                        : table == dtype     ? "rotary_f16"
                                                             : "rotary_f16_f32",
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
