#include "convert/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "graph/graph.h"
#include "runtime/model_access.h"

namespace smelt::convert {
namespace {

constexpr size_t kBins = 2048;
constexpr size_t kLevels = 128;    ///< magnitudes of int8
constexpr double kTail = 0.00005;  ///< share of elements cut off at each end by kPercentile

/// Counts of elements between the ends of a value's range.
struct Histogram {
  Range range;
  std::array<double, kBins> counts{};
  void add(float x) {
    const double at = (x - range.low) / (range.high - range.low) * kBins;
    counts[static_cast<size_t>(std::clamp(at, 0.0, kBins - 1.0))] += 1;
  }
  float edge(size_t bin) const {
    return range.low + (range.high - range.low) * static_cast<float>(bin) / static_cast<float>(kBins);
  }
};

Range percentile(const Histogram& h) {
  const double cut = kTail * std::accumulate(h.counts.begin(), h.counts.end(), 0.0);
  size_t first = 0, last = kBins;
  for (double sum = h.counts[0]; sum < cut && first + 1 < kBins;) sum += h.counts[++first];
  for (double sum = h.counts[kBins - 1]; sum < cut && last > first + 1;) sum += h.counts[--last - 1];
  return {std::min(0.f, h.edge(first)), std::max(0.f, h.edge(last))};
}

/// Kullback-Leibler divergence of magnitudes clipped at bin `limit` from their form of kLevels levels.
double divergence(const std::array<double, kBins>& magnitudes, size_t limit, double total) {
  double clipped = 0, sum = 0;
  for (size_t i = limit; i < kBins; ++i) clipped += magnitudes[i];
  const double width = static_cast<double>(limit) / kLevels;
  for (size_t level = 0; level < kLevels; ++level) {
    const auto begin = static_cast<size_t>(static_cast<double>(level) * width);
    const auto end = std::max(begin + 1, static_cast<size_t>(static_cast<double>(level + 1) * width));
    double mass = 0, used = 0;
    for (size_t i = begin; i < end && i < limit; ++i) {
      mass += magnitudes[i];
      used += magnitudes[i] > 0;
    }
    for (size_t i = begin; i < end && i < limit; ++i) {
      const double p = (magnitudes[i] + (i + 1 == limit ? clipped : 0)) / total, q = mass / std::max(used, 1.0) / total;
      if (p > 0) sum += p * std::log(p / std::max(q, 1e-12));
    }
  }
  return sum;
}

Range entropy(const Histogram& h) {
  std::array<double, kBins> magnitudes{};
  const float largest = std::max(-h.range.low, h.range.high);
  double total = 0;
  for (size_t i = 0; i < kBins; ++i) {
    const float middle = (h.edge(i) + h.edge(i + 1)) / 2;
    magnitudes[std::min(kBins - 1, static_cast<size_t>(std::fabs(middle) / largest * kBins))] += h.counts[i];
    total += h.counts[i];
  }
  size_t best = kBins;
  double least = std::numeric_limits<double>::infinity();
  constexpr size_t kStep = 16;
  for (size_t limit = kLevels; limit <= kBins && total > 0; limit += kStep)
    if (const double d = divergence(magnitudes, limit, total); d < least) {
      least = d;
      best = limit;
    }
  const float bound = largest * static_cast<float>(best) / static_cast<float>(kBins);
  return {std::max(h.range.low, -bound), std::min(h.range.high, bound)};
}

/// A model whose outputs are the values to watch.
struct Probe {
  std::vector<ValueId> watched;
  Model model;
};

Probe probe_of(const Module& original) {
  auto module = std::make_shared<Module>(original);
  Graph& g = module->graphs[static_cast<size_t>(module->methods[0].graph)];
  std::vector<ValueId> watched;
  for (const Node& n : g.nodes)
    for (const ValueId id : n.outputs)
      if (id != kNoValue && g.value(id).type.kind == ValueType::Kind::kTensor && is_unquantized_f32(g.value(id).type))
        watched.push_back(id);
  g.outputs = watched;
  return {std::move(watched), ModelAccess::make(std::move(module))};
}

}  // namespace

Result<std::map<int32_t, Range>> calibrate(const Module& module, const std::vector<std::vector<Datum>>& runs,
                                           RangeRule rule) {
  const Probe probe = probe_of(module);
  const Graph& graph = module.graphs[static_cast<size_t>(module.methods[0].graph)];
  std::map<int32_t, Histogram> seen;
  const auto each = [&](const std::vector<Datum>& inputs, auto&& visit) -> Status {
    SMELT_ASSIGN(Session session, Session::create(probe.model));
    SMELT_ASSIGN(const auto outputs, session.run(inputs));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].is_tensor()) visit(probe.watched[i], outputs[i].tensor);
    for (size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i)
      if (inputs[i].is_tensor() && inputs[i].tensor.dtype() == DType::kF32) visit(graph.inputs[i], inputs[i].tensor);
    return Ok();
  };
  for (const auto& inputs : runs)
    SMELT_TRY(each(inputs, [&](ValueId id, const Tensor& t) {
      Range& r = seen[id].range;
      for (int64_t i = 0; i < t.elements(); ++i) {
        const float x = t.data<float>()[i];
        if (!std::isfinite(x)) continue;
        r.low = std::min(r.low, x);
        r.high = std::max(r.high, x);
      }
    }));
  if (rule != RangeRule::kMinMax)
    for (const auto& inputs : runs)
      SMELT_TRY(each(inputs, [&](ValueId id, const Tensor& t) {
        Histogram& h = seen[id];
        for (int64_t i = 0; i < t.elements() && h.range.high > h.range.low; ++i)
          if (std::isfinite(t.data<float>()[i])) h.add(t.data<float>()[i]);
      }));
  std::map<int32_t, Range> ranges;
  for (const auto& [id, h] : seen) {
    const bool flat = !(h.range.high > h.range.low);
    ranges[id] = flat || rule == RangeRule::kMinMax ? h.range
                 : rule == RangeRule::kPercentile   ? percentile(h)
                                                    : entropy(h);
  }
  return ranges;
}

}  // namespace smelt::convert
