#include "backends/cpu/ml/uniform_tree.h"

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/ml/uniform_tree.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool kBelow>
void tree_leaves(const UniformNode* nodes, int64_t root, int64_t count, const float* columns, int32_t* leaves) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  constexpr int64_t L = HWY_MAX_BYTES / 4;
  for (int64_t row = 0; row < TreeRows::kRows; row += L) {
    uint64_t here[TreeRows::kMostNodes];  // bits of the rows that come to a node
    here[0] = (uint64_t{1} << L) - 1;
    auto leaf = hn::Zero(di);
    for (int64_t i = 0; i < count; ++i) {
      const UniformNode& n = nodes[root + i];
      const int64_t next = n.next - root;
      if (next == i) {
        const auto* bits = reinterpret_cast<const uint8_t*>(here + i);
        leaf = hn::IfThenElse(hn::LoadMaskBits(di, bits), hn::Set(di, n.leaf), leaf);
        continue;
      }
      const auto x = hn::LoadU(d, columns + n.feature * TreeRows::kRows + row), split = hn::Set(d, n.split);
      uint64_t passes = 0;
      hn::StoreMaskBits(d, kBelow ? hn::Lt(x, split) : hn::Le(x, split), reinterpret_cast<uint8_t*>(&passes));
      here[next] = here[i] & passes;
      here[next + 1] = here[i] & ~passes;
    }
    hn::StoreU(leaf, di, leaves + row);
  }
}

TreeRows make_tree_rows() { return {HWY_MAX_BYTES, {tree_leaves<false>, tree_leaves<true>}}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const TreeRows& tree_rows(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_tree_rows)(); });
}

}  // namespace smelt
#endif
