// Slices by computed indices.
#include <algorithm>
#include <cstring>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "ops/gather/gather.h"
#include "ops/shape/rules.h"

namespace smelt {
namespace {

/// Copies slices of `bytes` bytes that computed indices name.
template <class Index>
class GatherSlices final : public Kernel {
 public:
  GatherSlices(int64_t batches, int64_t outer, int64_t extent, int64_t count, int64_t bytes, bool negative)
      : batches_(batches), outer_(outer), extent_(extent), count_(count), bytes_(bytes), negative_(negative) {}
  Status run(KernelContext& ctx) const override {
    switch (bytes_) {
      case 1:
        return copy<1>(ctx);
      case 2:
        return copy<2>(ctx);
      case 4:
        return copy<4>(ctx);
      case 8:
        return copy<8>(ctx);
      default:
        return copy<0>(ctx);
    }
  }

 private:
  /// Slices of kBytes bytes, which need no call of memcpy; 0: of bytes_.
  template <size_t kBytes>
  Status copy(KernelContext& ctx) const {
    const auto* x = ctx.input(0).unaligned_bytes();
    const auto* indices = ctx.input(1).data<Index>();
    auto* y = ctx.output(0).data<std::byte>();
    const int64_t bytes = kBytes == 0 ? bytes_ : static_cast<int64_t>(kBytes);
    for (int64_t b = 0; b < batches_; ++b, indices += count_)
      for (int64_t o = 0; o < outer_; ++o, x += extent_ * bytes)
        for (int64_t i = 0; i < count_; ++i, y += bytes) {
          int64_t at = indices[i];
          if (at < 0 || at >= extent_) {
            SMELT_ASSIGN(at, index_of(at, extent_, negative_));
          }
          std::memcpy(y, x + at * bytes, kBytes == 0 ? static_cast<size_t>(bytes) : kBytes);
        }
    return Ok();
  }

  int64_t batches_, outer_, extent_, count_, bytes_;
  bool negative_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_gather(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const int64_t unit = whole_bytes(spec.inputs[0].dtype);
  const DType t = spec.inputs[1].dtype;
  if (unit == 0 || spec.outputs[0].dtype != spec.inputs[0].dtype || spec.outputs[0].shape.elements() == 0 ||
      (t != DType::kI32 && t != DType::kI64))
    return nullptr;
  const auto axis = axis_of(attrs.axis, x.rank());
  const int64_t batch = attrs.batch_dims < 0 ? attrs.batch_dims + indices.rank() : attrs.batch_dims;
  if (!axis.ok() || batch < 0 || batch > indices.rank() || batch > *axis) return nullptr;
  int64_t batches = 1, outer = 1;
  for (int i = 0; i < *axis; ++i) (i < batch ? batches : outer) *= x[i];
  const int64_t count = indices.elements() / std::max<int64_t>(batches, 1), bytes = Around(x, *axis).inner * unit;
  if (batches * outer * count * bytes != spec.outputs[0].shape.elements() * unit) return nullptr;
  if (t == DType::kI32)
    return std::make_unique<GatherSlices<int32_t>>(batches, outer, x[*axis], count, bytes, attrs.negative);
  return std::make_unique<GatherSlices<int64_t>>(batches, outer, x[*axis], count, bytes, attrs.negative);
}

}  // namespace smelt
