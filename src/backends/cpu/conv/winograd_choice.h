#pragma once

#include "base/error.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// What SMELT_CPU_WINOGRAD says about Winograd convolutions on the CPU.
struct WinogradSetting {
  int largest_tile = 4;  ///< output pixels along a side; 0: no Winograd convolutions
  bool always = false;   ///< largest_tile wherever a convolution has that form, for measurements
};

/// The setting of that name: 0, 2, 4 (also without a name), always2 or always4. Fails on another one.
Result<WinogradSetting> winograd_setting_named(const char* name);
/// The setting that SMELT_CPU_WINOGRAD names. Session::create() reports its error.
Result<WinogradSetting> winograd_setting();

/// True for images and one group of filters of 3x3 taps, without stride and dilation.
bool has_winograd_form(const ConvShape& g);
/// As has_winograd_form(), but of any groups and with any dilation.
bool has_dilated_winograd_form(const ConvShape& g);
/// Phases of a dilated convolution that have output pixels along dimension d: one holds pixels a dilation apart.
int64_t winograd_phases(const ConvShape& g, int d);
/// Tiles of `side` output pixels along dimension d that cover all phases, as many for each.
int64_t winograd_tiles(const ConvShape& g, int d, int64_t side);

/// Side of the output tiles with which a float32 channels-last convolution takes the least time of those that the
/// setting permits: 2, 4, or 0 for the direct convolution. `direct_share`: what the direct one takes of its time in
/// float32. The answer is the same for all levels of equal share and numbers of threads.
int winograd_tile(const ConvShape& g, const WinogradSetting& setting, double direct_share = 1);

/// True if a convolution by F(2x2, 3x3) in bfloat16 takes less time than the direct one in bfloat16, and the setting
/// permits it.
bool takes_winograd_bf16(const ConvShape& g, const WinogradSetting& setting);

}  // namespace smelt
