#include "compare/quantization.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "base/error.h"
#include "ops/core/op.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

using Reals = std::vector<float>;

/// Sums of squares of a signal and of an error, over draws.
struct Power {
  double signal = 0, error = 0;
  void add(const Discrepancy& d) {
    const auto n = static_cast<double>(d.count);
    signal += d.signal * d.signal * n;
    error += d.rms * d.rms * n;
  }
  double relative() const { return error == 0 ? 0 : std::sqrt(error / signal); }
  double sqnr() const { return error == 0 ? INFINITY : 10 * std::log10(signal / error); }
};

/// Calls a function for each value.
class Each final : public ValueTap {
 public:
  using Function = std::function<Status(ValueId, Tensor&, bool shared)>;
  explicit Each(Function f) : f_(std::move(f)) {}
  Status made(const Node& /*node*/, ValueId id, Datum& value, bool shared) override {
    return value.is_tensor() ? f_(id, value.tensor, shared) : Ok();
  }

 private:
  Function f_;
};

bool rounds(const Node& n) {
  return n.op == Op::kQuantize || n.op == Op::kDequantize || n.op == Op::kQuantizeLinear ||
         n.op == Op::kDequantizeLinear;
}

class Measurement {
 public:
  Measurement(Side& real, Side& rounded) : real_(real), rounded_(rounded) {}

  Result<QuantizationReport> run(const std::vector<Draw>& draws, const std::function<void(size_t, size_t)>& progress) {
    SMELT_ASSIGN(inputs_, pair_inputs(real_.graph(), rounded_.graph()));
    if (real_.graph().outputs.size() != rounded_.graph().outputs.size())
      return InvalidInput("one model has ", real_.graph().outputs.size(), " outputs, the other ",
                          rounded_.graph().outputs.size());
    size_t done = 0;
    for (const Draw& d : draws) SMELT_TRY(measure(d, draws.size(), done, progress));
    return report();
  }

 private:
  struct Sums {
    Power whole, own, kept;
    double saturated = 0, clipped = 0;
    int64_t values = 0, reals = 0;
  };

  Status measure(const Draw& draw, size_t draws, size_t& done, const std::function<void(size_t, size_t)>& progress) {
    SMELT_ASSIGN(const std::vector<Datum> b, convert_inputs(real_.graph(), draw.inputs, rounded_.graph(), inputs_));
    SMELT_ASSIGN(Recording real, Recording::create());
    Observations seen_a, seen_b;
    Observer observe_a(seen_a), observe_b(seen_b);
    Each record([&](ValueId id, Tensor& t, bool shared) -> Status {
      Datum d(t);
      SMELT_TRY(real.add(id, d));
      return observe_a.made({}, id, d, shared);
    });
    SMELT_TRY(real_.run(draw.inputs, record));
    if (pairs_.empty()) {
      SMELT_TRY(rounded_.run(b, observe_b));
      pairs_ = match(real_.graph(), seen_a, rounded_.graph(), seen_b, inputs_);
      find_layers(seen_b);
    }
    SMELT_ASSIGN(Recording rounded, Recording::create());
    SMELT_TRY(whole_run(b, real, rounded));
    SMELT_TRY(own_errors(b, real));
    SMELT_ASSIGN(Recording in_float, Recording::create());
    SMELT_TRY(layers_in_float(draw.inputs, rounded, in_float));
    for (auto& [id, sums] : layers_) {
      SMELT_TRY(keep_in_float(b, id, real, in_float, sums));
      progress(++done, layers_.size() * draws);
    }
    return Ok();
  }

  /// Layers: values of the float model that a node computes and the other model rounds. The last of the paired values
  /// is what later layers read.
  void find_layers(const Observations& seen) {
    const auto makers = producers(rounded_.graph());
    const auto first_makers = producers(real_.graph());
    std::map<ValueId, std::vector<ValueId>> images;
    for (const auto& [id, p] : pairs_) images[p.first].push_back(id);
    for (auto& [id, list] : images) {
      std::sort(list.begin(), list.end(), [&](ValueId p, ValueId q) { return seen.at(p).order < seen.at(q).order; });
      const bool any_rounds = std::ranges::any_of(list, [&](ValueId v) {
        const int k = makers[static_cast<size_t>(v)];
        return k >= 0 && rounds(rounded_.graph().nodes[static_cast<size_t>(k)]);
      });
      last_[id] = list.back();
      if (any_rounds && first_makers[static_cast<size_t>(id)] >= 0) {
        layers_[id] = {};
        order_[id] = seen.at(list.back()).order;
      }
    }
    for (const auto& [id, o] : seen) unpaired_ += pairs_.count(id) == 0 && makers[static_cast<size_t>(id)] >= 0;
  }

  Result<Reals> recorded(const Recording& r, ValueId id, ElementOrder layout) const {
    SMELT_ASSIGN(const Tensor t, r.read(id));
    return laid_out(reals(t), t.shape(), layout);
  }
  bool is_output(ValueId id) const {
    const auto& outputs = rounded_.graph().outputs;
    return std::ranges::find(outputs, id) != outputs.end();
  }

  /// The rounded model as it is: errors of all values and of the outputs, saturation and clipping.
  Status whole_run(const std::vector<Datum>& inputs, const Recording& real, Recording& rounded) {
    Each tap([&](ValueId id, Tensor& t, bool) -> Status {
      const auto pair = pairs_.find(id);
      if (pair == pairs_.end()) return Ok();
      SMELT_TRY(rounded.add(id, Datum(t)));
      SMELT_ASSIGN(const Reals want, recorded(real, pair->second.first, pair->second.layout));
      const Discrepancy d = discrepancy(want, reals(t));
      if (is_output(id)) outputs_.add(d);
      const auto layer = layers_.find(pair->second.first);
      if (layer == layers_.end()) return Ok();
      if (id == last_.at(pair->second.first)) layer->second.whole.add(d);
      if (is_per_tensor(t.quant())) count_limits(t, want, layer->second);
      return Ok();
    });
    return rounded_.run(inputs, tap);
  }
  static void count_limits(const Tensor& t, const Reals& want, Sums& sums) {
    const int64_t low = int_min(t.dtype()), high = int_max(t.dtype());
    const QuantParams q = per_tensor_params(t.quant());
    const double half = 0.5 * q.scale;
    const double least = (static_cast<double>(low) - q.zero_point) * q.scale - half;
    const double most = (static_cast<double>(high) - q.zero_point) * q.scale + half;
    int64_t at_end = 0, outside = 0;
    for (int64_t i = 0; i < t.elements(); ++i) {
      const int64_t v = get_int(t, i);
      at_end += v == low || v == high;
    }
    for (const float v : want) outside += v < least || v > most;
    sums.saturated += static_cast<double>(at_end);
    sums.clipped += static_cast<double>(outside);
    sums.values += t.elements();
    sums.reals += static_cast<int64_t>(want.size());
  }

  /// Each layer of the rounded model on the float model's operands.
  Status own_errors(const std::vector<Datum>& inputs, const Recording& real) {
    Each tap([&](ValueId id, Tensor& t, bool shared) -> Status {
      const auto pair = pairs_.find(id);
      if (pair == pairs_.end() || id != last_.at(pair->second.first)) return Ok();
      SMELT_ASSIGN(const Reals want, recorded(real, pair->second.first, pair->second.layout));
      const auto layer = layers_.find(pair->second.first);
      if (layer != layers_.end()) layer->second.own.add(discrepancy(want, reals(t)));
      if (!shared && want.size() == static_cast<size_t>(t.elements())) write_reals(want, t);
      return Ok();
    });
    return rounded_.run(inputs, tap);
  }

  /// Each layer of the float model on the rounded model's operands.
  Status layers_in_float(const std::vector<Datum>& inputs, const Recording& rounded, Recording& out) {
    Each tap([&](ValueId id, Tensor& t, bool shared) -> Status {
      const auto last = last_.find(id);
      if (last == last_.end()) return Ok();
      SMELT_TRY(out.add(id, Datum(t)));
      const ElementOrder back = inverse(pairs_.at(last->second).layout);
      SMELT_ASSIGN(const Reals have, recorded(rounded, last->second, back));
      if (!shared && have.size() == static_cast<size_t>(t.elements())) write_reals(have, t);
      return Ok();
    });
    return real_.run(inputs, tap);
  }
  static ElementOrder inverse(ElementOrder l) {
    return l == ElementOrder::kSame           ? l
           : l == ElementOrder::kChannelsLast ? ElementOrder::kChannelsFirst
                                              : ElementOrder::kChannelsLast;
  }

  /// The rounded model with one layer's result from the float layer.
  Status keep_in_float(const std::vector<Datum>& inputs, ValueId layer, const Recording& real,
                       const Recording& in_float, Sums& sums) {
    Each tap([&](ValueId id, Tensor& t, bool shared) -> Status {
      if (id == last_.at(layer) && !shared && in_float.has(layer)) {
        SMELT_ASSIGN(const Reals value, recorded(in_float, layer, pairs_.at(id).layout));
        if (value.size() == static_cast<size_t>(t.elements())) write_reals(value, t);
      }
      if (!is_output(id) || pairs_.count(id) == 0) return Ok();
      SMELT_ASSIGN(const Reals want, recorded(real, pairs_.at(id).first, pairs_.at(id).layout));
      sums.kept.add(discrepancy(want, reals(t)));
      return Ok();
    });
    return rounded_.run(inputs, tap);
  }

  Result<QuantizationReport> report() {
    QuantizationReport out;
    if (outputs_.signal == 0 && outputs_.error == 0)
      return InvalidInput("no output of one model goes with one of the other");
    out.error = outputs_.relative();
    out.sqnr = outputs_.sqnr();
    out.unpaired = unpaired_;
    std::vector<ValueId> ids;
    for (const auto& [id, s] : layers_) ids.push_back(id);
    std::sort(ids.begin(), ids.end(), [&](ValueId p, ValueId q) { return order_.at(p) < order_.at(q); });
    for (const ValueId id : ids) {
      const Sums& s = layers_.at(id);
      QuantizedLayer l;
      l.real = id;
      l.quantized = last_.at(id);
      l.sqnr = s.whole.sqnr();
      l.own_sqnr = s.own.sqnr();
      if (s.values > 0) l.saturated = s.saturated / static_cast<double>(s.values);
      if (s.reals > 0) l.clipped = s.clipped / static_cast<double>(s.reals);
      l.remaining = s.kept.relative();
      out.layers.push_back(l);
    }
    out.ranking.resize(out.layers.size());
    std::iota(out.ranking.begin(), out.ranking.end(), 0);
    std::stable_sort(out.ranking.begin(), out.ranking.end(), [&](int p, int q) {
      const auto &x = out.layers[static_cast<size_t>(p)], &y = out.layers[static_cast<size_t>(q)];
      return x.remaining < y.remaining;
    });
    return out;
  }

  Side &real_, &rounded_;
  std::vector<int> inputs_;
  Pairs pairs_;
  std::map<ValueId, ValueId> last_;  ///< by value of the float model: the last value of the other that goes with it
  std::map<ValueId, Sums> layers_;   ///< by value of the float model
  std::map<ValueId, int> order_;
  Power outputs_;
  size_t unpaired_ = 0;
};

}  // namespace

Result<QuantizationReport> compare_quantized(Side& real, const Side& quantized, const std::vector<Draw>& draws,
                                             const SideOptions& options,
                                             const std::function<void(size_t, size_t)>& progress) {
  if (!real.takes_changes() || !quantized.takes_changes())
    return InvalidInput("layers are swapped in the host's memory alone: not on a device or in a peer");
  SMELT_ASSIGN(auto module, simulated(quantized.module(), quantized.graph_index()));
  SMELT_ASSIGN(const auto side, open_module(quantized.label(), std::move(module), quantized.graph_index(), options));
  return Measurement(real, *side).run(draws, progress);
}

}  // namespace smelt
