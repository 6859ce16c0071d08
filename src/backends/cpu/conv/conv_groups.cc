#include "backends/cpu/conv/conv_groups.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/vnni-inl.h"
#include "backends/cpu/core/workspace.h"

namespace smelt {

/// What filters of eight units of 32 neighbouring channels give, in a convolution whose groups have as many filters as
/// channels, by AVX-512 VNNI. A unit is one output pixel's. Two units are a pair: two runs of channels of one pixel, or
/// one run of two pixels.
///
/// Accumulators of a pair are four vectors. Each quarter of a vector takes, in a step, one group of four bytes of 16
/// channels: step i the group i. With more than 16 channels in a group, four more steps take those of the other 16.
struct GroupedTile {
  static constexpr int64_t kUnits = 8, kChannels = 32, kLanes = 16;

  const uint8_t* const* taps = nullptr;  ///< bytes without sign, of which 32 are read for each unit
  int64_t n_taps = 0;
  int64_t parts = 1;            ///< 2: eight steps a tap
  int64_t units[kUnits] = {};   ///< bytes from a tap to what the unit reads
  const char* panel = nullptr;  ///< of a pair: addends, then of each tap a vector of weights for all that uses() names
  int32_t* acc = nullptr;       ///< of the first unit, 32 a unit
  int64_t second = 0;           ///< elements from the accumulators of a pair's first unit to those of its second
  int64_t next = 0;             ///< elements from one pair to the next

  /// The first of the four filters whose lanes are a quarter of a vector, counted from the first of the pair's two
  /// runs.
  static constexpr int64_t filter(int64_t vector, int64_t quarter) { return quarter * 16 + vector * 4; }
  /// The first of the four channels that a quarter of any vector takes in step i, counted likewise.
  static constexpr int64_t channel(int64_t step, int64_t quarter) { return (quarter ^ step / 4) * 16 + step % 4 * 4; }
  static constexpr int64_t steps(int64_t width) { return width > 16 ? 8 : 4; }  ///< of groups of `width` channels
  /// True if the filters of a vector read what step i takes: they are of the same group.
  static constexpr bool uses(int64_t width, int64_t step, int64_t vector) {
    return width >= 16 || step * 4 / width == vector * 4 / width;
  }
  static constexpr int64_t panel_bytes(int64_t width, int64_t taps) {
    return (4 + taps * (width > 16 ? kChannels : width)) * 64;
  }
};

}  // namespace smelt

#if defined(__x86_64__)
SMELT_BEFORE_VNNI
namespace smelt {
namespace {

constexpr int kPairs = GroupedTile::kUnits / 2;

/// In place: GCC 12 copies accumulators to and fro around the intrinsic.
inline void add_products(__m512i& acc, __m512i a, __m512i b) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
}

/// Adds a step to the accumulators of all pairs; returns the weights of the next one.
template <int kWidth, int kStep>
inline const char* add_step(const __m512i* x, const char* weights, __m512i (*acc)[4]) {
  __m512i w[4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v)
    if (GroupedTile::uses(kWidth, kStep, v)) {
      w[v] = _mm512_load_si512(weights);
      weights += 64;
    }
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; ++p) {
    const __m512i group = _mm512_shuffle_epi32(x[p], static_cast<_MM_PERM_ENUM>(kStep * 0x55));
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      if (GroupedTile::uses(kWidth, kStep, v)) add_products(acc[p][v], group, w[v]);
  }
  return weights;
}

/// Quarters of four vectors change places, so that those of a run of channels lie side by side.
inline void store_pair(const __m512i* acc, int32_t* first, int32_t* second) {
  const __m512i low01 = _mm512_maskz_shuffle_i32x4(0xFFFF, acc[0], acc[1], 0x44),
                low23 = _mm512_maskz_shuffle_i32x4(0xFFFF, acc[2], acc[3], 0x44);
  const __m512i high01 = _mm512_maskz_shuffle_i32x4(0xFFFF, acc[0], acc[1], 0xEE),
                high23 = _mm512_maskz_shuffle_i32x4(0xFFFF, acc[2], acc[3], 0xEE);
  _mm512_store_si512(first, _mm512_maskz_shuffle_i32x4(0xFFFF, low01, low23, 0x88));
  _mm512_store_si512(first + 16, _mm512_maskz_shuffle_i32x4(0xFFFF, low01, low23, 0xDD));
  _mm512_store_si512(second, _mm512_maskz_shuffle_i32x4(0xFFFF, high01, high23, 0x88));
  _mm512_store_si512(second + 16, _mm512_maskz_shuffle_i32x4(0xFFFF, high01, high23, 0xDD));
}

template <int kWidth>
void grouped_tile(const GroupedTile& t) {
  __m512i acc[kPairs][4];
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; ++p)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) acc[p][v] = _mm512_load_si512(t.panel + v * 64);
  const char* weights = t.panel + 4 * 64;
  for (const uint8_t *const *tap = t.taps, *const *last = tap + t.n_taps; tap < last; ++tap) {
    const auto unit = [&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(*tap + t.units[i])); };
    __m512i x[kPairs];
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) x[p] = _mm512_inserti64x4(_mm512_castsi256_si512(unit(2 * p)), unit(2 * p + 1), 1);
    for (int64_t part = 0; part < (kWidth < 16 ? 1 : t.parts); ++part) {
      if (part > 0)
#pragma GCC unroll 4
        for (int p = 0; p < kPairs; ++p) x[p] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[p], x[p], 0xB1);
      weights = add_step<kWidth, 0>(x, weights, acc);
      weights = add_step<kWidth, 1>(x, weights, acc);
      weights = add_step<kWidth, 2>(x, weights, acc);
      weights = add_step<kWidth, 3>(x, weights, acc);
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; ++p) store_pair(acc[p], t.acc + p * t.next, t.acc + p * t.next + t.second);
}

}  // namespace
}  // namespace smelt
SMELT_AFTER_VNNI
#endif

namespace smelt {
namespace {
constexpr int64_t kMostTaps = 64, kRun = GroupedTile::kChannels;
constexpr int64_t kStrip = GemmI8::kMaxTile / kRun;  ///< pixels that are finished at once

/// True if tiles are the best way: groups divide 16 channels, or fill most of 32 and lines are too short for others.
bool pays_off(const ConvShape& g) {
  constexpr int64_t kShort = 8;
  if (g.c_in == 4 || g.c_in == 8 || g.c_in == 16) return true;
  return g.c_in % 4 == 0 && g.c_in >= 24 && g.c_in <= kRun && g.out[2] < kShort;
}

/// For groups of so many channels, which fit a run of channels; nullptr: there is none.
GroupedTileFunction tile_of([[maybe_unused]] int64_t width) {
#if defined(__x86_64__)
  if (width == 4) return grouped_tile<4>;
  if (width == 8) return grouped_tile<8>;
  if (width >= 16) return grouped_tile<16>;
#endif
  return nullptr;
}
}  // namespace

ConvShape ConvGroups::joined_pairs(const ConvShape& g) {
  ConvShape joined = g;
  if (g.c_in != 2 || g.c_out != 2 || g.groups % 2 != 0) return joined;
  joined.c_in = joined.c_out = 4;
  joined.groups = g.groups / 2;
  return joined;
}

ConvGroups::ConvGroups(const ConvShape& shape, const GemmI8& gemm, Isa isa)
    : g_(joined_pairs(shape)), pairs_(g_.groups != shape.groups), gemm_(gemm), rows_(shape, false, nullptr) {
  const ConvShape& g = g_;
  constexpr int64_t kMostLineBytes = 64 * 1024, kBandBytes = 96 * 1024;  // that stay in the second cache
  if (!isa.has(IsaFeature::kVnni) || !gemm.bytes || gemm.nr() != kRun) return;
  if (!g.planar() || g.groups == 1 || g.c_in != g.c_out || g.taps() > kMostTaps) return;
  if (!pays_off(g) || !rows_.small()) return;
  const int64_t reach = (g.kernel[1] - 1) * g.dilation[1] + 1;
  line_ = ((g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1) * g.all_in();
  if (line_ > kMostLineBytes || reach * line_ > 4 * kMostLineBytes) return;
  tile_ = tile_of(g.c_in);
  run_ = kRun / g.c_in * g.c_in;
  lines_ = std::clamp<int64_t>((kBandBytes / line_ - reach) / g.stride[1] + 1, 1, g.out[1]);
  band_bytes_ = padded_bytes(((lines_ - 1) * g.stride[1] + reach) * line_ + 2 * kRun);
  panel_bytes_ = GroupedTile::panel_bytes(g.c_in, g.taps());
  for (int64_t ky = 0; ky < g.kernel[1]; ++ky)
    for (int64_t kx = 0; kx < g.kernel[2]; ++kx)
      taps_.push_back(ky * g.dilation[1] * line_ + kx * g.dilation[2] * g.all_in());
}

int64_t ConvGroups::packed_bytes() const { return panel_bytes_ * ceil_div(g_.all_out(), 2 * run_); }

[[gnu::cold]] void ConvGroups::pack(const int8_t* weights, const int32_t* bias, int32_t a_zero, char* packed) const {
  const int64_t k = g_.k(), width = g_.c_in, all = g_.all_out();
  std::vector<int8_t> spread;
  if (pairs_) {
    spread.assign(static_cast<size_t>(all * k), 0);
    for (int64_t o = 0; o < all; ++o)
      for (int64_t t = 0; t < g_.taps(); ++t)
        std::copy_n(weights + (o * g_.taps() + t) * 2, 2, spread.data() + o * k + t * width + o % 4 / 2 * 2);
    weights = spread.data();
  }
  for (int64_t c = 0; c < all; c += 2 * run_, packed += panel_bytes_) {
    // The first filter of the quarter of a vector, or `all`: filters are there or not, like those of their group.
    const auto filter = [&](int64_t vector, int64_t quarter) {
      const int64_t at = GroupedTile::filter(vector, quarter) % kRun;
      return at >= run_ ? all : std::min(all, c + at + (quarter < 2 || one_run(c) ? 0 : run_));
    };
    auto* addends = reinterpret_cast<uint32_t*>(packed);
    auto* to = reinterpret_cast<int8_t*>(addends + 4 * GroupedTile::kLanes);
    for (int64_t i = 0; i < 4 * GroupedTile::kLanes; ++i) {
      const int64_t o = filter(i / GroupedTile::kLanes, i % GroupedTile::kLanes / 4) + i % 4;
      if (o >= all) continue;
      const auto* const bytes = reinterpret_cast<const uint8_t*>(weights + o * k);
      addends[i] = (bias ? static_cast<uint32_t>(bias[o]) : 0) -
                   static_cast<uint32_t>(gemm_.sum_bytes(bytes, k, true)) * static_cast<uint32_t>(a_zero);
    }
    for (int64_t t = 0; t < g_.taps(); ++t)
      for (int64_t step = 0; step < GroupedTile::steps(width); ++step)
        for (int64_t v = 0; v < 4; ++v) {
          if (!GroupedTile::uses(width, step, v)) continue;
          for (int64_t quarter = 0; quarter < 4; ++quarter, to += 16) {
            const int64_t o = filter(v, quarter), channel = GroupedTile::channel(step, quarter) % kRun;
            const int64_t i = width > 16 ? channel : channel & (width - 1);
            if (o == all || i >= width) continue;
            const int8_t* from = weights + o * k + t * width + i;
            for (int64_t j = 0; j < 4; ++j, from += k) std::memcpy(to + j * 4, from, 4);
          }
        }
  }
}

void ConvGroups::image(ThreadPool& pool, int64_t threads, const LoadPixels& load, uint8_t zero, const char* packed,
                       uint8_t* scratch, const Done& done) const {
  const int64_t parts = std::min(ceil_div(threads, g_.out[1]), ceil_div(g_.out[2], kStrip));
  ranges_in_slots(pool, threads, g_.out[1] * parts, [&](int64_t first, int64_t last, int64_t slot) {
    uint8_t* const band = scratch + slot * workspace_stride(band_bytes_, threads);
    for (int64_t i = first, lines = 0; i < last; i += lines) {
      lines = parts > 1 ? 1 : ceil_div(last - i, ceil_div(last - i, lines_));
      const int64_t part = i % parts, x = g_.out[2] * part / parts;
      const Area area{i / parts, lines, x, g_.out[2] * (part + 1) / parts - x};
      fill(load, zero, area, band);
      products(area, packed, band, done);
    }
  });
}

void ConvGroups::fill(const LoadPixels& load, uint8_t zero, const Area& area, uint8_t* to) const {
  const int64_t n = (area.lines - 1) * g_.stride[1] + (g_.kernel[1] - 1) * g_.dilation[1] + 1;
  const int64_t begin = area.x * g_.stride[2];
  const int64_t end = begin + (area.columns - 1) * g_.stride[2] + (g_.kernel[2] - 1) * g_.dilation[2] + 1;
  rows_.fill_lines(load, zero, area.y * g_.stride[1] - g_.pad[1], n, begin, end, line_, to);
}

void ConvGroups::products(const Area& area, const char* packed, const uint8_t* band, const Done& done) const {
  alignas(64) int32_t acc[2 * GemmI8::kMaxTile];
  const int64_t n = area.lines * area.columns, first = area.y * g_.out[2] + area.x;
  for (int64_t c = 0; c < g_.all_out(); c += 2 * run_, packed += panel_bytes_)
    for (int64_t at = 0; at < n; at += kStrip) {
      const int64_t pixels = std::min(kStrip, n - at);
      strip(area, at, pixels, c, packed, band, acc);
      for (int64_t i = 0; i < 2 && c + i * run_ < g_.all_out(); ++i)
        done(acc + i * kStrip * kRun, first + at, pixels, c + i * run_, std::min(run_, g_.all_out() - c - i * run_));
    }
}

void ConvGroups::strip(const Area& area, int64_t at, int64_t pixels, int64_t c, const char* packed, const uint8_t* band,
                       int32_t* acc) const {
  const uint8_t* taps[kMostTaps];
  const uint8_t* const from = band + area.x * g_.stride[2] * g_.all_in() + c;
  for (int64_t t = 0; t < g_.taps(); ++t) taps[t] = from + taps_[static_cast<size_t>(t)];
  const bool single = one_run(c);
  GroupedTile tile{.taps = taps, .n_taps = g_.taps(), .parts = g_.c_in > 16 ? 2 : 1, .panel = packed, .acc = acc};
  tile.second = single ? kRun : kStrip * kRun;
  tile.next = single ? 2 * kRun : kRun;
  const int64_t step = g_.stride[2] * g_.all_in(), line = g_.stride[1] * line_;
  int64_t x = at % area.columns, left = pixels, offset = at / area.columns * line + x * step;
  const auto next = [&] {  // at the last pixel: once more
    if (--left <= 0) return;
    offset += step;
    if (++x == area.columns) {
      x = 0;
      offset += line - area.columns * step;
    }
  };
  while (left > 0) {
    for (int64_t u = 0; u < GroupedTile::kUnits; u += 2) {
      tile.units[u] = offset;
      if (single) next();
      tile.units[u + 1] = single ? offset : offset + run_;
      next();
    }
    tile_(tile);
    tile.acc += GroupedTile::kUnits / 2 * tile.next;
  }
}

}  // namespace smelt
