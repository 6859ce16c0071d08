#include "backends/cpu/conv/winograd_filter_bf16.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <memory>
#include <vector>

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/packed_filter.h"

namespace smelt {
namespace {

struct WinogradFilterBf16Key {
  FilterKey filter;
  const GemmF32* gemm;
  int positions;
  int64_t chunk;
  auto operator<=>(const WinogradFilterBf16Key&) const = default;
};

Packed pack_winograd_bf16(const ConvShape& g, const GemmF32& gemm, const WinogradTransforms& transforms, int64_t chunk,
                          const Tensor& filter, const float* bias) {
  const int64_t positions = transforms.positions(), rows = gemm.words(g.c_in) * positions;
  auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(gemm.packed_size(rows, g.c_out)) * sizeof(float));
  each_panel_of_filters(g, gemm, filter, [&](const FilterPanel& panel) {
    std::vector<float> transformed(static_cast<size_t>(positions * gemm.nr() * g.c_in));
    const int64_t step = panel.used * g.c_in, p = panel.column / gemm.nr(), w = gemm.width(g.c_out, p);
    for (int64_t o = 0; o < panel.used; ++o)
      transforms.filter(panel.filters + o * 9 * g.c_in, g.c_in, g.c_in, transformed.data() + o * g.c_in, step);
    float* to = packed->data<float>() + gemm.panel_offset(rows, p);
    for (int64_t o = 0; o < panel.used && bias; ++o) to[o] = bias[panel.column + o];
    to += w;
    for (int64_t c = 0; c < g.c_in; c += chunk) {
      const int64_t channels = std::min(chunk, g.c_in - c);
      for (int64_t q = 0; q < positions; ++q, to += gemm.words(channels) * w)
        gemm.pack_columns(transformed.data() + q * step + c, 1, g.c_in, channels, panel.used, 1, to, w);
    }
  });
  return packed;
}

}  // namespace

Packed winograd_filter_bf16(const ConvShape& g, const GemmF32& gemm, const WinogradTransforms& transforms,
                            int64_t chunk, const KernelSpec& spec) {
  const Tensor* const bias = spec.has(2) ? spec.constant(2) : nullptr;
  const WinogradFilterBf16Key key{{g, *spec.constant(1), bias}, &gemm, transforms.positions(), chunk};
  return spec.packs.get(
      key,
      [&] {
        return pack_winograd_bf16(g, gemm, transforms, chunk, *spec.constant(1), bias ? bias->data<float>() : nullptr);
      },
      [&] {
        return spec.contents("conv_winograd_bf16", key.filter.numbers(), {transforms.positions(), chunk});
      });
}

}  // namespace smelt
