// Columns of float32 to rows. Include after hwy/highway.h in files that are compiled once a target.
#if defined(SMELT_CPU_TURN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_TURN_INL_H
#undef SMELT_CPU_TURN_INL_H
#else
#define SMELT_CPU_TURN_INL_H
#endif

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Four neighbours each from the vector's blocks, which come from places `step` floats apart.
template <class Tag>
HWY_INLINE hn::Vec<Tag> load_blocks(Tag d, const float* from, ptrdiff_t step) {
  if constexpr (hn::MaxLanes(Tag()) > 4) {
    const hn::Half<Tag> half;
    const ptrdiff_t blocks = static_cast<ptrdiff_t>(hn::Lanes(half)) / 4;
    return hn::Combine(d, load_blocks(half, from + blocks * step, step), load_blocks(half, from, step));
  } else {
    return hn::LoadU(d, from);
  }
}

/// Four elements of as many columns as the vector has lanes, as four rows `w` apart. Elements of a column are
/// neighbours.
template <class Tag>
HWY_INLINE void turn_columns(Tag d, const float* columns, ptrdiff_t stride, float alpha, float* rows, ptrdiff_t w) {
  const hn::Repartition<double, Tag> pairs;
  hn::Vec<Tag> c[4];
#pragma GCC unroll 4
  for (int m = 0; m < 4; ++m) c[m] = load_blocks(d, columns + m * stride, 4 * stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, c[0], c[1])),
             low23 = hn::BitCast(pairs, hn::InterleaveLower(d, c[2], c[3])),
             high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, c[0], c[1])),
             high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, c[2], c[3]));
  const auto put = [&](auto row, ptrdiff_t i)
                       HWY_ATTR { hn::StoreU(hn::Mul(hn::BitCast(d, row), hn::Set(d, alpha)), d, rows + i * w); };
  put(hn::InterleaveLower(pairs, low01, low23), 0);
  put(hn::InterleaveUpper(pairs, low01, low23), 1);
  put(hn::InterleaveLower(pairs, high01, high23), 2);
  put(hn::InterleaveUpper(pairs, high01, high23), 3);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
