#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "backends/cpu/core/isa.h"
#include "backends/cpu/gemm/even_tiles.h"
#include "backends/cpu/gemm/tile_state.h"
#include "base/checked.h"
#include "smelt/tensor.h"

namespace smelt {

/// A matrix b of bytes: element (i, j) lies at data[i * row_stride + j * column_stride]. One of the strides is 1.
struct BytesOfB {
  const uint8_t* data = nullptr;
  int64_t row_stride = 1, column_stride = 1;
  int64_t k = 0, n = 0;
  bool is_signed = true;             ///< else uint8, which the packed form counts from 128
  const Tensor* deferred = nullptr;  ///< the bytes, where they are made as they are packed and `data` is null
};

/// Integer matrix product with exact 32-bit accumulators (modulo 2^32), in tiles of mr rows by nr columns of b's
/// panels.
///
/// Two forms. Bytes: a is quantized bytes of either sign, b signed bytes, four products a step (AMX, AVX-512 VNNI,
/// Arm's dot products). Int16Form: a and b are signed 16-bit numbers, two products a step (every level); zero points
/// are subtracted beforehand. Where b fits int8, tiles may take it as bytes and widen it. A row of a holds steps(k)
/// groups of 4 bytes, the end filled with anything. A panel of b is one row of int32 addends, or with AMX two, and then
/// steps(k) rows of groups of group_bytes, one group a column; missing columns and the end of k are zero.
struct GemmI8 {
  /// accumulators: rows 2 * lanes apart, whole vectors are written, or the half that is used. a: rows `lda` bytes
  /// apart, each in `chunks` of `steps` groups. next: the panel that the tiles of `prefetching_tiles` bring into the
  /// second cache; others ignore it.
  using Tile = void (*)(const void* const* a, ptrdiff_t chunks, ptrdiff_t lda, const void* b, ptrdiff_t steps,
                        int32_t* acc, const void* next, TileState& state);
  static constexpr int64_t kMaxTile = 32 * 32;

  int64_t mr = 0, lanes = 0;
  bool bytes = false;
  int64_t group_bytes = 4;  ///< of b in a step; 2: numbers of int16s that lie as bytes
  int32_t less = 0;         ///< what tiles count the bytes of a less; the addends of a panel make up for it
  /// Rows of addends of a panel. Of two the first is for bytes of a that count from the least of their type, the second
  /// for int8 as they are.
  int64_t addend_rows = 1;
  bool flips_int8 = false;           ///< tiles of int8 are slower than those of uint8
  int64_t block_bytes = 384 * 1024;  ///< of rows of a that stay in the second cache
  using Tiles = std::array<std::array<std::array<Tile, 32>, 2>, 2>;
  Tiles tiles{};              ///< [a is int8][panel width / lanes - 1][rows - 1]; int16s: the same of both signs
  Tiles prefetching_tiles{};  ///< as `tiles`, and equal to those where a prefetch does not pay off
  using TilesOfPanel = std::array<Tile, 32>;
  /// [a is int8][rows - 1]: of narrow panels of which lanes / 2 columns at most are used. Null: there are none.
  std::array<TilesOfPanel, 2> half_used{};
  /// One row times `count` wide panels, whose accumulators lie behind each other.
  using RowTile = void (*)(const GemmI8& g, const void* row, bool is_signed, const void* panels, ptrdiff_t count,
                           ptrdiff_t steps, int32_t* acc);
  RowTile row_tile = nullptr;  ///< null: there is none

  int64_t nr() const { return 2 * lanes; }
  int64_t per_step() const { return bytes ? 4 : 2; }
  int64_t steps(int64_t k) const { return (k + per_step() - 1) >> (bytes ? 2 : 1); }
  int64_t a_row_bytes(int64_t k) const { return steps(k) * 4; }
  bool packs_int8() const { return bytes || group_bytes == 2; }  ///< b fits int8
  int64_t panels(int64_t n) const { return ceil_div_by_power(n, nr()); }
  int64_t width(int64_t n, int64_t p) const { return n - p * nr() <= lanes ? lanes : nr(); }
  /// The tiles [rows - 1] for a panel from which on there are `used` columns.
  const TilesOfPanel& tiles_of(bool a_signed, int64_t used) const {
    if (used > lanes) return tiles[a_signed][1];
    return half_used[a_signed][0] && used <= lanes / 2 ? half_used[a_signed] : tiles[a_signed][0];
  }
  /// Bytes of a column of a panel.
  int64_t column_bytes(int64_t k) const { return steps(k) * group_bytes + addend_rows * 4; }
  int64_t panel_offset(int64_t k, int64_t p) const { return p * column_bytes(k) * nr(); }
  /// Whole vectors, so that another packed matrix may lie behind this one.
  int64_t packed_bytes(int64_t k, int64_t n) const {
    if (n == 0) return 0;
    return round_up(panel_offset(k, panels(n) - 1) + column_bytes(k) * width(n, panels(n) - 1), lanes * 4);
  }
  /// Packs weights given as [n][k] (zero points subtracted; in the byte form they fit int8). `bias`: n addends or null.
  /// a_zero: subtracted from every element of a through the addends (bytes only; the short form converts a instead).
  /// `packed`: aligned to 64 bytes. Large weights in a mapped file are read from it (constant_parts.h).
  void pack(const int16_t* weights, int64_t k, int64_t n, const int32_t* bias, int32_t a_zero, void* packed) const;
  void pack(const int8_t* weights, int64_t k, int64_t n, const int32_t* bias, int32_t a_zero, void* packed) const;

  /// Rows of a of length k that stay in the level-2 cache while all panels pass by: m, or a part of them in whole
  /// tiles, so that all parts are about as large.
  int64_t block_rows(int64_t m, int64_t k) const {
    if (m <= mr) return mr;
    const int64_t most = std::max<int64_t>(1, block_bytes / std::max<int64_t>(1, a_row_bytes(k) * mr)) * mr;
    return round_up(ceil_div(m, ceil_div(m, most)), mr);
  }
  /// Calls done(accumulators, row, rows, column, columns) for each tile, accumulators nr() apart; a single row may come
  /// with the columns of several panels. a_signed: the bytes of a are int8.
  template <class F>
  void run(int64_t m, int64_t n, int64_t k, const void* a, int64_t lda, bool a_signed, const void* packed,
           int64_t first, int64_t last, F&& done) const {
    const auto call = [](const void* f, int32_t* acc, int64_t row, int64_t rows, int64_t column, int64_t columns) {
      (*static_cast<const std::remove_reference_t<F>*>(f))(acc, row, rows, column, columns);
    };
    run_calling(m, n, k, a, lda, a_signed, packed, first, last, {call, &done});
  }
  /// As run(), with code of its own for each `done`: for the kernels of most networks.
  template <class F>
  void run_inlined(int64_t m, int64_t n, int64_t k, const void* a, int64_t lda, bool a_signed, const void* packed,
                   int64_t first, int64_t last, F&& done) const {
    alignas(64) int32_t acc[kMaxTile];
    TileState state;
    const int64_t count = steps(k), block = block_rows(m, k);
    for (int64_t row = 0; row < m; row += block) {
      const EvenTiles of_block(std::min(block, m - row), mr);
      for (int64_t p = first, done_panels = 1; p < last; p += done_panels) {
        const int64_t by_row = m == 1 ? row_times_panels(n, k, a, a_signed, packed, p, last, acc) : 0;
        done_panels = std::max<int64_t>(1, by_row);
        const bool sign = a_signed, wide = width(n, p) > lanes, prefetches = p + 1 < last || row + block < m;
        const TilesOfPanel& of_panel = tiles_of(sign, n - p * nr());
        const auto* panel = static_cast<const char*>(packed) + panel_offset(k, p);
        const auto* next = static_cast<const char*>(packed) + panel_offset(k, p + 1 < last ? p + 1 : first);
        if (by_row == 0) state.bring(next, prefetches ? panel_offset(k, 1) : 0, of_block.count * count);
        for (int64_t t = 0, i = row, here = 0; t < of_block.count; ++t, i += here) {
          here = of_block.rows(t);
          const void* rows_of_a = static_cast<const char*>(a) + i * lda;
          const Tile tile = (prefetches && wide && i == row ? prefetching_tiles[sign][1] : of_panel)[here - 1];
          if (by_row == 0) tile(&rows_of_a, 1, lda, panel, count, acc, next, state);
          done(acc, i, here, p * nr(), std::min(done_panels * nr(), n - p * nr()));
        }
      }
    }
  }
  /// Turns rows of k quantized bytes into rows of a. is_signed: int8, else uint8. Bytes: as they are, or `flipped`.
  /// Int16Form: `zero` is subtracted.
  void convert(const uint8_t* x, int64_t ldx, int64_t rows, int64_t k, bool is_signed, int32_t zero, void* a,
               int64_t lda, bool flipped = false) const;
  /// True if the m rows of int8 of a product, which are copied anyway, had better have their sign bits flipped before
  /// tiles see them, as uint8. Few rows wait for b instead.
  bool flips(bool a_signed, int64_t m) const { return flips_int8 && a_signed && m > 3; }
  /// True if they had better be copied for it: short ones that meet few panels had not.
  bool flips_in_copy(bool a_signed, int64_t m, int64_t n, int64_t k) const {
    return flips(a_signed, m) && panels(n) * k >= 256;
  }
  /// Copies n bytes, their sign bits flipped or not.
  void copy_bytes(const uint8_t* x, int64_t n, bool flipped, uint8_t* out) const {
    if (flipped)
      flip(x, n, out);
    else
      std::memcpy(out, x, static_cast<size_t>(n));
  }
  /// The byte of a zero point among such copies.
  static uint8_t zero_byte(int32_t zero, bool flipped) { return static_cast<uint8_t>(zero ^ (flipped ? 0x80 : 0)); }
  /// The value that stands for `zero` in the accumulators of the byte form, which counts int8 from -128.
  static int32_t int8_zero_point(bool is_signed, int32_t zero) { return is_signed ? zero + 128 : zero; }

  /// pack() of bytes on levels that have a fast one; else null.
  void (*pack_bytes)(const GemmI8& gemm, const BytesOfB& b, const int32_t* bias, int32_t a_zero,
                     void* packed) = nullptr;
  /// Copies n bytes with their sign bits flipped, or does so in place; null on levels without a fast way. Bytes of
  /// either sign count from the least of their type, so that accumulators are the same.
  void (*flip)(const uint8_t* x, int64_t n, uint8_t* out) = nullptr;
  /// The sum of n bytes, int8 or uint8, modulo 2^32.
  int32_t (*sum_bytes)(const uint8_t* x, int64_t n, bool is_signed) = nullptr;
  /// to += x, n numbers up to whole vectors of `lanes`, modulo 2^32.
  void (*add)(const int32_t* x, int64_t n, int32_t* to) = nullptr;
  void (*to_int16)(const uint8_t* x, int64_t n, bool is_signed, int32_t zero, int16_t* out) = nullptr;

 private:
  struct Done {
    void (*call)(const void* f, int32_t* acc, int64_t row, int64_t rows, int64_t column, int64_t columns);
    const void* f;
  };
  void run_calling(int64_t m, int64_t n, int64_t k, const void* a, int64_t lda, bool a_signed, const void* packed,
                   int64_t first, int64_t last, Done done) const;
  /// A row times as many panels from p on as `acc` holds the results of, at once. Returns their number; 0: there is no
  /// tile for that.
  int64_t row_times_panels(int64_t n, int64_t k, const void* a, bool a_signed, const void* packed, int64_t p,
                           int64_t last, int32_t* acc) const;
};

/// The form for weights that fit int8 (fits = true) or not.
const GemmI8& gemm_i8(Isa isa, bool fits);
/// Panels of the Int16Form whose numbers lie as bytes, for those who widen them before tiles of that form see them: it
/// has no tiles.
const GemmI8& byte_pairs_i8(Isa isa);

#if defined(__x86_64__)
/// Tiles of AVX-512 VNNI, in gemm_i8_vnni.cc.
void fill_vnni_tiles(GemmI8& bytes, GemmI8& int16s);
/// Those of at most kVnniRowsBesideAmx rows for panels with two rows of addends. So few rows read b no faster by AMX.
void fill_vnni_tiles_for_amx(GemmI8& bytes);
constexpr int kVnniRowsBesideAmx = 2;
/// Tiles of AMX beside those, in gemm_i8_amx.cc.
void fill_amx_tiles(GemmI8& bytes);
#elif defined(__aarch64__)
/// Tiles of Armv8.2's dot products, in gemm_i8_dot.cc.
void fill_dot_tiles(GemmI8& bytes);
#endif

}  // namespace smelt
