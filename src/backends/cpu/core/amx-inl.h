// Intrinsics of AMX beside those of AVX-512: functions between SMELT_BEFORE_AMX and SMELT_AFTER_AMX are compiled for
// it.
#pragma once

#if defined(__x86_64__)
#include <cstddef>
#include <cstdint>

#include "backends/cpu/core/vnni-inl.h"

#define SMELT_BEFORE_AMX \
  HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16")
#define SMELT_AFTER_AMX HWY_POP_ATTRIBUTES

SMELT_BEFORE_AMX
namespace smelt::amx {

// Tile registers of products of two by two: results 0 to 3 in rows of two, a's tiles 4 and 5, b's tiles 6 and 7.
constexpr ptrdiff_t kTileRows = 16;      // of a tile
constexpr ptrdiff_t kTileRowBytes = 64;  // of a row of a tile

/// GCC's intrinsics do not say that they read and write memory.
inline void order_memory() { __asm__ volatile("" ::: "memory"); }

/// Makes the registers ready for results of `rows` rows, each the sum of products of `groups` groups of 4 bytes. What
/// they held is lost.
inline void configure(ptrdiff_t rows, ptrdiff_t groups) {
  struct {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = static_cast<uint8_t>(i < 6 ? rows : groups);
    config.row_bytes[i] = static_cast<uint16_t>(i == 4 || i == 5 ? groups * 4 : kTileRowBytes);
  }
  order_memory();
  _tile_loadconfig(&config);
}

/// Sums from rows `step` bytes apart, NV tiles side by side; the bottom block's are block_step bytes behind.
template <int NV, int kBlocks>
void load_sums(const void* from, ptrdiff_t step, ptrdiff_t block_step) {
  const auto* top = static_cast<const char*>(from);
  _tile_loadd(0, top, step);
  if constexpr (NV == 2) _tile_loadd(1, top + kTileRowBytes, step);
  if constexpr (kBlocks == 2) {
    _tile_loadd(2, top + block_step, step);
    if constexpr (NV == 2) _tile_loadd(3, top + block_step + kTileRowBytes, step);
  }
}

/// The inverse of load_sums().
template <int NV, int kBlocks>
void store_sums(void* to, ptrdiff_t step, ptrdiff_t block_step) {
  auto* top = static_cast<char*>(to);
  _tile_stored(0, top, step);
  if constexpr (NV == 2) _tile_stored(1, top + kTileRowBytes, step);
  if constexpr (kBlocks == 2) {
    _tile_stored(2, top + block_step, step);
    if constexpr (NV == 2) _tile_stored(3, top + block_step + kTileRowBytes, step);
  }
  order_memory();
}

enum class Product : uint8_t { kUint8, kInt8, kBf16 };  ///< what a is of; b is int8, int8 or bfloat16

// The intrinsics take numbers of registers as they stand in the source.
#define SMELT_ADD_PRODUCT(sum, a, b)             \
  if constexpr (kProduct == Product::kUint8)     \
    _tile_dpbusd(sum, a, b);                     \
  else if constexpr (kProduct == Product::kInt8) \
    _tile_dpbssd(sum, a, b);                     \
  else                                           \
    _tile_dpbf16ps(sum, a, b)

/// Adds the products of rows at `top` and `bottom`, lda bytes apart, with rows of b, NV tiles side by side.
template <Product kProduct, int NV, int kBlocks>
void add_products(const char* top, const char* bottom, ptrdiff_t lda, const char* b) {
  constexpr ptrdiff_t kStep = NV * kTileRowBytes;
  _tile_loadd(4, top, lda);
  _tile_loadd(6, b, kStep);
  SMELT_ADD_PRODUCT(0, 4, 6);
  if constexpr (NV == 2) {
    _tile_loadd(7, b + kTileRowBytes, kStep);
    SMELT_ADD_PRODUCT(1, 4, 7);
  }
  if constexpr (kBlocks == 2) {
    _tile_loadd(5, bottom, lda);
    SMELT_ADD_PRODUCT(2, 5, 6);
    if constexpr (NV == 2) {
      SMELT_ADD_PRODUCT(3, 5, 7);
    }
  }
}
#undef SMELT_ADD_PRODUCT

}  // namespace smelt::amx
SMELT_AFTER_AMX
#endif
