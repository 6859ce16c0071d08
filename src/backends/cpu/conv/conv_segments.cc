#include "backends/cpu/conv/conv_segments.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/conv/seen_taps.h"
#include "base/checked.h"

namespace smelt {

std::vector<Segment> segments_of(const ConvShape& g, int64_t mr) {
  constexpr int64_t kLargest = 256, kLineFloats = 96 * 1024;  // a line stays in the level-2 cache
  const bool line = g.in[1] == 1 && g.out[1] == 1 && g.kernel[1] == 1 && g.in[2] * g.all_in() <= kLineFloats;
  const bool dilated = g.dilation[1] != 1 || g.dilation[2] != 1;
  if (!g.planar() || g.pointwise() || (g.pad[2] == 0 && !dilated)) return {};
  if (!line && (!dilated || std::max(g.out[1], g.out[2]) > kLargest)) return {};
  std::vector<int64_t> bounds{0, g.out[2]};
  for (int64_t kx = 0; kx < g.kernel[2]; ++kx) {
    const auto [begin, end] = seen(g, 2, kx);
    if (begin < end) bounds.insert(bounds.end(), {begin, end});
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  const auto cost = [&](int64_t rows, int64_t taps) { return taps * (rows + 2 * ceil_div(rows, mr)); };
  std::vector<Segment> segments;
  int64_t sum = 0;
  for (int64_t y = 0; y < g.out[1]; ++y)
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      Segment s{y, bounds[i], bounds[i + 1] - bounds[i], {}, {}};
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < g.kernel[2]; ++kx) {
          const auto [y0, y1] = seen(g, 1, ky);
          const auto [x0, x1] = seen(g, 2, kx);
          if (y < y0 || y >= y1 || s.first < x0 || s.first >= x1) continue;
          const int64_t row = y * g.stride[1] - g.pad[1] + ky * g.dilation[1];
          const int64_t column = s.first * g.stride[2] - g.pad[2] + kx * g.dilation[2];
          s.at.push_back((row * g.in[2] + column) * g.all_in());
          s.b_rows.push_back((ky * g.kernel[2] + kx) * g.c_in);
        }
      if (s.at.empty()) return {};
      sum += cost(s.count, static_cast<int64_t>(s.at.size()));
      segments.push_back(std::move(s));
    }
  const int64_t percent = line ? 101 : 80;
  return sum * 100 < g.out[1] * cost(g.out[2], g.taps()) * percent ? segments : std::vector<Segment>();
}

std::vector<Segment> cut_lines(const std::vector<Segment>& segments, const ConvShape& g, int64_t parts,
                               int64_t pixels) {
  std::vector<Segment> cut;
  for (const Segment& s : segments)
    for (int64_t part = s.first / pixels; part * pixels < s.first + s.count; ++part) {
      Segment rest = s;
      rest.line = s.line * parts + part;
      rest.first = std::max(s.first, part * pixels);
      rest.count = std::min(s.first + s.count, (part + 1) * pixels) - rest.first;
      for (ptrdiff_t& at : rest.at) at += (rest.first - s.first) * g.stride[2] * g.all_in();
      cut.push_back(std::move(rest));
    }
  return cut;
}

}  // namespace smelt
