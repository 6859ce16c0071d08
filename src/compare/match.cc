#include "compare/match.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "compare/paired_values.h"
#include "ops/core/op.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

constexpr int64_t kSamples = 61;  // a prime: positions that no layout repeats

int64_t sample_position(int64_t i, int64_t elements) { return i * (elements - 1) / (kSamples - 1); }

std::vector<int64_t> without_ones(const Shape& s) {
  std::vector<int64_t> out;
  for (const int64_t d : s)
    if (d != 1) out.push_back(d);
  return out;
}

Shape permuted(const Shape& s, ElementOrder layout) {
  if (layout == ElementOrder::kSame || s.rank() < 3) return s;
  Shape out = Shape::of_rank(s.rank(), 0);
  const int last = s.rank() - 1;
  out[0] = s[0];
  for (int i = 1; i <= last; ++i)
    out[i] = layout == ElementOrder::kChannelsLast ? s[i == last ? 1 : i + 1] : s[i == 1 ? last : i - 1];
  return out;
}

/// Position in the second side's order of the element at `at` of the first side's.
int64_t moved(int64_t at, const Shape& s, ElementOrder layout) {
  if (layout == ElementOrder::kSame || s.rank() < 3) return at;
  int64_t batch = s[0], channels = 0, spatial = 1;
  channels = layout == ElementOrder::kChannelsLast ? s[1] : s[s.rank() - 1];
  for (int i = 1; i < s.rank(); ++i) spatial *= s[i];
  if (batch == 0 || channels == 0) return at;
  spatial /= channels;
  const int64_t image = channels * spatial, n = at / image, r = at % image;
  if (layout == ElementOrder::kChannelsLast) return n * image + r % spatial * channels + r / spatial;
  return n * image + r % channels * spatial + r / channels;
}

/// The step of a quantized value, 0 of others: numbers closer than that are the same.
double step_of(const Tensor& t) { return is_per_tensor(t.quant()) ? t.quant()->scale() : 0; }

double slack(const Observed& a, const Observed& b, double relative) {
  return relative * std::max(a.rms, b.rms) + 0.6 * std::max(step_of(a.type), step_of(b.type));
}

bool near_statistics(const Observed& a, const Observed& b, double relative) {
  const double most = slack(a, b, relative);
  return std::abs(a.rms - b.rms) <= most && std::abs(a.mean - b.mean) <= most &&
         std::abs(a.mean_abs - b.mean_abs) <= most && std::abs(a.low - b.low) <= 4 * most &&
         std::abs(a.high - b.high) <= 4 * most;
}

/// Mean difference of samples that both sides have at one place; nullopt: there are too few.
std::optional<double> sample_distance(const Observed& a, const Observed& b, ElementOrder layout) {
  if (a.samples.empty() || b.samples.empty()) return std::nullopt;
  const int64_t n = b.type.elements();
  double sum = 0;
  int found = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(a.samples.size()); ++i) {
    const int64_t to = moved(sample_position(i, n), a.type.shape(), layout);
    for (int64_t k = 0; k < static_cast<int64_t>(b.samples.size()); ++k) {
      if (sample_position(k, n) != to) continue;
      sum += std::abs(static_cast<double>(a.samples[static_cast<size_t>(i)]) - b.samples[static_cast<size_t>(k)]);
      ++found;
      break;
    }
  }
  if (found < 3) return std::nullopt;
  return sum / found;
}

/// Values in the order in which their runs made them.
std::vector<ValueId> in_order(const Observations& of) {
  std::vector<ValueId> ids;
  for (const auto& [id, o] : of) ids.push_back(id);
  std::sort(ids.begin(), ids.end(), [&](ValueId p, ValueId q) { return of.at(p).order < of.at(q).order; });
  return ids;
}

class Matcher {
 public:
  Matcher(const Graph& first, const Observations& a, const Graph& second, const Observations& b)
      : first_(first),
        second_(second),
        a_(a),
        b_(b),
        maker_a_(producers(first)),
        maker_b_(producers(second)),
        users_(users(first)),
        second_users_(users(second)) {}

  Pairs run(const std::vector<int>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] >= 0) pair(first_.inputs[static_cast<size_t>(inputs[i])], second_.inputs[i], Evidence::kPosition);
    if (first_.outputs.size() == second_.outputs.size())
      for (size_t i = 0; i < first_.outputs.size(); ++i)
        pair(first_.outputs[i], second_.outputs[i], Evidence::kPosition);
    by_name();
    by_numbers();
    follow();
    in_sequence();
    follow();
    return std::move(pairs_);
  }

 private:
  static std::vector<std::vector<int>> users(const Graph& g) {
    std::vector<std::vector<int>> out(g.values.size());
    for (size_t k = 0; k < g.nodes.size(); ++k)
      for (const ValueId id : g.nodes[k].inputs)
        if (id != kNoValue) out[static_cast<size_t>(id)].push_back(static_cast<int>(k));
    return out;
  }
  bool paired(ValueId b) const { return pairs_.count(b) > 0; }
  const Node* maker_a(ValueId id) const { return node(first_, maker_a_, id); }
  const Node* maker_b(ValueId id) const { return node(second_, maker_b_, id); }
  static const Node* node(const Graph& g, const std::vector<int>& makers, ValueId id) {
    const int k = makers[static_cast<size_t>(id)];
    return k < 0 ? nullptr : &g.nodes[static_cast<size_t>(k)];
  }

  /// Pairs two values if they can hold the same elements.
  bool pair(ValueId a, ValueId b, Evidence evidence) {
    if (a == kNoValue || b == kNoValue || paired(b)) return false;
    const auto x = a_.find(a);
    const auto y = b_.find(b);
    if (x == a_.end() || y == b_.end()) return false;
    const auto layout = layout_between(x->second.type.shape(), y->second.type.shape(), &x->second, &y->second);
    if (!layout) return false;
    pairs_[b] = {a, *layout, evidence};
    taken_.insert(a);
    return true;
  }

  void by_name() {
    std::map<std::string, std::vector<ValueId>> names;
    for (const auto& [id, o] : a_)
      if (!first_.value(id).name.empty()) names[first_.value(id).name].push_back(id);
    for (const ValueId b : in_order(b_)) {
      const auto it = names.find(second_.value(b).name);
      // Of several values of one name, passes made forms: the last has what the file's value has.
      if (it != names.end())
        pair(it->second.size() == 1 ? it->second[0] : best_form(it->second, b), b, Evidence::kName);
    }
  }
  /// Of values of one name, which differ in layout, that of b's shape.
  ValueId best_form(const std::vector<ValueId>& forms, ValueId b) const {
    for (const ValueId a : forms)
      if (a_.at(a).type.shape() == b_.at(b).type.shape()) return a;
    return forms.back();
  }

  /// Values that only these two sides' runs can have made: equal statistics and samples.
  void by_numbers() {
    const std::vector<ValueId> candidates = in_order(a_);
    int reached = -1;
    for (const ValueId b : in_order(b_)) {
      if (const auto it = pairs_.find(b); it != pairs_.end()) {
        if (it->second.evidence != Evidence::kPosition) reached = a_.at(it->second.first).order;
        continue;
      }
      const Observed& y = b_.at(b);
      if (!y.informative) continue;
      ValueId best = kNoValue;
      double nearest = 0;
      for (const ValueId a : candidates) {
        const Observed& x = a_.at(a);
        if (!x.informative || x.type.elements() != y.type.elements() || !near_statistics(x, y, 1e-3)) continue;
        const auto layout = layout_between(x.type.shape(), y.type.shape(), &x, &y);
        if (!layout) continue;
        const auto apart = sample_distance(x, y, *layout);
        if (apart && *apart > slack(x, y, 1e-3)) continue;
        // Of equal values, copies of one, that next in the order of the nodes.
        const double far = std::abs(x.order - reached - 1) + (taken_.count(a) ? 0.5 : 0);
        if (best == kNoValue || far < nearest) {
          best = a;
          nearest = far;
        }
      }
      if (best != kNoValue && pair(best, b, Evidence::kNumbers)) reached = a_.at(best).order;
    }
  }

  void follow() {
    for (bool more = true; more;) more = forward() || backward() || through_quantization();
  }

  static bool alike(const Node& a, const Node& b) { return a.op == b.op && a.outputs.size() == b.outputs.size(); }
  /// True if operand i of both nodes, where it is computed, is the same value.
  bool same_operands(const Node& a, const Node& b) const {
    bool any = false;
    for (size_t i = 0; i < std::min(a.inputs.size(), b.inputs.size()); ++i) {
      if (b.inputs[i] == kNoValue || b_.count(b.inputs[i]) == 0) continue;
      const auto it = pairs_.find(b.inputs[i]);
      if (it == pairs_.end() || it->second.first != a.inputs[i]) return false;
      any = true;
    }
    return any;
  }
  static QuantPtr quant_of(const Observations& seen, ValueId id) {
    const auto at = seen.find(id);
    return at == seen.end() ? nullptr : at->second.type.quant();
  }
  /// What a real value becomes that a QuantizeLinear rounds to these parameters, behind an activation or nodes that
  /// move it; kNoValue: it is not rounded so.
  static ValueId rounded(const Graph& g, const std::vector<std::vector<int>>& users, const Observations& seen,
                         ValueId id, const QuantPtr& quant) {
    constexpr int kMost = 4;
    for (int step = 0; step < kMost; ++step) {
      const std::vector<int>& readers = users[static_cast<size_t>(id)];
      if (readers.size() != 1) return kNoValue;
      const Node& reader = g.nodes[static_cast<size_t>(readers[0])];
      if (reader.outputs.size() != 1 || reader.inputs[0] != id) return kNoValue;
      id = reader.outputs[0];
      if (reader.op == Op::kQuantizeLinear) return same_quant_params(quant_of(seen, id), quant) ? id : kNoValue;
      const bool moves = op_info(reader.op).flags & (kDataMovement | kView);
      if (!moves && reader.op != Op::kUnary && reader.op != Op::kClamp) return kNoValue;
    }
    return kNoValue;
  }
  /// Pairs results of nodes of one operator. One that is quantized goes with what the other one's is rounded to.
  bool pair_results(ValueId x, ValueId y) {
    const QuantPtr p = quant_of(a_, x), q = quant_of(b_, y);
    if (p && !q)
      if (const ValueId made = rounded(second_, second_users_, b_, y, p); made != kNoValue) y = made;
    if (q && !p)
      if (const ValueId made = rounded(first_, users_, a_, x, q); made != kNoValue) x = made;
    return taken_.count(x) == 0 && !paired(y) && pair(x, y, Evidence::kStructure);
  }
  bool pair_outputs(const Node& a, const Node& b) {
    bool any = false;
    for (size_t i = 0; i < b.outputs.size(); ++i)
      if (b.outputs[i] != kNoValue && a.outputs[i] != kNoValue && taken_.count(a.outputs[i]) == 0)
        any = pair_results(a.outputs[i], b.outputs[i]) || any;
    return any;
  }
  /// Nodes of one operator on the same operands.
  bool forward() {
    bool any = false;
    for (const Node& b : second_.nodes) {
      if (b.outputs.empty() ||
          std::ranges::all_of(b.outputs, [&](ValueId id) { return id == kNoValue || paired(id) || b_.count(id) == 0; }))
        continue;
      const auto operand = std::ranges::find_if(b.inputs, [&](ValueId id) { return id != kNoValue && paired(id); });
      if (operand == b.inputs.end()) continue;
      const Node* found = nullptr;
      int several = 0;
      for (const int k : users_[static_cast<size_t>(pairs_.at(*operand).first)]) {
        const Node& a = first_.nodes[static_cast<size_t>(k)];
        const bool free =
            std::ranges::any_of(a.outputs, [&](ValueId id) { return id != kNoValue && taken_.count(id) == 0; });
        if (!free || !alike(a, b) || !same_operands(a, b)) continue;
        found = found ? found : &a;
        ++several;
      }
      if (found && several == 1) any = pair_outputs(*found, b) || any;
    }
    return any;
  }
  /// Operands of nodes of one operator that give the same result.
  bool backward() {
    bool any = false;
    for (auto it = second_.nodes.rbegin(); it != second_.nodes.rend(); ++it) {
      const Node& b = *it;
      if (b.outputs.empty() || b.outputs[0] == kNoValue || !paired(b.outputs[0])) continue;
      const Node* a = maker_a(pairs_.at(b.outputs[0]).first);
      if (!a || !alike(*a, b) || a->inputs.size() != b.inputs.size()) continue;
      for (size_t i = 0; i < b.inputs.size(); ++i) {
        const ValueId x = a->inputs[i], y = b.inputs[i];
        if (x == kNoValue || y == kNoValue || paired(y) || taken_.count(x) > 0) continue;
        const Node *p = maker_a(x), *q = maker_b(y);
        if (p && q && alike(*p, *q)) any = pair_results(x, y) || any;
      }
    }
    return any;
  }

  static bool quantizes(const Node& n) {
    return n.op == Op::kQuantize || n.op == Op::kDequantize || n.op == Op::kQuantizeLinear ||
           n.op == Op::kDequantizeLinear;
  }
  /// A value that is quantized or dequantized on the second side alone goes with one value of the first.
  bool through_quantization() {
    bool any = false;
    for (const Node& b : second_.nodes) {
      if (!quantizes(b) || b.inputs[0] == kNoValue || b.outputs[0] == kNoValue) continue;
      const ValueId in = b.inputs[0], out = b.outputs[0];
      if (paired(in) == paired(out)) continue;
      any = pair(pairs_.at(paired(in) ? in : out).first, paired(in) ? out : in, Evidence::kStructure) || any;
    }
    return any;
  }

  /// What is left, by the longest common sequence of operator and shape.
  void in_sequence() {
    std::vector<ValueId> a, b;
    for (const ValueId id : in_order(a_))
      if (taken_.count(id) == 0 && maker_a(id)) a.push_back(id);
    for (const ValueId id : in_order(b_))
      if (!paired(id) && maker_b(id)) b.push_back(id);
    constexpr size_t kMost = 4'000'000;
    if (a.empty() || b.empty() || a.size() * b.size() > kMost) return;
    const auto same = [&](size_t i, size_t j) {
      return alike(*maker_a(a[i]), *maker_b(b[j])) &&
             layout_between(a_.at(a[i]).type.shape(), b_.at(b[j]).type.shape()).has_value();
    };
    const size_t w = b.size() + 1;
    std::vector<uint16_t> best((a.size() + 1) * w, 0);
    for (size_t i = a.size(); i-- > 0;)
      for (size_t j = b.size(); j-- > 0;) {
        uint16_t most = std::max(best[(i + 1) * w + j], best[i * w + j + 1]);
        if (same(i, j)) most = std::max<uint16_t>(most, static_cast<uint16_t>(best[(i + 1) * w + j + 1] + 1));
        best[i * w + j] = most;
      }
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      if (same(i, j) && best[i * w + j] == best[(i + 1) * w + j + 1] + 1)
        pair_results(a[i++], b[j++]);
      else if (best[(i + 1) * w + j] >= best[i * w + j + 1])
        ++i;
      else
        ++j;
    }
  }

  const Graph &first_, &second_;
  const Observations &a_, &b_;
  std::vector<int> maker_a_, maker_b_;
  std::vector<std::vector<int>> users_, second_users_;  ///< nodes that read a value, of the first and second graph
  Pairs pairs_;
  std::set<ValueId> taken_;  ///< values of the first side that have gone with one of the second
};

}  // namespace

const char* to_string(Evidence evidence) {
  static const char* const names[] = {"position", "name", "numbers", "structure"};
  return names[static_cast<int>(evidence)];
}

Status Observer::made(const Node& /*node*/, ValueId id, Datum& value, bool /*shared*/) {
  if (!value.is_tensor()) return Ok();
  const Tensor& t = value.tensor;
  Observed o;
  o.type = Tensor::view(t.dtype(), t.shape(), nullptr, nullptr);
  o.type.set_quant(t.quant());
  o.order = static_cast<int>(to_.size());
  o.informative = true;
  double squares = 0;
  int64_t count = 0;
  const int64_t samples = t.elements() >= kSamples ? kSamples : 0;
  visit_reals(t, [&](int64_t at, std::span<const float> values) {
    if (count == 0 && !values.empty()) o.low = o.high = values[0];
    for (const float x : values) {
      o.informative = o.informative && std::isfinite(x);
      o.mean += x;
      o.mean_abs += std::abs(x);
      squares += static_cast<double>(x) * x;
      o.low = std::min<double>(o.low, x);
      o.high = std::max<double>(o.high, x);
    }
    count += static_cast<int64_t>(values.size());
    for (auto i = static_cast<int64_t>(o.samples.size()); i < samples; ++i) {
      const int64_t from = sample_position(i, t.elements()) - at;
      if (from >= static_cast<int64_t>(values.size())) break;
      o.samples.push_back(values[static_cast<size_t>(from)]);
    }
  });
  if (count == 0) return Ok();
  const auto n = static_cast<double>(count);
  o.mean /= n;
  o.mean_abs /= n;
  o.rms = std::sqrt(squares / n);
  o.informative = o.informative && count >= 4 && o.high > o.low && o.rms > 0;
  to_.insert_or_assign(id, std::move(o));
  return Ok();
}

Pairs match(const Graph& first, const Observations& a, const Graph& second, const Observations& b,
            const std::vector<int>& inputs) {
  return Matcher(first, a, second, b).run(inputs);
}

std::optional<ElementOrder> layout_between(const Shape& first, const Shape& second, const Observed* a,
                                           const Observed* b) {
  const bool same = without_ones(first) == without_ones(second);
  std::optional<ElementOrder> best = same ? std::optional(ElementOrder::kSame) : std::nullopt;
  if (first == second && !(a && b)) return best;
  double nearest = -1;
  if (best && a && b) nearest = sample_distance(*a, *b, ElementOrder::kSame).value_or(-1);
  for (const ElementOrder l : {ElementOrder::kChannelsLast, ElementOrder::kChannelsFirst}) {
    if (first.rank() < 3 || first.rank() != second.rank() || !(permuted(first, l) == second)) continue;
    if (!best) {
      best = l;
      if (a && b) nearest = sample_distance(*a, *b, l).value_or(-1);
      continue;
    }
    if (!a || !b) continue;
    const auto apart = sample_distance(*a, *b, l);
    // Both fit the shapes: the other order must be clearly nearer.
    if (apart && nearest > 0 && *apart < 0.1 * nearest) {
      best = l;
      nearest = *apart;
    }
  }
  return best;
}

std::vector<float> laid_out(std::vector<float> values, const Shape& first, ElementOrder layout) {
  if (layout == ElementOrder::kSame || first.rank() < 3) return values;
  std::vector<float> out(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    out[static_cast<size_t>(moved(static_cast<int64_t>(i), first, layout))] = values[i];
  return out;
}

std::vector<int> producers(const Graph& graph) {
  std::vector<int> out(graph.values.size(), -1);
  for (size_t k = 0; k < graph.nodes.size(); ++k)
    for (const ValueId id : graph.nodes[k].outputs)
      if (id != kNoValue) out[static_cast<size_t>(id)] = static_cast<int>(k);
  return out;
}

}  // namespace smelt
