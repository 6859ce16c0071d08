// Slices by computed indices.
#include <algorithm>
#include <atomic>
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
  /// Slices of kBytes bytes, which need no call of memcpy; 0: of bytes_. Threads share the slices, or the bytes of each
  /// where slices are fewer.
  template <size_t kBytes>
  Status copy(KernelContext& ctx) const {
    constexpr int64_t kGrain = 32 * 1024;  // bytes
    const auto* indices = ctx.input(1).data<Index>();
    const int64_t slices = batches_ * outer_ * count_;
    std::atomic<int64_t> wrong = -1;  // an index outside
    if (slices < ctx.threads().threads() && bytes_ > kGrain) {
      ctx.threads().parallel_for(bytes_, kGrain, [&](int64_t begin, int64_t end) {
        copy_slices<0>(ctx, {0, slices}, {begin, end}, wrong);
      });
    } else {
      ctx.threads().parallel_for(slices, std::max<int64_t>(1, kGrain / bytes_), [&](int64_t begin, int64_t end) {
        copy_slices<kBytes>(ctx, {begin, end}, {0, bytes_}, wrong);
      });
    }
    if (wrong >= 0) {
      SMELT_ASSIGN([[maybe_unused]] const int64_t none, index_of(indices[wrong.load()], extent_, negative_));
    }
    return Ok();
  }

  struct Range {
    int64_t begin, end;
  };
  /// Bytes `part` of the output's slices `of`. wrong: becomes the place of an index outside, if there is one.
  template <size_t kBytes>
  void copy_slices(KernelContext& ctx, Range of, Range part, std::atomic<int64_t>& wrong) const {
    const auto* x = ctx.input(0).unaligned_bytes() + part.begin;
    const auto* indices = ctx.input(1).data<Index>();
    const int64_t bytes = kBytes == 0 ? bytes_ : static_cast<int64_t>(kBytes);
    const auto size = kBytes == 0 ? static_cast<size_t>(part.end - part.begin) : kBytes;
    auto* y = ctx.output(0).data<std::byte>() + of.begin * bytes + part.begin;
    int64_t row = of.begin / count_, i = of.begin % count_;
    for (int64_t left = of.end - of.begin; left > 0; ++row, i = 0) {
      const auto* const from = x + row * extent_ * bytes;
      const int64_t first = batches_ == 1 ? 0 : row / outer_ * count_;
      for (; i < count_ && left > 0; ++i, --left, y += bytes) {
        int64_t at = indices[first + i];
        if (at < 0 || at >= extent_) {
          const auto index = index_of(at, extent_, negative_);
          if (!index.ok()) {
            wrong = first + i;
            return;
          }
          at = *index;
        }
        std::memcpy(y, from + at * bytes, size);
      }
    }
  }

  int64_t batches_, outer_, extent_, count_, bytes_;
  bool negative_;
};

/// True for 0, 1 ... n - 1: the slices are copied as one.
template <class Index>
bool all_in_order(const Index* indices, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (indices[i] != i) return false;
  return true;
}

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
  const auto make = [&](auto index) -> std::unique_ptr<Kernel> {
    using Slices = GatherSlices<decltype(index)>;
    const Tensor* const named = batch == 0 && count == x[*axis] ? spec.constant(1) : nullptr;
    if (named && all_in_order(named->data<decltype(index)>(), count))
      return std::make_unique<Slices>(1, 1, 1, 1, outer * count * bytes, attrs.negative);
    return std::make_unique<Slices>(batches, outer, x[*axis], count, bytes, attrs.negative);
  };
  return t == DType::kI32 ? make(int32_t{}) : make(int64_t{});
}

}  // namespace smelt
