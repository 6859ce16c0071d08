// Rotary embedding and appending to caches.
#include <optional>
#include <vector>

#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/attention/attention.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"

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
  RotaryTexture(const ImageLayout& x, const ImageLayout& y, bool half_table, const Rotation& rotation)
      : TextureKernel({x}, y),
        packed_x_(static_cast<uint32_t>(x.packed())),
        half_table_(half_table),
        rotation_(rotation),
        push_{x.size, y.size, rotation.push} {
    push_.own.n = static_cast<uint32_t>(y.count());
  }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(auto operands, rotation_.operands(r, x));
    auto push = push_;
    push.own.fault_code = r.fault_code();
    return dispatch(r, half_table_ ? "rotary_f16" : "rotary_f32",
                    {rotation_.interleaved ? 1u : 0u, rotation_.words, packed(), packed_x_}, std::move(operands),
                    push.own.n, push);
  }

 private:
  uint32_t packed_x_;
  bool half_table_;
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
  if (!plain_reals(spec, {0}, {0}) || !spec.has(1) || !spec.has(2)) return std::nullopt;
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
    words = whole_words(spec.inputs[3].dtype);
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
  const auto x = image_as_it_lies(spec, 0);
  return x ? std::make_unique<RotaryTexture>(*x, *y, spec.inputs[1].dtype == DType::kF16, *rotation) : nullptr;
}

namespace {

struct AppendPush {
  uint32_t n, room, inner, count, rows, fault_code;
};

class KvAppendKernel final : public Kernel {
 public:
  KvAppendKernel(const char* shader, uint32_t words, bool circular, const AppendPush& push)
      : shader_(shader), words_(words), circular_(circular), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding cache, r.input(0));
    SMELT_ASSIGN(const Binding fresh, r.input(1));
    SMELT_ASSIGN(const Binding start, r.input(2));
    Dispatch d{shader_, {kWidth, words_, circular_ ? 1u : 0u}, {cache, fresh, start, r.faults(), r.output(0)}};
    return dispatch_checked(r, std::move(d), push_.n, push_);
  }

 private:
  const char* shader_;
  uint32_t words_;
  bool circular_;
  AppendPush push_;
};

/// Of `starts` first entries along `axis`, one for each of the leading dimension or one for all.
std::unique_ptr<Kernel> make_append(const KernelSpec& spec, int64_t axis, int64_t starts, bool circular) {
  const ValueType &cache = spec.inputs[0], &fresh = spec.inputs[1];
  const int rank = cache.shape.rank();
  const uint32_t words = whole_words(spec.inputs[2].dtype);
  if (words == 0 || spec.inputs[2].shape.elements() < starts || cache.dtype != fresh.dtype || axis < 0 ||
      axis >= rank || fresh.shape.rank() != rank || fresh.shape.elements() == 0)
    return nullptr;
  AppendPush push{static_cast<uint32_t>(cache.shape.elements()), 0, 1, 0, 1, 0};
  for (int d = 0; d < rank; ++d) {
    if (d == axis) {
      push.room = static_cast<uint32_t>(cache.shape[d]);
      push.count = static_cast<uint32_t>(fresh.shape[d]);
      continue;
    }
    if (cache.shape[d] != fresh.shape[d]) return nullptr;
    (d > axis ? push.inner : push.rows) *= static_cast<uint32_t>(cache.shape[d]);
  }
  if (push.count > push.room || push.rows % static_cast<uint32_t>(starts) != 0) return nullptr;
  push.rows /= static_cast<uint32_t>(starts);
  static const char* const shaders[] = {"kv_append_8", "kv_append_16", "kv_append_32", "kv_append_64"};
  const int width = width_index(cache.dtype);
  if (width < 0) return nullptr;
  return std::make_unique<KvAppendKernel>(shaders[width], words, circular, push);
}

}  // namespace

std::unique_ptr<Kernel> make_kv_append(const KernelSpec& spec) {
  return make_append(spec, spec.attrs<KvAppendAttrs>().axis, 1, false);
}

std::unique_ptr<Kernel> make_tensor_scatter(const KernelSpec& spec) {
  const auto& a = spec.attrs<ScatterAttrs>();
  const Shape& x = spec.inputs[0].shape;
  const auto axis = normalize_axis(a.axis, x.rank());
  if (!spec.has(2) || !axis.ok() || *axis == 0 || spec.inputs[2].shape.elements() != x[0]) return nullptr;
  return make_append(spec, *axis, x[0], a.reduction == ScatterAttrs::Reduce::kAdd);
}

}  // namespace smelt::vulkan
