#include "backends/cpu/conv/image_quantizer.h"

#include <smelt/options.h>

#include <algorithm>
#include <array>

namespace smelt {
namespace {
constexpr int64_t kQuantizedAtOnce = 16 * 1024;  ///< values that a thread takes
}  // namespace

bool ImageQuantizer::choose_params(ThreadPool& pool, const float* x, int64_t size, QuantParams* params,
                                   QuantRule* rule) const {
  const int64_t parts = std::min({threads, size / kQuantizedAtOnce, int64_t{SessionOptions::kMaxThreads}});
  if (parts <= 1) return ops.choose_params(x, size, asymmetric, params, rule);
  struct Range {
    float low = 0, high = 0;
    bool finite = false;
  };
  std::array<Range, SessionOptions::kMaxThreads> ranges;
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = size * i / parts, last = size * (i + 1) / parts;
      Range& r = ranges[static_cast<size_t>(i)];
      r.finite = ops.finite_range(x + first, last - first, &r.low, &r.high);
    }
  });
  Range all = ranges[0];
  for (int64_t i = 1; i < parts; ++i) {
    const Range& r = ranges[static_cast<size_t>(i)];
    all = {std::min(all.low, r.low), std::max(all.high, r.high), all.finite && r.finite};
  }
  return all.finite && params_of_range(all.low, all.high, asymmetric, params, rule);
}

QuantParams ImageQuantizer::quantize(ThreadPool& pool, const float* x, int64_t size, uint8_t* to) const {
  QuantParams params;
  QuantRule rule;
  if (!choose_params(pool, x, size, &params, &rule))
    return ops.quantize_row(x, size, asymmetric, reinterpret_cast<int8_t*>(to));
  pool.parallel_for(size, kQuantizedAtOnce,
                    [&](int64_t begin, int64_t end) { ops.quantize(x + begin, end - begin, rule, to + begin); });
  return params;
}

}  // namespace smelt
