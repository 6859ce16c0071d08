#include "ops/attention/attention.h"

#include <cmath>

#include "backends/vulkan/copy/strided_copy.h"
#include "backends/vulkan/core/row_reduction.h"
#include "ops/attention/geometry.h"
#include "shaders/attention.h"

namespace smelt::vulkan {
namespace {

/// Flags of attention.comp.
enum Flag : uint32_t { kCausal = 1, kFromEnd = 2, kPast = 4, kLengths = 8, kMask = 16, kSmooth = 32, kSinks = 64 };
constexpr int64_t kMaxColumns = 4 * kWidth;

using Push = shaders::Attention::Push;

/// A limit of which everything beyond 2^30 means the same.
int32_t bounded(int64_t v) { return static_cast<int32_t>(std::min<int64_t>(v, int64_t{1} << 30)); }

/// Strides of one operand by batch entry, head and row.
void set_strides(uint32_t* to, bool flat, int64_t heads, int64_t length, int64_t depth) {
  to[0] = u32(heads * length * depth);
  to[1] = u32(flat ? depth : length * depth);
  to[2] = u32(flat ? heads * depth : depth);
}

/// Nullopt: there is none for the mask's type.
std::optional<shaders::Variant<shaders::Attention>> attention_shader(const KernelSpec& spec) {
  const bool fp16 = spec.outputs[0].dtype == DType::kF16;
  const DType mask = spec.has(3) ? spec.inputs[3].dtype : spec.outputs[0].dtype;
  if (!spec.device.stores(mask)) return std::nullopt;
  if (mask == DType::kBool) return fp16 ? shaders::attention_f16_bool : shaders::attention_f32_bool;
  if (mask == spec.outputs[0].dtype) return fp16 ? shaders::attention_f16 : shaders::attention_f32;
  return fp16 && mask == DType::kF32 ? std::optional(shaders::attention_f16_f32) : std::nullopt;
}

/// Fills in the mask's part; false when its shape does not fit.
bool set_mask(const KernelSpec& spec, const AttentionGeometry& g, Push& push) {
  push.mask_keys = bounded(g.keys);
  if (!spec.has(3)) return true;
  const Shape& s = spec.inputs[3].shape;
  const int64_t full[4] = {g.batch, g.q_heads, g.rows, g.keys};
  if (s.rank() > 4 || spec.inputs[3].quant) return false;
  const Shape own = s.strides();
  for (int i = 1; i <= s.rank(); ++i) {
    const int64_t d = s[s.rank() - i], w = full[4 - i];
    if (d != 1 && d != w && (i > 1 || d > w)) return false;
    if (i == 1 && d != 1) push.mask_keys = bounded(d);
    push.mask_stride[4 - i] = d == 1 ? 0 : u32(own[s.rank() - i]);
  }
  return true;
}

/// Copies past and fresh rows into the outputs 1 and 2.
std::unique_ptr<Kernel> presents(const KernelSpec& spec, const AttentionGeometry& g, const Push& push) {
  std::vector<CopyStep> steps;
  for (size_t out = 1; out <= 2; ++out) {
    if (!wanted(spec, out)) continue;
    const int64_t depth = out == 1 ? g.depth : g.v_depth;
    const uint32_t* own = out == 1 ? push.k_stride : push.v_stride;
    const Shape to{g.kv_heads * g.keys * depth, g.keys * depth, depth, 1};
    const auto add = [&](size_t in, int64_t length, const Shape& from, int64_t offset) {
      const auto walk = Walk<2>::make(Shape{g.batch, g.kv_heads, length, depth}, {from, to});
      if (walk) steps.push_back({.in = in, .out = out, .walk = *walk, .y_offset = static_cast<int32_t>(offset)});
    };
    if (g.past > 0) add(3 + out, g.past, Shape{g.kv_heads * g.past * depth, g.past * depth, depth, 1}, 0);
    add(out, g.fresh, Shape{own[0], own[1], own[2], 1}, g.past * depth);
  }
  return steps.empty() ? nullptr : make_copies(spec.outputs[0].dtype, std::move(steps));
}

}  // namespace

std::unique_ptr<Kernel> make_attention(const KernelSpec& spec) {
  const auto& a = spec.attrs<AttentionAttrs>();
  const bool past = spec.has(4) && spec.has(5);
  if (spec.has(4) != spec.has(5) || wanted(spec, 3)) return nullptr;
  const auto found = attention_geometry(a, spec.inputs[0].shape, spec.inputs[1].shape, spec.inputs[2].shape,
                                        past ? &spec.inputs[4].shape : nullptr);
  if (!found.ok()) return nullptr;
  const AttentionGeometry& g = *found;
  for (size_t i = 0; i < 3; ++i)
    if (spec.inputs[i].shape[0] != g.batch) return nullptr;
  if (past && (spec.inputs[4].shape.elements() != g.batch * g.kv_heads * g.past * g.depth ||
               spec.inputs[5].shape.elements() != g.batch * g.kv_heads * g.past * g.v_depth))
    return nullptr;
  if (g.v_depth > kMaxColumns || g.keys < 1 || (g.keys / kWidth + 1) * g.depth + g.keys * 4 > kMaxLoopIterations)
    return nullptr;
  if (spec.has(7) && spec.inputs[7].shape.elements() != g.q_heads) return nullptr;
  Push push{};
  const auto shader = attention_shader(spec);
  if (!shader || !set_mask(spec, g, push)) return nullptr;
  // Else the first query stands at position 0.
  const bool from_end = a.causal_from_end && (spec.has(6) || (past ? g.past > 0 : g.keys >= g.rows));
  uint32_t flags = (a.causal ? kCausal : 0u) | (from_end ? kFromEnd : 0u) | (past && g.past > 0 ? kPast : 0u) |
                   (spec.has(3) ? kMask : 0u) | (a.smooth_softmax ? kSmooth : 0u) | (spec.has(7) ? kSinks : 0u);
  uint32_t words = 1, step = 0;
  if (spec.has(6)) {
    const int64_t n = spec.inputs[6].shape.elements();
    words = index_words(spec.inputs[6].dtype);
    if (words == 0 || (n != 1 && n != g.batch)) return nullptr;
    step = n == 1 ? 0 : words;
    flags |= kLengths;
  }
  push.rows = u32(g.batch * g.q_heads * g.rows);
  push.q_heads = u32(g.q_heads);
  push.share = u32(g.q_heads / g.kv_heads);
  push.queries = u32(g.rows);
  push.keys = bounded(g.keys);
  push.past = bounded(g.past);
  push.depth = u32(g.depth);
  push.v_depth = u32(g.v_depth);
  set_strides(push.q_stride, g.flat_q, g.q_heads, g.rows, g.depth);
  set_strides(push.k_stride, g.flat_k, g.kv_heads, g.fresh, g.depth);
  set_strides(push.v_stride, g.flat_v, g.kv_heads, g.fresh, g.v_depth);
  set_strides(push.y_stride, g.flat_q, g.q_heads, g.rows, g.v_depth);
  push.scale =
      static_cast<float>(a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(g.depth, 1))));
  push.softcap = static_cast<float>(a.softcap);
  push.window = bounded(std::max<int64_t>(a.window, -1));
  push.window_right = bounded(std::max<int64_t>(a.window_right, -1));
  const auto present = [&](Flag f, size_t i) { return input(flags & f ? i : 0); };
  auto kernel =
      shader_kernel(*shader, {.lanes = kWidth, .flags = flags, .length_step = step, .length_words = words},
                    {input(0), input(1), input(2), present(kPast, 4), present(kPast, 5), present(kMask, 3),
                     present(kLengths, 6), present(kSinks, 7), flags & kLengths ? faults() : output(0), output(0)},
                    Grid::flat(push.rows, 1), push);
  return in_sequence(std::move(kernel), presents(spec, g, push));
}

}  // namespace smelt::vulkan
