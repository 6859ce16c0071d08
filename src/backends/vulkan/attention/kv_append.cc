// KvAppend and TensorScatter: rows written into a cache from a start position on.
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/attention/attention.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"

namespace smelt::vulkan {
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

/// Input 1 written into input 0 along `axis`. Input 2 holds `starts` first indices, one per entry of the leading
/// dimension or one for all; `circular` writes wrap around.
std::unique_ptr<Kernel> make_append(const KernelSpec& spec, int64_t axis, int64_t starts, bool circular) {
  const ValueType &cache = spec.inputs[0], &fresh = spec.inputs[1];
  const int rank = cache.shape.rank();
  const uint32_t words = index_words(spec.inputs[2].dtype);
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
  const int width = element_width_index(cache.dtype);
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
