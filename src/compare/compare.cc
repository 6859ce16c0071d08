#include "compare/compare.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "base/error.h"
#include "compare/paired_values.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// Notes all values in a recording.
class Recorder final : public ValueTap {
 public:
  explicit Recorder(Recording& to) : to_(to) {}
  Status made(const Node& /*node*/, ValueId id, Datum& value, bool /*shared*/) override { return to_.add(id, value); }

 private:
  Recording& to_;
};

/// Passes values on to two others.
class Both final : public ValueTap {
 public:
  Both(ValueTap& a, ValueTap& b) : a_(a), b_(b) {}
  Status made(const Node& node, ValueId id, Datum& value, bool shared) override {
    SMELT_TRY(a_.made(node, id, value, shared));
    return b_.made(node, id, value, shared);
  }

 private:
  ValueTap &a_, &b_;
};

enum class Pass : uint8_t { kWhole, kOwn };

/// Compares what a run makes with a recording. Pass::kOwn: gives the run what was recorded.
class Comparer final : public ValueTap {
 public:
  Comparer(Pass pass, const Recording& recording, const Pairs& pairs, const CompareOptions& options,
           const std::string& draw, std::map<ValueId, ValueComparison>& to)
      : pass_(pass), recording_(recording), pairs_(pairs), options_(options), draw_(draw), to_(to) {}

  Status made(const Node& /*node*/, ValueId id, Datum& value, bool shared) override {
    const auto pair = pairs_.find(id);
    if (pair == pairs_.end() || !value.is_tensor() || !recording_.has(pair->second.first)) return Ok();
    const PairedValues values(recording_, pair->second, value.tensor);
    DiscrepancySum sum;
    Ranges ranges;
    const auto add = [&](std::span<const float> want, std::span<const float> have) {
      sum.add(want, have);
      if (pass_ == Pass::kWhole && options_.histograms) ranges.add(want, have);
    };
    SMELT_TRY(pass_ == Pass::kOwn && !shared ? values.replace(add) : values.visit(add));
    const Discrepancy d = sum.result();
    ValueComparison& v = to_[id];
    if (!note(id, d, excess(d, values.first(), value.tensor, options_.tolerance), v)) return Ok();
    return pass_ == Pass::kWhole && options_.histograms && d.comparable ? count(values, ranges, v) : Ok();
  }

 private:
  struct Ranges {
    Extent first, second, error;
    void add(std::span<const float> want, std::span<const float> have) {
      first.add(want);
      second.add(have);
      if (want.size() == have.size()) error.add(differences(want, have));
    }
  };
  static std::vector<float> differences(std::span<const float> want, std::span<const float> have) {
    std::vector<float> out(want.size());
    for (size_t i = 0; i < want.size(); ++i) out[i] = have[i] - want[i];
    return out;
  }

  /// True if the discrepancy is the worst of the draws so far.
  bool note(ValueId id, const Discrepancy& d, double over, ValueComparison& v) {
    const bool first = v.second == kNoValue;
    v.second = id;
    v.pair = pairs_.at(id);
    if (pass_ == Pass::kOwn) {
      if (v.has_own && over <= v.own_excess) return false;
      v.has_own = true;
      v.own = d;
      v.own_excess = over;
      v.own_draw = draw_;
      return true;
    }
    if (!first && over <= v.total_excess) return false;
    v.total = d;
    v.total_excess = over;
    v.total_draw = draw_;
    return true;
  }

  static Status count(const PairedValues& values, const Ranges& ranges, ValueComparison& v) {
    v.first_histogram = ranges.first.bins();
    v.second_histogram = ranges.second.bins();
    v.error_histogram = ranges.error.bins();
    return values.visit([&](std::span<const float> want, std::span<const float> have) {
      v.first_histogram.count(want);
      v.second_histogram.count(have);
      v.error_histogram.count(differences(want, have));
    });
  }

  Pass pass_;
  const Recording& recording_;
  const Pairs& pairs_;
  const CompareOptions& options_;
  const std::string& draw_;
  std::map<ValueId, ValueComparison>& to_;
};

class Comparing {
 public:
  Comparing(Side& first, Side& second, const CompareOptions& options)
      : first_(first), second_(second), options_(options) {}

  Status run(const std::vector<Draw>& draws, Comparison& out) {
    inputs_ = options_.inputs;
    if (out.swapped || inputs_.empty()) {
      SMELT_ASSIGN(inputs_, pair_inputs(first_.graph(), second_.graph()));
    }
    for (const Draw& d : draws) SMELT_TRY(add(d, out));
    finish(out);
    return Ok();
  }

 private:
  Status add(const Draw& draw, Comparison& out) {
    // The draw's inputs are the first side's, as the caller counts sides.
    std::vector<Datum> a = draw.inputs, b;
    if (out.swapped) {
      std::vector<int> back(first_.graph().inputs.size(), -1);
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (inputs_[i] >= 0) back[static_cast<size_t>(inputs_[i])] = static_cast<int>(i);
      b = draw.inputs;
      SMELT_ASSIGN(a, convert_inputs(second_.graph(), b, first_.graph(), back));
    } else {
      SMELT_ASSIGN(b, convert_inputs(first_.graph(), a, second_.graph(), inputs_));
    }
    SMELT_ASSIGN(Recording recording, Recording::create());
    Recorder recorder(recording);
    Observations seen_a, seen_b;
    Observer observe_a(seen_a), observe_b(seen_b);
    Both both(recorder, observe_a);
    const bool has_pairs = !pairs_.empty();
    const Status ran = first_.run(a, has_pairs ? static_cast<ValueTap&>(recorder) : both);
    first_.rest();
    Comparer whole(Pass::kWhole, recording, pairs_, options_, draw.name, values_);
    const Status ran_too = second_.run(b, has_pairs && ran.ok() ? static_cast<ValueTap&>(whole) : observe_b);
    const Resting resting{second_};
    for (const Status* s : {&ran, &ran_too})
      if (!s->ok() && says_nothing_of_the_model(s->error())) return s->error();
    if (!ran.ok() || !ran_too.ok()) {
      note_failure(draw, ran, ran_too, out);
      return Ok();
    }
    out.draws.push_back(draw.name);
    if (!has_pairs) {
      pairs_ = match(first_.graph(), seen_a, second_.graph(), seen_b, inputs_);
      order_.clear();
      for (const auto& [id, o] : seen_b) order_[id] = o.order;
      count_unpaired(seen_a, seen_b, out);
      SMELT_TRY(second_.run(b, whole));
    }
    if (!second_.takes_changes()) return Ok();
    Comparer own(Pass::kOwn, recording, pairs_, options_, draw.name, values_);
    return second_.run(b, own);
  }

  /// The two sides never hold packed weights together.
  struct Resting {
    Side& side;
    ~Resting() { side.rest(); }
  };
  static bool says_nothing_of_the_model(const Error& e) {
    return e.code() == ErrorCode::kUnsupported || e.code() == ErrorCode::kIo || e.code() == ErrorCode::kDevice;
  }

  void note_failure(const Draw& draw, const Status& ran, const Status& ran_too, Comparison& out) {
    if (!ran.ok() && !ran_too.ok()) {
      out.remarks.push_back(Cat("inputs '", draw.name, "': both fail: ", ran.error().message()));
      return;
    }
    const bool is_first = !ran.ok();
    out.failures.push_back(Cat("inputs '", draw.name, "': only ", (is_first ? first_ : second_).label(),
                               " fails: ", (is_first ? ran : ran_too).error().message()));
  }

  void count_unpaired(const Observations& a, const Observations& b, Comparison& out) {
    std::map<ValueId, int> used;
    for (const auto& [id, p] : pairs_) ++used[p.first];
    const auto makers_a = producers(first_.graph()), makers_b = producers(second_.graph());
    for (const auto& [id, o] : a) out.unpaired_first += used.count(id) == 0 && makers_a[static_cast<size_t>(id)] >= 0;
    for (const auto& [id, o] : b)
      out.unpaired_second += pairs_.count(id) == 0 && makers_b[static_cast<size_t>(id)] >= 0;
    by_name_but_shape(a, b);
  }
  /// Values of one name that can't hold the same elements.
  void by_name_but_shape(const Observations& a, const Observations& b) {
    std::map<std::string, ValueId> names;
    for (const auto& [id, o] : a) names.emplace(first_.graph().value(id).name, id);
    for (const auto& [id, o] : b) {
      const std::string& name = second_.graph().value(id).name;
      const auto it = names.find(name);
      if (name.empty() || it == names.end() || pairs_.count(id) > 0) continue;
      const Shape &p = a.at(it->second).type.shape(), &q = o.type.shape();
      if (p.elements() == q.elements()) continue;
      pairs_[id] = {it->second, ElementOrder::kSame, Evidence::kName};
    }
  }

  void finish(Comparison& out) {
    for (auto& [id, v] : values_) out.values.push_back(std::move(v));
    std::sort(out.values.begin(), out.values.end(), [&](const ValueComparison& p, const ValueComparison& q) {
      return order_.at(p.second) < order_.at(q.second);
    });
    const auto makers = producers(second_.graph());
    const auto& results = second_.graph().outputs;
    for (size_t i = 0; i < out.values.size(); ++i) {
      const ValueComparison& v = out.values[i];
      // Rounding adds up from layer to layer: whole runs may be further apart than one layer.
      constexpr double kOfWholeRuns = 10;
      const bool given = options_.tolerance.relative.has_value();
      if (std::ranges::find(results, v.second) != results.end() && v.total_excess > (given ? 1 : kOfWholeRuns))
        out.outputs_differ = true;
      const double excess = v.has_own ? v.own_excess : v.total_excess;
      if (out.departs < 0 && makers[static_cast<size_t>(v.second)] >= 0 && excess > 1)
        out.departs = static_cast<int>(i);
    }
    if (out.departs >= 0)
      out.blame = blame(first_.graph(), second_.graph(), pairs_, out.values[static_cast<size_t>(out.departs)].second);
    if (!second_.takes_changes() && !out.values.empty())
      out.remarks.push_back("own errors are not known: neither side takes the other's values");
  }

  Side &first_, &second_;
  const CompareOptions& options_;
  std::vector<int> inputs_;
  Pairs pairs_;
  std::map<ValueId, int> order_;
  std::map<ValueId, ValueComparison> values_;
};

}  // namespace

void write_reals(const std::vector<float>& values, Tensor& to) {
  if (to.quant() && is_integer(to.dtype()) && to.quant()->kind != Quantization::Kind::kPerToken)
    quantize(values.data(), to, to.quant()->rounding != Rounding::kFloatHalfEven);
  else if (is_integer(to.dtype()) || to.dtype() == DType::kBool)
    for (size_t i = 0; i < values.size(); ++i) set_int(to, static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
  else
    from_floats(values.data(), to);
}

Result<std::vector<int>> pair_inputs(const Graph& from, const Graph& to) {
  if (from.inputs.size() != to.inputs.size())
    return InvalidInput("one model takes ", from.inputs.size(), " inputs, the other ", to.inputs.size());
  std::vector<int> out(to.inputs.size(), -1);
  std::vector<char> used(from.inputs.size(), 0);
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t k = 0; k < used.size() && out[i] < 0; ++k)
      if (!used[k] && from.value(from.inputs[k]).name == to.value(to.inputs[i]).name) {
        out[i] = static_cast<int>(k);
        used[k] = 1;
      }
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t k = 0; k < used.size() && out[i] < 0; ++k)
      if (!used[k]) {
        out[i] = static_cast<int>(k);
        used[k] = 1;
      }
  return out;
}

Result<std::vector<Datum>> convert_inputs(const Graph& from_graph, const std::vector<Datum>& inputs,
                                          const Graph& to_graph, const std::vector<int>& from) {
  std::vector<Datum> out;
  for (size_t i = 0; i < from.size(); ++i) {
    Datum d = inputs[static_cast<size_t>(from[i])];
    const ValueType& have = from_graph.value(from_graph.inputs[static_cast<size_t>(from[i])]).type;
    const ValueType& want = to_graph.value(to_graph.inputs[i]).type;
    if (!d.is_tensor() || want.kind != ValueType::Kind::kTensor) {
      out.push_back(std::move(d));
      continue;
    }
    Tensor t = d.tensor;
    if (!t.quant()) t.set_quant(have.quant);
    Shape shape = t.shape();
    auto layout = ElementOrder::kSame;
    if (want.ranked && want.shape.is_static() && !(want.shape == shape)) {
      const auto found = layout_between(shape, want.shape);
      if (!found)
        return InvalidInput("input '", to_graph.value(to_graph.inputs[i]).name, "' has shape ", want.shape.str(),
                            " in one model, ", shape.str(), " in the other");
      layout = *found;
      shape = want.shape;
    }
    const DType dtype = want.dtype == DType::kInvalid ? t.dtype() : want.dtype;
    // A side whose integers have no parameters of their own is given the same integers.
    const bool raw = is_integer(dtype) && dtype == t.dtype() && (!t.quant() || !want.quant);
    const bool same = raw || same_quant_params(t.quant(), want.quant);
    if (dtype == t.dtype() && layout == ElementOrder::kSame && same) {
      t.set_quant(want.quant);
      out.emplace_back(t.reshaped(shape));
      continue;
    }
    if (dtype == DType::kString || t.dtype() == DType::kString)
      return InvalidInput("input '", to_graph.value(to_graph.inputs[i]).name, "' is text in one model alone");
    SMELT_ASSIGN(Tensor made, Tensor::allocate(dtype, shape));
    made.set_quant(raw ? t.quant() : want.quant);
    write_reals(laid_out(reals(t), t.shape(), layout), made);
    made.set_quant(want.quant);
    out.emplace_back(std::move(made));
  }
  return out;
}

namespace {

/// Draws indices into a table. Those into a large one lie in a few windows, at its ends and between: a row that is read
/// brings as many pages of the mapped file with it as the system keeps together, up to 2 MB.
class IndexDraw {
 public:
  IndexDraw(int64_t extent, bool large, std::mt19937_64& random) : random_(random), rows_(extent) {
    if (!large || extent <= kWindows * kRows) return;
    rows_ = kRows;
    starts_ = {0, extent - kRows};
    while (starts_.size() < static_cast<size_t>(kWindows)) starts_.push_back(below(extent - kRows));
  }
  int64_t operator()() {
    const int64_t start = starts_[static_cast<size_t>(below(static_cast<int64_t>(starts_.size())))];
    return start + below(rows_);
  }

 private:
  static constexpr int64_t kWindows = 4, kRows = 64;
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  std::mt19937_64& random_;
  int64_t rows_;
  std::vector<int64_t> starts_{0};
};

}  // namespace

void spread_indices(const Graph& g, std::vector<Datum>& inputs, uint64_t seed) {
  constexpr size_t kLarge = size_t{8} << 20;
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor() || !is_integer(inputs[i].tensor.dtype()) || g.value(g.inputs[i]).type.quant) continue;
    int64_t extent = 0;
    bool large = false;
    for (const Node& n : g.nodes) {
      if ((n.op != Op::kGather && n.op != Op::kEmbeddingLookup) || n.inputs.size() < 2) continue;
      const bool lookup = n.op == Op::kEmbeddingLookup;
      const Value& table = g.value(n.inputs[lookup ? 1 : 0]);
      if (n.inputs[lookup ? 0 : 1] != g.inputs[i] || !table.constant || table.constant->rank() == 0) continue;
      const int64_t axis = lookup ? 0 : static_cast<const GatherAttrs&>(*n.attrs).axis;
      const int64_t rank = table.constant->rank();
      const int64_t size = table.constant->dim(static_cast<int>((axis + rank) % rank));
      extent = extent == 0 ? size : std::min(extent, size);
      large = large || table.constant->bytes() > kLarge;
    }
    if (extent <= 0) continue;
    Tensor t = inputs[i].tensor.clone();
    IndexDraw draw(extent, large, random);
    for (int64_t k = 0; k < t.elements(); ++k) set_int(t, k, draw());
    inputs[i] = Datum(std::move(t));
  }
}

Result<Comparison> compare(Side& first, Side& second, const std::vector<Draw>& draws, const CompareOptions& options) {
  Comparison out;
  out.swapped = !second.takes_changes() && first.takes_changes();
  first.show_parameters(second.has_quantized_values());
  second.show_parameters(first.has_quantized_values());
  Comparing comparing(out.swapped ? second : first, out.swapped ? first : second, options);
  SMELT_TRY(comparing.run(draws, out));
  return out;
}

}  // namespace smelt
