// Slices of updates written to, or added at, the positions that tuples of dynamic indices name.
#include <cstring>
#include <type_traits>
#include <vector>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/number_type.h"
#include "ops/gather/gather.h"
#include "ops/shape/rules.h"

namespace smelt {
namespace {

/// Combines n elements of updates with those of y.
using CombineRun = void (*)(void* y, const void* updates, int64_t n);

template <class T>
void add_run(void* to, const void* from, int64_t n) {
  auto* y = static_cast<T*>(to);
  const auto* u = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T>)
      y[i] += u[i];
    else  // wraps
      y[i] = static_cast<T>(static_cast<uint64_t>(y[i]) + static_cast<uint64_t>(u[i]));
  }
}

template <size_t kUnit>
void replace_run(void* y, const void* updates, int64_t n) {
  if (n == 1)
    std::memcpy(y, updates, kUnit);
  else
    std::memcpy(y, updates, static_cast<size_t>(n) * kUnit);
}

CombineRun choose_run(DType t, bool add) {
  CombineRun found = nullptr;
  if (add) {
    if (t != DType::kBool) by_number(t, [&](auto v) { found = add_run<decltype(v)>; });
    return found;
  }
  switch (whole_bytes(t)) {
    case 1:
      return replace_run<1>;
    case 2:
      return replace_run<2>;
    case 4:
      return replace_run<4>;
    case 8:
      return replace_run<8>;
    case 16:
      return replace_run<16>;
    default:
      return nullptr;
  }
}

/// `kX`: the input that y begins as; -1: zeros.
template <class Index, int kX, int kIndices, int kUpdates>
class ScatterTuples final : public Kernel {
 public:
  ScatterTuples(CombineRun combine, const Shape& y, const Shape& indices, int64_t unit)
      : combine_(combine), tuple_(indices.back()), unit_(unit) {
    for (int i = 0; i + 1 < indices.rank(); ++i) tuples_ *= indices[i];
    const Shape strides = y.strides();
    for (int k = 0; k < tuple_; ++k) {
      extents_.push_back(y[k]);
      strides_.push_back(strides[k]);
    }
    for (auto d = static_cast<int>(tuple_); d < y.rank(); ++d) run_ *= y[d];
  }
  int64_t updates() const { return tuples_ * run_; }
  Status run(KernelContext& ctx) const override {
    Tensor& target = ctx.output(0);
    auto* y = target.data<std::byte>();
    if constexpr (kX < 0)
      std::memset(y, 0, target.bytes());
    else if (const auto* x = ctx.input(kX).template data<std::byte>(); x != y)
      std::memcpy(y, x, target.bytes());
    const auto* index = ctx.input(kIndices).template data<Index>();
    const auto* updates = ctx.input(kUpdates).template data<std::byte>();
    for (int64_t t = 0; t < tuples_; ++t, updates += run_ * unit_) {
      int64_t to = 0;
      for (size_t k = 0; k < extents_.size(); ++k) {
        int64_t i = *index++;
        if (i < 0 || i >= extents_[k]) {
          SMELT_ASSIGN(i, index_of(i, extents_[k], kX >= 0));
        }
        to += i * strides_[k];
      }
      combine_(y + to * unit_, updates, run_);
    }
    return Ok();
  }

 private:
  CombineRun combine_;
  int64_t tuples_ = 1, tuple_, run_ = 1, unit_;
  std::vector<int64_t> extents_, strides_;  ///< of the indexed dimensions, strides in elements
};

template <int kX, int kIndices, int kUpdates>
[[gnu::cold]] std::unique_ptr<Kernel> make_scatter(const KernelSpec& spec, bool add) {
  const ValueType& y = spec.outputs[0];
  const Shape& indices = spec.inputs[kIndices].shape;
  const CombineRun combine = choose_run(y.dtype, add);
  if (!combine || spec.inputs[kUpdates].dtype != y.dtype)
    return spec.refuse("elements that this kernel does not combine");
  if (indices.rank() < 1 || indices.back() > y.shape.rank() || y.shape.elements() == 0)
    return spec.refuse("nothing to scatter into, or indices that do not fit it");
  const auto make = [&]<class Index>(Index) -> std::unique_ptr<Kernel> {
    auto kernel =
        std::make_unique<ScatterTuples<Index, kX, kIndices, kUpdates>>(combine, y.shape, indices, whole_bytes(y.dtype));
    if (kernel->updates() != spec.inputs[kUpdates].shape.elements())
      return spec.refuse("not as many updates as the indices ask for");
    return kernel;
  };
  return spec.inputs[kIndices].dtype == DType::kI32 ? make(int32_t{}) : make(int64_t{});
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_scatter_nd(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ScatterAttrs>();
  const bool add = attrs.reduction == ScatterAttrs::Reduce::kAdd;
  if ((!add && attrs.reduction != ScatterAttrs::Reduce::kNone) || !attrs.include_self)
    return spec.refuse("a reduction other than a sum");
  return make_scatter<0, 1, 2>(spec, add);
}

std::unique_ptr<Kernel> make_scatter_new(const KernelSpec& spec) { return make_scatter<-1, 0, 1>(spec, true); }

}  // namespace smelt
