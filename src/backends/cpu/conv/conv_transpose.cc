// Transposed convolutions of channels-last images: every input pixel times the filter of all taps, spread over the
// output pixels that it reaches.
#include "backends/cpu/conv/conv_transpose.h"

#include <algorithm>
#include <vector>

namespace smelt {

std::optional<Spread> Spread::make(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  const Shape &x = spec.inputs[0].shape, &w = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  if (y.elements() == 0 || x.elements() == 0) return std::nullopt;
  std::vector<int64_t> sizes = attrs.output_shape;
  if (spec.has(3)) sizes.assign(y.begin() + 1, y.begin() + (y.rank() - 1));
  const auto g = conv_transpose_geometry(attrs, x, w, sizes);
  if (!g.ok() || g->output_shape(attrs.layout) != y) return std::nullopt;
  if (spec.has(2) && spec.inputs[2].shape.elements() != g->out_channels) return std::nullopt;
  const auto shape = of(*g, attrs, w);
  if (!shape) return std::nullopt;
  Spread s{shape->turned()};
  s.filter_group = attrs.filter == FilterLayout::kIOS ? s.c_in * s.filter_i : s.c_out * s.filter_o;
  return s;
}

TapWeights::TapWeights(const Spread& s, const QuantizedPair& q, const Tensor& filter)
    : s_(s),
      q_(q),
      bytes_(filter.data<uint8_t>()),
      as_they_lie_(s.filter_i == 1 && q.w_signed && std::ranges::all_of(q.w_zeros, [](int32_t z) { return z == 0; })) {}

std::vector<int16_t> filter_by_taps(const Spread& s, const QuantizedPair& q, const Tensor& filter) {
  const TapWeights weights(s, q, filter);
  std::vector<int16_t> out(static_cast<size_t>(filter.elements()));
  int16_t* to = out.data();
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t t = 0; t < s.taps(); ++t)
      for (int64_t o = 0; o < s.c_out; ++o, to += s.c_in) weights.copy(g, o, t, to);
  return out;
}

}  // namespace smelt
