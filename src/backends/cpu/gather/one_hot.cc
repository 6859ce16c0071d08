#include <algorithm>
#include <type_traits>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "ops/gather/gather.h"
#include "ops/shape/rules.h"

namespace smelt {
namespace {

/// Unit: an unsigned integer of the size of the elements.
template <class Unit, class Index>
class OneHot final : public Kernel {
 public:
  OneHot(int64_t depth, int64_t inner, bool wraps) : depth_(depth), inner_(inner), wraps_(wraps) {}
  Status run(KernelContext& ctx) const override {
    const Tensor &indices = ctx.input(0), &on = ctx.input(2);
    const bool both = !ctx.has(3);  // input 2 is [off, on]
    const Unit hot = on.data<Unit>()[both ? 1 : 0], cold = both ? on.data<Unit>()[0] : ctx.input(3).data<Unit>()[0];
    const auto* index = indices.data<Index>();
    auto* y = ctx.output(0).data<Unit>();
    ctx.threads().parallel_for(indices.elements() / inner_, std::max<int64_t>(1, 32768 / (depth_ * inner_)),
                               [&](int64_t begin, int64_t end) {
                                 std::fill(y + begin * depth_ * inner_, y + end * depth_ * inner_, cold);
                                 for (int64_t i = begin * inner_; i < end * inner_; ++i)
                                   if (const int64_t at = position(index[i]); at >= 0)
                                     y[(i / inner_ * depth_ + at) * inner_ + i % inner_] = hot;
                               });
    return Ok();
  }

 private:
  /// -1: none.
  int64_t position(Index index) const {
    int64_t at;
    if constexpr (std::is_floating_point_v<Index>)
      at = static_cast<int64_t>(std::clamp(static_cast<double>(index), -9e18, 9e18));
    else
      at = index;
    if (at < 0 && wraps_ && at >= -depth_) at += depth_;
    return at < depth_ ? std::max<int64_t>(at, -1) : -1;
  }

  int64_t depth_, inner_;
  bool wraps_;
};

template <class Unit>
[[gnu::cold]] std::unique_ptr<Kernel> make_units(const KernelSpec& spec, int64_t depth, int64_t inner, bool wraps) {
  switch (spec.inputs[0].dtype) {
    case DType::kI32:
      return std::make_unique<OneHot<Unit, int32_t>>(depth, inner, wraps);
    case DType::kI64:
      return std::make_unique<OneHot<Unit, int64_t>>(depth, inner, wraps);
    default:
      return std::make_unique<OneHot<Unit, float>>(depth, inner, wraps);
  }
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_one_hot(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<OneHotAttrs>();
  const Shape& y = spec.outputs[0].shape;
  const auto axis = axis_of(attrs.axis, y.rank());
  if (!axis.ok() || y.elements() == 0 || spec.inputs[2].shape.elements() < (spec.has(3) ? 1 : 2) ||
      (spec.has(3) && spec.inputs[3].shape.elements() < 1))
    return spec.refuse("no output, or values are missing");
  const int64_t depth = y[*axis], inner = Around(y, *axis).inner;
  switch (whole_bytes(spec.outputs[0].dtype)) {
    case 1:
      return make_units<uint8_t>(spec, depth, inner, attrs.wrap_negative);
    case 2:
      return make_units<uint16_t>(spec, depth, inner, attrs.wrap_negative);
    case 4:
      return make_units<uint32_t>(spec, depth, inner, attrs.wrap_negative);
    case 8:
      return make_units<uint64_t>(spec, depth, inner, attrs.wrap_negative);
    default:
      return spec.refuse("elements of another size than 1, 2, 4 or 8 bytes");
  }
}

}  // namespace smelt
