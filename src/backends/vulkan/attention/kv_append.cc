// KvAppend and TensorScatter: rows written into a cache from a start position on.
#include "shaders/kv_append.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/attention/attention.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"

namespace smelt::vulkan {
namespace {

/// Input 1 written into input 0 along `axis`. Input 2 holds `starts` first indices, one per entry of the leading
/// dimension or one for all; `circular` writes wrap around.
std::unique_ptr<Kernel> make_append(const KernelSpec& spec, int64_t axis, int64_t starts, bool circular) {
  const ValueType &cache = spec.inputs[0], &fresh = spec.inputs[1];
  const int rank = cache.shape.rank();
  const uint32_t words = index_words(spec.inputs[2].dtype);
  if (spec.inputs[2].shape.elements() < starts || cache.dtype != fresh.dtype || axis < 0 || axis >= rank ||
      fresh.shape.rank() != rank || fresh.shape.elements() == 0)
    return nullptr;
  shaders::KvAppend::Push push{
      .n = u32(cache.shape.elements()), .capacity = 0, .inner = 1, .count = 0, .rows = 1, .fault_code = 0};
  for (int d = 0; d < rank; ++d) {
    if (d == axis) {
      push.capacity = u32(cache.shape[d]);
      push.count = u32(fresh.shape[d]);
      continue;
    }
    if (cache.shape[d] != fresh.shape[d]) return nullptr;
    (d > axis ? push.inner : push.rows) *= u32(cache.shape[d]);
  }
  if (push.count > push.capacity || push.rows % u32(starts) != 0) return nullptr;
  push.rows /= u32(starts);
  static constexpr shaders::Variant<shaders::KvAppend> kShaders[] = {shaders::kv_append_8, shaders::kv_append_16,
                                                                     shaders::kv_append_32, shaders::kv_append_64};
  const int width = element_width_index(cache.dtype);
  if (width < 0) return nullptr;
  return shader_kernel(kShaders[width], {.start_words = words, .circular = circular},
                       {input(0), input(1), input(2), faults(), output(0)}, push.n, push);
}

}  // namespace

std::unique_ptr<Kernel> make_kv_append(const KernelSpec& spec) {
  if (spec.node.op == Op::kKvAppend) return make_append(spec, spec.attrs<KvAppendAttrs>().axis, 1, false);
  const auto& a = spec.attrs<ScatterAttrs>();
  const Shape& x = spec.inputs[0].shape;
  const auto axis = normalize_axis(a.axis, x.rank());
  if (!spec.has(2) || !axis.ok() || *axis == 0 || spec.inputs[2].shape.elements() != x[0]) return nullptr;
  return make_append(spec, *axis, x[0], a.reduction == ScatterAttrs::Reduce::kAdd);
}

}  // namespace smelt::vulkan
