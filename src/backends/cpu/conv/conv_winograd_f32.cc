// Winograd's convolution F(2x2, 3x3) of channels-last images: 2x2 output pixels from 4x4 input pixels by 16 products
// instead of 36. A tile d becomes B'dB, a filter g becomes GgG'; their products m, summed over channels, give A'mA.
//
// Error: with u = 2^-24, a result is within 16 (c_in + 16) u S of the exact one, S the sum over the input channels of
// (sum |g|) (max |d|), because B adds 4 inputs, G halves sums of taps and A adds 9 products. A tile with a result
// that is not finite is computed anew by its definition: infinities and NaN come out where the direct convolution has
// them, also where only the transforms overflow.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_winograd_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "base/mapped_file.h"

#ifndef SMELT_CPU_WINOGRAD_F32
#define SMELT_CPU_WINOGRAD_F32
namespace smelt {
constexpr int kPositions = 16;  ///< of a tile of 4x4
struct WinogradTransforms {
  /// u[p * step + c] = (GgG')[p] of channel c. g: the 9 taps, row by row, each of `channels` neighbours.
  void (*filter)(const float* g, int64_t channels, float* u, int64_t step);
  /// v[p * step + c] = (B'dB)[p] of channel c. d: the tile's pixels, row by row.
  void (*input)(const float* const* d, int64_t channels, float* v, int64_t step);
  /// y[q][c] = clamp((A'mA)[q]) of channel c, m[p * step + c]. y: the output pixels, row by row; null: not there.
  /// False if one of (A'mA)[q] is not finite.
  bool (*output)(const float* m, int64_t step, int64_t channels, float lo, float hi, float* const* y);
  /// Sum of x[i] * y[i].
  float (*dot)(const float* x, const float* y, int64_t n);
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void winograd_filter(const float* g, int64_t channels, float* u, int64_t step) {
  each_vector(channels, [&](auto part, int64_t c) HWY_ATTR {
    using V = typename decltype(part)::V;
    const V half = hn::Set(part.d, 0.5f);
    V t[4][3];  // Gg
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const V g0 = part.load(g + j * channels + c), g1 = part.load(g + (3 + j) * channels + c),
              g2 = part.load(g + (6 + j) * channels + c), ends = hn::Add(g0, g2);
      t[0][j] = g0;
      t[1][j] = hn::Mul(half, hn::Add(ends, g1));
      t[2][j] = hn::Mul(half, hn::Sub(ends, g1));
      t[3][j] = g2;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const V ends = hn::Add(t[i][0], t[i][2]);
      float* row = u + i * 4 * step + c;
      part.store(t[i][0], row);
      part.store(hn::Mul(half, hn::Add(ends, t[i][1])), row + step);
      part.store(hn::Mul(half, hn::Sub(ends, t[i][1])), row + 2 * step);
      part.store(t[i][2], row + 3 * step);
    }
  });
}

void winograd_input(const float* const* d, int64_t channels, float* v, int64_t step) {
  each_vector(channels, [&](auto part, int64_t c) HWY_ATTR {
    using V = typename decltype(part)::V;
    V t[4][4];  // B'd
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const V d0 = part.load(d[j] + c), d1 = part.load(d[4 + j] + c), d2 = part.load(d[8 + j] + c),
              d3 = part.load(d[12 + j] + c);
      t[0][j] = hn::Sub(d0, d2);
      t[1][j] = hn::Add(d1, d2);
      t[2][j] = hn::Sub(d2, d1);
      t[3][j] = hn::Sub(d1, d3);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* row = v + i * 4 * step + c;
      part.store(hn::Sub(t[i][0], t[i][2]), row);
      part.store(hn::Add(t[i][1], t[i][2]), row + step);
      part.store(hn::Sub(t[i][2], t[i][1]), row + 2 * step);
      part.store(hn::Sub(t[i][1], t[i][3]), row + 3 * step);
    }
  });
}

float dot_product(const float* x, const float* y, int64_t n) {
  float sum = 0;
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto product = hn::Mul(part.load(x + i), part.load(y + i));
    sum += hn::GetLane(hn::SumOfLanes(part.d, product));
  });
  return sum;
}

bool winograd_output(const float* m, int64_t step, int64_t channels, float lo, float hi, float* const* y) {
  bool finite = true;
  each_vector(channels, [&](auto part, int64_t c) HWY_ATTR {
    using V = typename decltype(part)::V;
    V zero = hn::Zero(part.d);  // stays, as long as all results are finite
    const V vlo = hn::Set(part.d, lo), vhi = hn::Set(part.d, hi);
    V t[2][4];  // A'm
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const float* column = m + j * step + c;
      const V m0 = part.load(column), m1 = part.load(column + 4 * step), m2 = part.load(column + 8 * step),
              m3 = part.load(column + 12 * step);
      t[0][j] = hn::Add(hn::Add(m0, m1), m2);
      t[1][j] = hn::Sub(hn::Sub(m1, m2), m3);
    }
    const auto put = [&](V value, float* to) HWY_ATTR {
      zero = hn::MulAdd(value, hn::Zero(part.d), zero);
      if (to) part.store(hn::Min(vhi, hn::Max(vlo, value)), to + c);  // NaN stays
    };
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      put(hn::Add(hn::Add(t[i][0], t[i][1]), t[i][2]), y[2 * i]);
      put(hn::Sub(hn::Sub(t[i][1], t[i][2]), t[i][3]), y[2 * i + 1]);
    }
    finite = finite && hn::AllTrue(part.d, hn::Eq(zero, hn::Zero(part.d)));
  });
  return finite;
}

WinogradTransforms make_winograd_transforms() {
  return {winograd_filter, winograd_input, winograd_output, dot_product};
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct ConvWinogradKey {
  FilterKey filter;
  const GemmF32* gemm;
  auto operator<=>(const ConvWinogradKey&) const = default;
};

class ConvWinogradF32 final : public Kernel {
 public:
  ConvWinogradF32(const ConvShape& g, const KernelSpec& spec)
      : g_(g),
        gemm_(gemm_f32(spec.isa)),
        transforms_(SMELT_FOR_LEVEL(spec.isa, make_winograd_transforms)()),
        act_(spec.attrs<ConvAttrs>().act),
        threads_(std::max(spec.threads, 1)),
        rows_(ceil_div(g.out[1], 2)),
        columns_(ceil_div(g.out[2], 2)) {
    const Tensor* bias = spec.has(2) ? spec.constant(2) : nullptr;
    filter_ = spec.constant(1)->data<float>();
    bias_ = bias ? bias->data<float>() : nullptr;
    packed_ = spec.packs.get(ConvWinogradKey{{g, *spec.constant(1), bias}, &gemm_}, [&] {
      return pack(spec.constant(1)->data<float>(), bias ? bias->data<float>() : nullptr);
    });
    // Transformed tiles and their products stay in the level-2 cache; the filters are read once a block, which pays
    // off for several tiles of the product.
    constexpr int64_t kFloats = 160 * 1024, kLeastTiles = 3;
    const int64_t all = g.batch * rows_ * columns_;
    int64_t block = std::max(kFloats / (kPositions * (g.c_in + g.c_out)) / gemm_.mr, kLeastTiles) * gemm_.mr;
    blocks_ = std::max(ceil_div(all, block), std::min(threads_, all));
    block_ = ceil_div(all, blocks_);
    v_row_ = padded_floats(g.c_in);  // rows that do not meet in the same lines of the nearest cache
    m_row_ = padded_floats(g.c_out);
  }
  /// True if the products that it saves outweigh the transforms and the larger filters. SMELT_CPU_WINOGRAD=0 forbids
  /// it.
  static bool pays_off(const ConvShape& g) {
    const char* const wanted = std::getenv("SMELT_CPU_WINOGRAD");
    constexpr int64_t kLeastChannels = 32, kLeastTiles = 32;
    return !(wanted && wanted[0] == '0') && std::min(g.c_in, g.c_out) >= kLeastChannels &&
           g.batch * ceil_div(g.out[1], 2) * ceil_div(g.out[2], 2) >= kLeastTiles;
  }
  static bool applies(const ConvShape& g) {
    return g.planar() && g.groups == 1 && g.kernel[1] == 3 && g.kernel[2] == 3 && g.stride[1] == 1 &&
           g.stride[2] == 1 && g.dilation[1] == 1 && g.dilation[2] == 1;
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(std::min(threads_, blocks_) * slot_floats()) * sizeof(float);
  }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the tiles of a convolution");
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t slots = std::min(threads_, blocks_), all = g_.batch * rows_ * columns_;
    ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t b = blocks_ * slot / slots; b < blocks_ * (slot + 1) / slots; ++b)
          block(x, y, all * b / blocks_, all * (b + 1) / blocks_, scratch + slot * slot_floats());
    });
    return Ok();
  }

 private:
  /// From one position to the next of all tiles of a block.
  int64_t v_step() const { return block_ * v_row_; }
  int64_t m_step() const { return block_ * m_row_; }
  int64_t slot_floats() const { return kPositions * (v_step() + m_step()) + padded_floats(g_.c_in); }

  Packed pack(const float* filter, const float* bias) const {
    constexpr int kCentre = 5;  // adds to all four outputs alike
    const int64_t size = gemm_.packed_size(g_.c_in, g_.c_out), nr = gemm_.nr();
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(kPositions * size) * sizeof(float));
    std::vector<float> taps(static_cast<size_t>(9 * g_.c_in)), u(static_cast<size_t>(kPositions * nr * g_.c_in));
    for (int64_t panel = 0; panel < gemm_.panels(g_.c_out); ++panel) {
      const int64_t first = panel * nr, used = std::min(nr, g_.c_out - first);
      for (int64_t o = 0; o < used; ++o) {
        const float* from = filter + (first + o) * g_.filter_o;
        for (int64_t t = 0; t < 9; ++t)
          for (int64_t i = 0; i < g_.c_in; ++i)
            taps[static_cast<size_t>(t * g_.c_in + i)] = from[i * g_.filter_i + t * g_.filter_s];
        transforms_.filter(taps.data(), g_.c_in, u.data() + o * g_.c_in, nr * g_.c_in);
      }
      for (int p = 0; p < kPositions; ++p)
        gemm_.pack(u.data() + p * nr * g_.c_in, 1, g_.c_in, g_.c_in, used,
                   p == kCentre && bias ? bias + first : nullptr,
                   packed->data<float>() + p * size + gemm_.panel_offset(g_.c_in, panel));
    }
    release_pages(filter, static_cast<size_t>(g_.c_out * g_.k()) * sizeof(float));
    return packed;
  }
  /// The tiles [first, last) of all images.
  void block(const float* x, float* y, int64_t first, int64_t last, float* v) const {
    float *const m = v + kPositions * v_step(), *const outside = m + kPositions * m_step();
    std::fill_n(outside, g_.c_in, 0.0f);
    const int64_t count = last - first, size = gemm_.packed_size(g_.c_in, g_.c_out);
    for (int64_t t = 0; t < count; ++t) {
      const Tile tile = at(first + t);
      const float* d[kPositions];
      for (int64_t p = 0; p < kPositions; ++p) {
        const int64_t row = tile.row * 2 - g_.pad[1] + p / 4, column = tile.column * 2 - g_.pad[2] + p % 4;
        const bool inside = row >= 0 && row < g_.in[1] && column >= 0 && column < g_.in[2];
        d[p] = inside ? x + ((tile.image * g_.in[1] + row) * g_.in[2] + column) * g_.c_in : outside;
      }
      transforms_.input(d, g_.c_in, v + t * v_row_, v_step());
    }
    const Bounds all = activation_bounds({}), bounds = activation_bounds(act_);
    for (int64_t p = 0; p < kPositions; ++p)
      gemm_.run(count, g_.c_out, g_.c_in, v + p * v_step(), v_row_, packed_->data<float>() + p * size, 0,
                gemm_.panels(g_.c_out), m + p * m_step(), m_row_, nullptr, all.lo, all.hi);
    for (int64_t t = 0; t < count; ++t) {
      const Tile tile = at(first + t);
      float* to[4];
      for (int64_t q = 0; q < 4; ++q) {
        const int64_t row = tile.row * 2 + q / 2, column = tile.column * 2 + q % 2;
        const bool inside = row < g_.out[1] && column < g_.out[2];
        to[q] = inside ? y + ((tile.image * g_.out[1] + row) * g_.out[2] + column) * g_.c_out : nullptr;
      }
      if (!transforms_.output(m + t * m_row_, m_step(), g_.c_out, bounds.lo, bounds.hi, to))
        compute_directly(x, tile, bounds, outside, to);
      for (float* pixel : to)
        if (pixel) apply_activation(act_, pixel, 1, g_.c_out, g_.c_out);
    }
  }
  struct Tile {
    int64_t image, row, column;
  };
  /// The output pixels of a tile by the definition. `taps`: workspace for c_in numbers.
  void compute_directly(const float* x, const Tile& tile, const Bounds& bounds, float* taps, float* const* to) const {
    for (int64_t o = 0; o < g_.c_out; ++o) {
      float sums[4];
      std::fill_n(sums, 4, bias_ ? bias_[o] : 0.0f);
      for (int64_t t = 0; t < 9; ++t) {
        for (int64_t i = 0; i < g_.c_in; ++i) taps[i] = filter_[o * g_.filter_o + i * g_.filter_i + t * g_.filter_s];
        for (int64_t q = 0; q < 4; ++q) {
          const int64_t row = tile.row * 2 - g_.pad[1] + q / 2 + t / 3;
          const int64_t column = tile.column * 2 - g_.pad[2] + q % 2 + t % 3;
          if (to[q] && row >= 0 && row < g_.in[1] && column >= 0 && column < g_.in[2])
            sums[q] +=
                transforms_.dot(x + ((tile.image * g_.in[1] + row) * g_.in[2] + column) * g_.c_in, taps, g_.c_in);
        }
      }
      for (int64_t q = 0; q < 4; ++q)
        if (to[q]) to[q][o] = sums[q] < bounds.lo ? bounds.lo : sums[q] > bounds.hi ? bounds.hi : sums[q];
    }
    std::fill_n(taps, g_.c_in, 0.0f);
  }
  Tile at(int64_t index) const { return {index / (rows_ * columns_), index / columns_ % rows_, index % columns_}; }

  ConvShape g_;
  const GemmF32& gemm_;
  WinogradTransforms transforms_;
  Activation act_;
  const float *filter_ = nullptr, *bias_ = nullptr;  ///< the constants, which outlive the kernel
  int64_t threads_, rows_, columns_;                 ///< of tiles of an image
  int64_t blocks_ = 1, block_ = 1;                   ///< blocks of all images, tiles of a block at most
  int64_t v_row_ = 0, m_row_ = 0;                    ///< floats from tile to tile
  Packed packed_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_winograd_f32(const KernelSpec& spec) {
  const auto g = ConvShape::make(spec);
  if (!g || spec.outputs[0].shape.elements() == 0 || !ConvWinogradF32::applies(*g)) return nullptr;
  if (!ConvWinogradF32::pays_off(*g)) return spec.refuse("too few channels or tiles");
  return std::make_unique<ConvWinogradF32>(*g, spec);
}

}  // namespace smelt
#endif
