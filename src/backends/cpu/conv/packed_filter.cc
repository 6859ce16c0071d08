#include "backends/cpu/conv/packed_filter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/conv/filter_key.h"
#include "base/checked.h"
#include "base/packing_threads.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

struct PackedFilterKey {
  FilterKey filter;
  const GemmF32* gemm;
  auto operator<=>(const PackedFilterKey&) const = default;
};

Packed pack(const ConvShape& g, const GemmF32& gemm, const Tensor& filter, const float* bias) {
  const int64_t step = gemm.words(g.c_in) * gemm.word, k = g.taps() * step, rows = k / gemm.word;
  const int64_t group_words = gemm.packed_size(rows, g.c_out);
  auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(group_words * g.groups) * sizeof(float),
                                                AlignedBuffer::Contents::kAny);  // panels fill it
  each_panel_of_filters(g, gemm, filter, [&](const FilterPanel& panel) {
    const int64_t first = panel.group * g.c_out + panel.column;
    gemm.pack(panel.filters, 1, k, k, panel.used, bias ? bias + first : nullptr,
              packed->data<float>() + panel.group * group_words + gemm.panel_offset(rows, panel.column / gemm.nr()));
  });
  return packed;
}

}  // namespace

void each_panel_of_filters(const ConvShape& g, const GemmF32& gemm, const Tensor& filter,
                           const std::function<void(const FilterPanel&)>& take) {
  const int64_t step = gemm.words(g.c_in) * gemm.word, k = g.taps() * step, most = std::min(gemm.nr(), g.c_out);
  const bool in_order =
      g.c_in == step && g.filter_o == k && (g.taps() == 1 || g.filter_s == g.c_in) && (g.c_in == 1 || g.filter_i == 1);
  // From the first element of so many filters to the last one.
  const auto span = [&](int64_t filters) {
    return (filters - 1) * g.filter_o + (g.c_in - 1) * g.filter_i + (g.taps() - 1) * g.filter_s + 1;
  };
  const bool apart = g.filter_o >= span(1);  // filters lie one behind the other
  const bool one_by_one = apart && !in_order;
  std::vector<float> all(static_cast<size_t>(apart ? 0 : span(g.all_out())));
  if (!apart) filter.copy_elements(0, static_cast<int64_t>(all.size()), all.data());
  const int64_t panels = ceil_div(g.c_out, gemm.nr());
  const int64_t copied = apart ? span(one_by_one ? 1 : most) : 0, ordered = in_order ? 0 : most * k;
  const auto bytes = static_cast<size_t>(copied + ordered) * sizeof(float);
  const int64_t threads = PackingThreads::count(g.all_out() * k * static_cast<int64_t>(sizeof(float)));
  PackingThreads::share(g.groups * panels, threads, bytes, [&](int64_t begin, int64_t end, void* floats) {
    auto *const copy = static_cast<float*>(floats), *const in_words = copy + copied;
    std::fill_n(in_words, ordered, 0.0f);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / panels, column = i % panels * gemm.nr();
      const int64_t used = std::min(gemm.nr(), g.c_out - column), first = group * g.c_out + column;
      if (apart && in_order) filter.copy_elements(first * g.filter_o, span(used), copy);
      const float* const filters = apart ? copy : all.data() + first * g.filter_o;
      float* to = in_words;
      for (int64_t o = 0; o < used && !in_order; ++o) {
        if (one_by_one) filter.copy_elements((first + o) * g.filter_o, span(1), copy);
        const float* const one = filters + (one_by_one ? 0 : o * g.filter_o);
        for (int64_t t = 0; t < g.taps(); ++t, to += step) {
          const float* const from = one + t * g.filter_s;
          for (int64_t c = 0; c < g.c_in; ++c) to[c] = from[c * g.filter_i];
        }
      }
      take({group, column, used, in_order ? filters : in_words});
    }
  });
  release_pages(filter);
}

Packed packed_filter_f32(const ConvShape& g, const GemmF32& gemm, const KernelSpec& spec) {
  const Tensor* const bias = spec.has(2) ? spec.constant(2) : nullptr;
  const PackedFilterKey key{{g, *spec.constant(1), bias}, &gemm};
  return spec.packs.get(
      key, [&] { return pack(g, gemm, *spec.constant(1), bias ? bias->data<float>() : nullptr); },
      [&] { return spec.contents("conv_nhwc_f32", key.filter.numbers(), {gemm.word}); });
}

}  // namespace smelt
