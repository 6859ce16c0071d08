#include "shaders/max_unpool.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/pool/pool.h"

namespace smelt::vulkan {
namespace {

using UnpoolPush = shaders::MaxUnpool::Push;

class UnpoolKernel final : public Kernel {
 public:
  UnpoolKernel(bool fp16, uint32_t words, const UnpoolPush& push) : fp16_(fp16), words_(words), push_(push) {}
  bool reads(size_t i) const override { return i < 2; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding indices, r.input(1));
    r.fill(r.output(0), 0);
    return run_checked(r, fp16_ ? shaders::max_unpool_f16 : shaders::max_unpool_f32, {.index_words = words_},
                       {x, indices, r.output(0), r.faults()}, push_.n, push_);
  }

 private:
  bool fp16_;
  uint32_t words_;
  UnpoolPush push_;
};

}  // namespace

std::unique_ptr<Kernel> make_max_unpool(const KernelSpec& spec) {
  const auto& a = spec.attrs<MaxUnpoolAttrs>();
  if (a.in_window) return spec.refuse("indices within windows");
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  const uint32_t words = index_words(spec.inputs[1].dtype);
  const int rank = static_cast<int>(a.kernel.size());
  if (spec.inputs[1].shape.elements() != x.elements() || rank < 1 || rank > 3 || x.rank() != rank + 2) return nullptr;
  const auto inner = unpooled_shape(a, x);
  if (!inner.ok() || inner->elements() < 1 || inner->elements() > UINT32_MAX) return nullptr;
  UnpoolPush push{.n = u32(x.elements()),
                  .limit = u32(inner->elements()),
                  .inner = {1, 1, 1, 1},
                  .y = {1, 1, 1, 1},
                  .fault_code = 0};
  // Indices count channels of the inner image: those of y must be as many.
  if (y[1] != (*inner)[1]) return nullptr;
  for (int d = 0; d < rank; ++d) {
    push.inner[d] = u32((*inner)[rank + 1 - d]);
    push.y[d] = u32(y[rank + 1 - d]);
  }
  push.inner[3] = u32((*inner)[0] * (*inner)[1]);
  push.y[3] = u32(y[0] * y[1]);
  return std::make_unique<UnpoolKernel>(spec.outputs[0].dtype == DType::kF16, words, push);
}

}  // namespace smelt::vulkan
