#pragma once

#include <functional>

#include "backends/cpu/conv/winograd_choice.h"
#include "backends/cpu/conv/winograd_i8.h"
#include "backends/cpu/core/isa.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// What the steps of 3x3 convolutions of bytes take, in cycles.
struct WinogradTimesI8 {
  double product, patch;  ///< direct: a product of bytes, a byte of a patch
  double transformed_product;
  struct Transforms {
    double input, output, filter;  ///< of a tile's input channel, of its output channel, of a filter's channel
  } small, large;                  ///< F(2x2), F(4x4)
};

/// AMD EPYC (Zen 3), products of pairs of int16s, 32 bytes a vector.
inline constexpr WinogradTimesI8 kPairTimesI8 = {1.0 / 25, 0.15, 1.0 / 25, {2.3, 2, 1.2}, {6.5, 10, 3.5}};
/// Intel Xeon (Cascade Lake), where transformed tiles lie in the outer caches and F(2x2) never pays.
inline constexpr WinogradTimesI8 kIntelVnniTimesI8 = {1.0 / 95, 0, 1.0 / 44, {8, 9, 5}, {18, 33, 12}};
/// AMD EPYC (Zen 5), to figures of bench/kernels/winograd.py --int8 on one core, 2026-11-27; winograd_choice_test.cc
/// holds some. F(2x2) never pays.
inline constexpr WinogradTimesI8 kAmdVnniTimesI8 = {1.0 / 120, 0.03, 1.0 / 60, {2, 4.5, 1.8}, {5.2, 15.4, 3.5}};

/// Those of this machine at a level. Null for levels that were not measured or whose byte products are too fast.
const WinogradTimesI8* winograd_times_i8(Isa isa);

/// Tiles of a block at most: in whole tiles of the product, transformed they stay in the level-3 cache.
int64_t winograd_block_tiles_i8(const ConvShape& g, const WinogradI8& transforms, const GemmI8& gemm);

/// The transforms that take the least time of those that the setting permits and that are exact, if they take less
/// than products of patches; else nullptr.
const WinogradI8* winograd_transforms_i8(const ConvShape& g, Isa isa, const WinogradTimesI8& times,
                                         const WinogradSetting& setting,
                                         const std::function<bool(const WinogradI8&)>& is_exact);

}  // namespace smelt
