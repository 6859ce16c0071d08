// Elements by computed indices along one dimension.
#include <algorithm>
#include <atomic>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "ops/gather/gather.h"
#include "ops/shape/rules.h"

namespace smelt {
namespace {

/// T: an unsigned integer of the elements' size.
template <class T, class Index>
class GatherElements final : public Kernel {
 public:
  GatherElements(const Shape& x, const Shape& indices, int axis, bool negative)
      : outer_(indices), strides_(x.strides()), extent_(x[axis]), stride_(strides_[axis]), negative_(negative) {
    count_ = outer_.back();
    outer_.erase(outer_.rank() - 1);
    rows_ = outer_.elements();
    step_ = axis == outer_.rank() ? 0 : 1;
    strides_[axis] = 0;
  }
  Status run(KernelContext& ctx) const override {
    constexpr int64_t kGrain = 8 * 1024;  // elements
    const T* x = static_cast<const T*>(ctx.input(0).raw());
    const Index* indices = ctx.input(1).data<Index>();
    T* y = static_cast<T*>(ctx.output(0).raw());
    std::atomic<int64_t> wrong = -1;  // the place of an index outside
    ctx.threads().parallel_for(rows_, std::max<int64_t>(1, kGrain / count_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = gather_row(x + first_of(row), indices + row * count_, y + row * count_);
        if (at >= 0) wrong = row * count_ + at;
      }
    });
    if (wrong >= 0) {
      SMELT_ASSIGN([[maybe_unused]] const int64_t none, index_of(indices[wrong.load()], extent_, negative_));
    }
    return Ok();
  }

 private:
  /// Where the elements lie that index 0 gives a row of indices.
  int64_t first_of(int64_t row) const {
    int64_t offset = 0;
    for (int d = outer_.rank(); d-- > 0; row /= outer_[d]) offset += row % outer_[d] * strides_[d];
    return offset;
  }
  /// The place of an index outside in its row, or -1.
  int64_t gather_row(const T* x, const Index* indices, T* y) const {
    for (int64_t i = 0; i < count_; ++i) {
      int64_t at = indices[i];
      if (at < 0 && negative_) at += extent_;
      if (at < 0 || at >= extent_) return i;
      y[i] = x[at * stride_ + i * step_];
    }
    return -1;
  }

  Shape outer_;  ///< of the indices, but for the last dimension
  Shape strides_;
  int64_t extent_, stride_;  ///< of the gathered dimension
  int64_t rows_ = 0, count_ = 0, step_ = 0;
  bool negative_;
};

template <class T>
std::unique_ptr<Kernel> gather_elements_of(const KernelSpec& spec, int axis) {
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const bool negative = spec.attrs<GatherAttrs>().negative;
  if (spec.inputs[1].dtype == DType::kI32)
    return std::make_unique<GatherElements<T, int32_t>>(x, indices, axis, negative);
  return std::make_unique<GatherElements<T, int64_t>>(x, indices, axis, negative);
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_gather_elements(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const DType t = spec.inputs[1].dtype;
  if (spec.outputs[0].dtype != spec.inputs[0].dtype || x.rank() == 0 || indices.elements() == 0 ||
      spec.outputs[0].shape != indices || (t != DType::kI32 && t != DType::kI64))
    return nullptr;
  const auto axis = axis_of(spec.attrs<GatherAttrs>().axis, x.rank());
  if (!axis.ok() || indices.rank() != x.rank()) return nullptr;
  switch (whole_bytes(spec.inputs[0].dtype)) {
    case 1:
      return gather_elements_of<uint8_t>(spec, *axis);
    case 2:
      return gather_elements_of<uint16_t>(spec, *axis);
    case 4:
      return gather_elements_of<uint32_t>(spec, *axis);
    case 8:
      return gather_elements_of<uint64_t>(spec, *axis);
    default:
      return nullptr;
  }
}

}  // namespace smelt
