#include "backends/cpu/conv/packed_filter.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/cpu/conv/filter_key.h"
#include "base/mapped_file.h"

namespace smelt {
namespace {

struct PackedFilterKey {
  FilterKey filter;
  const GemmF32* gemm;
  auto operator<=>(const PackedFilterKey&) const = default;
};

/// `filter`: floats, aligned or not. A panel at a time, whose pages go back to the file: no copy stands beside the
/// packed form.
Packed pack(const ConvShape& g, const GemmF32& gemm, const std::byte* filter, const float* bias) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t step = gemm.words(g.c_in) * gemm.word, k = g.taps() * step, rows = k / gemm.word;
  const int64_t group_words = gemm.packed_size(rows, g.c_out);
  auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(group_words * g.groups * kFloat));
  const bool in_order = g.c_in == step && g.filter_o == k && (g.taps() == 1 || g.filter_s == g.c_in) &&
                        (g.c_in == 1 || g.filter_i == 1) && reinterpret_cast<uintptr_t>(filter) % alignof(float) == 0;
  const bool apart = g.filter_o >= g.taps() * g.c_in;  // filters lie one behind the other
  std::vector<float> ordered(static_cast<size_t>(in_order ? 0 : std::min(gemm.nr(), g.c_out) * k));
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t panel = 0; panel < gemm.panels(g.c_out); ++panel) {
      const int64_t column = panel * gemm.nr(), used = std::min(gemm.nr(), g.c_out - column);
      const int64_t first = group * g.c_out + column;
      const std::byte* const from = filter + first * g.filter_o * kFloat;
      float* to = ordered.data();
      for (int64_t o = 0; o < used && !in_order; ++o)
        for (int64_t t = 0; t < g.taps(); ++t, to += step)
          for (int64_t i = 0; i < g.c_in; ++i)
            std::memcpy(to + i, from + (o * g.filter_o + i * g.filter_i + t * g.filter_s) * kFloat, sizeof(float));
      gemm.pack(in_order ? reinterpret_cast<const float*>(from) : ordered.data(), 1, k, k, used,
                bias ? bias + first : nullptr,
                packed->data<float>() + group * group_words + gemm.panel_offset(rows, panel));
      if (apart) release_pages(from, static_cast<size_t>(used * g.filter_o * kFloat));
    }
  release_pages(filter, static_cast<size_t>(g.all_out() * g.taps() * g.c_in * kFloat));
  return packed;
}

}  // namespace

Packed packed_filter_f32(const ConvShape& g, const GemmF32& gemm, const KernelSpec& spec) {
  const Tensor* const bias = spec.has(2) ? spec.constant(2) : nullptr;
  const PackedFilterKey key{{g, *spec.constant(1), bias}, &gemm};
  return spec.packs.get(
      key, [&] { return pack(g, gemm, spec.constant(1)->unaligned_bytes(), bias ? bias->data<float>() : nullptr); },
      [&] { return spec.contents("conv_nhwc_f32", key.filter.numbers(), {gemm.word}); });
}

}  // namespace smelt
