// Slices that tuples of dynamic indices name.
#include <cstring>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gather/indexed_runs.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"

namespace smelt {
namespace {

class GatherTuples final : public Kernel {
 public:
  GatherTuples(CombineRun copy, const Shape& x, const Shape& indices, const GatherAttrs& a, int64_t unit)
      : copy_(copy),
        batches_(product(indices, 0, static_cast<int>(a.batch_dims))),
        tuples_(product(indices, static_cast<int>(a.batch_dims), indices.rank() - 1)),
        batch_stride_(a.batch_dims == 0 ? 0 : x.strides()[static_cast<int>(a.batch_dims) - 1]),
        offsets_(x, static_cast<int>(a.batch_dims), indices.back()),
        unit_(unit),
        negative_(a.negative) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<std::byte>();
    const Indices indices(ctx.input(1));
    int64_t at = 0;
    auto* y = ctx.output(0).data<std::byte>();
    const bool words = unit_ == 4 && offsets_.run() == 1;
    for (int64_t b = 0; b < batches_; ++b, x += batch_stride_ * unit_)
      for (int64_t t = 0; t < tuples_; ++t, y += offsets_.run() * unit_) {
        SMELT_ASSIGN(const int64_t from, offsets_.next(indices, at, negative_));
        if (words)
          std::memcpy(y, x + from * 4, 4);
        else
          copy_(y, x + from * unit_, offsets_.run());
      }
    return Ok();
  }

 private:
  CombineRun copy_;
  int64_t batches_, tuples_, batch_stride_;
  TupleOffsets offsets_;
  int64_t unit_;
  bool negative_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_gather_nd(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<GatherAttrs>();
  const ValueType& x = spec.inputs[0];
  const Shape& indices = spec.inputs[1].shape;
  const int64_t unit = whole_bytes(x.dtype);
  const CombineRun copy = replacing_run(unit);
  if (!copy || spec.outputs[0].dtype != x.dtype || spec.outputs[0].shape.elements() == 0) return nullptr;
  return std::make_unique<GatherTuples>(copy, x.shape, indices, attrs, unit);
}

}  // namespace smelt
