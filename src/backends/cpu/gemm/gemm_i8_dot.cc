// Tiles of Armv8.2's dot products. Highway's release has no target with them: intrinsics in functions of their own
// attributes.
#if defined(__aarch64__)
#include <arm_neon.h>
#include <hwy/base.h>

#include "backends/cpu/gemm/gemm_i8.h"

#define SMELT_DOT __attribute__((target("arch=armv8.2-a+dotprod")))

namespace smelt {
namespace {

/// int8 values as they are, uint8 less 128.
template <bool kSigned>
SMELT_DOT HWY_INLINE int8x16_t as_signed(uint8x16_t x) {
  return vreinterpretq_s8_u8(kSigned ? x : veorq_u8(x, vdupq_n_u8(0x80)));
}

/// Adds the products of group kGroup of each row of a with those of b's columns.
template <int kGroup, int MR, int NV>
SMELT_DOT HWY_INLINE void multiply(const int8x16_t (&a)[MR], const int8_t* b, int32x4_t (&acc)[MR][NV]) {
#pragma GCC unroll 2
  for (int j = 0; j < NV; ++j) {
    const int8x16_t bv = vld1q_s8(b + j * 16);
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) acc[m][j] = vdotq_laneq_s32(acc[m][j], bv, a[m], kGroup);
  }
}

/// Four groups of each row at once, then group by group.
template <bool kSigned, int MR, int NV>
SMELT_DOT void dot_tile(const void* const* a, ptrdiff_t chunks, ptrdiff_t lda, const void* panel, ptrdiff_t steps,
                        int32_t* __restrict result, const void* /*next*/, TileState& /*state*/) {
  const auto* b = static_cast<const int8_t*>(panel);
  int32x4_t acc[MR][NV];
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) acc[m][j] = vld1q_s32(reinterpret_cast<const int32_t*>(b) + j * 4);
  b += NV * 16;
  for (const void* const* last = a + chunks; a < last; ++a) {
    const auto* row = static_cast<const uint8_t*>(*a);
    ptrdiff_t i = 0;
    for (; i + 4 <= steps; i += 4, row += 16) {
      int8x16_t av[MR];
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) av[m] = as_signed<kSigned>(vld1q_u8(row + m * lda));
      multiply<0, MR, NV>(av, b, acc);
      multiply<1, MR, NV>(av, b + NV * 16, acc);
      multiply<2, MR, NV>(av, b + NV * 32, acc);
      multiply<3, MR, NV>(av, b + NV * 48, acc);
      b += NV * 64;
    }
    for (; i < steps; ++i, row += 4) {
      int8x16_t av[MR];
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        uint32_t group;
        __builtin_memcpy(&group, row + m * lda, 4);
        av[m] = as_signed<kSigned>(vreinterpretq_u8_u32(vdupq_n_u32(group)));
      }
      multiply<0, MR, NV>(av, b, acc);
      b += NV * 16;
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) vst1q_s32(result + m * 8 + j * 4, acc[m][j]);
}

template <bool kSigned, int MR>
void fill(GemmI8::Tiles::value_type& tiles) {
  tiles[0][MR - 1] = dot_tile<kSigned, MR, 1>;
  tiles[1][MR - 1] = dot_tile<kSigned, MR, 2>;
  if constexpr (MR > 1) fill<kSigned, MR - 1>(tiles);
}

}  // namespace

void fill_dot_tiles(GemmI8& bytes) {
  bytes.mr = 8;
  bytes.lanes = 4;
  bytes.bytes = true;
  bytes.less = 128;
  fill<false, 8>(bytes.tiles[0]);
  fill<true, 8>(bytes.tiles[1]);
  bytes.prefetching_tiles = bytes.tiles;
}

}  // namespace smelt
#endif
