// The largest or smallest of lines of float32: few are kept in order as a line goes by, many as a heap.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "backends/cpu/core/kernel.h"
#include "ops/shape/rules.h"
#include "ops/sort/sort.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr int64_t kMost = 32;  ///< entries that insertion keeps in order fast enough

/// An integer in the order of the number; NaN counts as the largest, both zeros as one.
int32_t order_key(float x) {
  if (x != x) return std::numeric_limits<int32_t>::max();
  const auto bits = x == 0 ? 0 : std::bit_cast<int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

constexpr int64_t kBlock = 32;
/// True if none of kBlock numbers side by side is larger than `least`, or smaller than it, or NaN.
bool none_enters(const float* x, float least, bool largest) {
  int32_t enter = 0;
  if (largest)
    for (int64_t i = 0; i < kBlock; ++i) enter += static_cast<int32_t>(!(x[i] <= least));
  else
    for (int64_t i = 0; i < kBlock; ++i) enter += static_cast<int32_t>(!(x[i] >= least));
  return enter == 0;
}

class TopKF32 final : public Kernel {
 public:
  TopKF32(const Around& around, int64_t extent, int64_t k, bool largest, DType index_type)
      : around_(around), extent_(extent), k_(k), flip_(largest ? 0 : -1), index_type_(index_type) {}
  size_t scratch_bytes() const override { return k_ > kMost ? static_cast<size_t>(k_) * sizeof(int64_t) : 0; }
  Status run(KernelContext& ctx) const override {
    int64_t few[kMost], *best = few;
    if (k_ > kMost) best = static_cast<int64_t*>(ctx.scratch(scratch_bytes()));
    if (!best) return LimitReached("no memory for the ", k_, " largest");
    const float* x = ctx.input(0).data<float>();
    float* values = ctx.wants(0) ? ctx.output(0).data<float>() : nullptr;
    void* indices = ctx.wants(1) ? ctx.output(1).raw() : nullptr;
    for (int64_t o = 0; o < around_.outer; ++o)
      for (int64_t i = 0; i < around_.inner; ++i) {
        const float* line = x + o * extent_ * around_.inner + i;
        if (k_ > kMost)
          select_many(line, best);
        else
          select(line, best);
        for (int64_t j = 0; j < k_; ++j) {
          const int64_t to = (o * k_ + j) * around_.inner + i;
          if (values) values[to] = line[best[j] * around_.inner];
          if (!indices) continue;
          if (index_type_ == DType::kI64)
            static_cast<int64_t*>(indices)[to] = best[j];
          else
            static_cast<int32_t*>(indices)[to] = static_cast<int32_t>(best[j]);
        }
      }
    return Ok();
  }

 private:
  /// Skips blocks from i on in which no element is among the largest, of which `least` is the least so far. Blocks
  /// before `seen` are not looked at again. False at the end of the line.
  bool skip(const float* line, float least, int64_t& i, int64_t& seen) const {
    constexpr int64_t kRare = 256;  // of so many numbers one: in most blocks there is none that enters
    if (i < seen || around_.inner != 1 || extent_ < kRare * k_) return true;
    while (i + kBlock <= extent_ && none_enters(line + i, least, flip_ == 0)) i += kBlock;
    seen = i + kBlock;
    return i < extent_;
  }
  /// Of equal elements the first one goes first.
  void select(const float* line, int64_t* best) const {
    int32_t keys[kMost];
    int64_t count = 0, seen = 0;
    for (int64_t i = 0; i < extent_; ++i) {
      if (count == k_ && !skip(line, line[best[k_ - 1] * around_.inner], i, seen)) break;
      const int32_t key = order_key(line[i * around_.inner]) ^ flip_;
      if (count == k_ && key <= keys[k_ - 1]) continue;
      int64_t at = count < k_ ? count++ : k_ - 1;
      for (; at > 0 && keys[at - 1] < key; --at) {
        keys[at] = keys[at - 1];
        best[at] = best[at - 1];
      }
      keys[at] = key;
      best[at] = i;
    }
  }

  /// As select(), by the smallest of those found so far.
  void select_many(const float* line, int64_t* best) const {
    // Above, the key; below, the place, such that the first of equal elements is the largest.
    constexpr uint32_t kPlaces = 0xffffffff;
    const auto entry = [&](int64_t i) {
      const auto key = static_cast<int64_t>(order_key(line[i * around_.inner]) ^ flip_);
      return static_cast<int64_t>(static_cast<uint64_t>(key) << 32 | (kPlaces - static_cast<uint64_t>(i)));
    };
    for (int64_t i = 0; i < k_; ++i) best[i] = entry(i);
    const auto place = [](int64_t e) { return static_cast<int64_t>(kPlaces - (static_cast<uint64_t>(e) & kPlaces)); };
    std::make_heap(best, best + k_, std::greater<>());
    float least = line[place(best[0]) * around_.inner];
    for (int64_t i = k_, seen = k_; i < extent_; ++i) {
      if (!skip(line, least, i, seen)) break;
      const float x = line[i * around_.inner];
      if (flip_ == 0 ? x <= least : x >= least) continue;
      const int64_t found = entry(i);
      if (found < best[0]) continue;
      std::pop_heap(best, best + k_, std::greater<>());
      best[k_ - 1] = found;
      std::push_heap(best, best + k_, std::greater<>());
      least = line[place(best[0]) * around_.inner];
    }
    std::sort_heap(best, best + k_, std::greater<>());
    for (int64_t i = 0; i < k_; ++i) best[i] = place(best[i]);
  }

  Around around_;
  int64_t extent_, k_;
  int32_t flip_;
  DType index_type_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_topk_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<TopKAttrs>();
  const ValueType& x = spec.inputs[0];
  if (x.shape.rank() == 0 || x.shape.elements() == 0 || a.torch_order) return nullptr;
  const bool wants_values = spec.node.outputs[0] != kNoValue;
  const bool wants_indices = spec.node.outputs.size() > 1 && spec.node.outputs[1] != kNoValue;
  if (spec.constant(1)->elements() < 1 || (wants_values && spec.outputs[0].quant)) return nullptr;
  const auto axis = axis_of(a.axis, x.shape.rank());
  const int64_t k = get_int(*spec.constant(1), 0);
  if (!axis.ok() || k < 1 || k > x.shape[*axis] || x.shape[*axis] > std::numeric_limits<int32_t>::max()) return nullptr;
  if (k > kMost && k > x.shape[*axis] / 8) return spec.refuse("a large part of a line, which is sorted whole");
  Shape want = x.shape;
  want[*axis] = k;
  const DType index_type = wants_indices ? spec.outputs[1].dtype : DType::kI64;
  if ((wants_values && (spec.outputs[0].shape != want || spec.outputs[0].dtype != DType::kF32)) ||
      (wants_indices && spec.outputs[1].shape != want) || (index_type != DType::kI64 && index_type != DType::kI32))
    return nullptr;
  return std::make_unique<TopKF32>(Around(x.shape, *axis), x.shape[*axis], k, a.largest, index_type);
}

}  // namespace smelt
