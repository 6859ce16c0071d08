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

}  // namespace smelt::amx
SMELT_AFTER_AMX
#endif
