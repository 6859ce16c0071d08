#include "compare/blame.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/cat.h"
#include "compare/discrepancy.h"
#include "ops/core/op.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

template <class T>
std::string text_of(const std::vector<T>& v) {
  constexpr size_t kShown = 16;
  std::string text = "[";
  for (size_t i = 0; i < std::min(v.size(), kShown); ++i) text += Cat(i > 0 ? ", " : "", v[i]);
  return text + (v.size() > kShown ? Cat(", ... ", v.size(), " values]") : "]");
}
std::string text_of(bool v) { return v ? "true" : "false"; }
std::string text_of(int64_t v) { return Cat(v); }
std::string text_of(double v) { return Cat(v); }
std::string text_of(const std::string& v) { return v; }

/// Names and values of a node's attributes.
std::vector<std::pair<std::string, std::string>> fields(const Node& n) {
  std::vector<std::pair<std::string, std::string>> out;
  for_each_field(n.attrs.get(), [&out](const char* name, const auto& v) { out.emplace_back(name, text_of(v)); });
  return out;
}

/// The nodes between `at` and values of which `stop` is true, in the graph's order.
std::vector<int> region(const Graph& g, ValueId at, const std::function<bool(ValueId)>& stop) {
  const std::vector<int> makers = producers(g);
  std::set<int> nodes;
  std::vector<ValueId> open{at};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    const int k = makers[static_cast<size_t>(id)];
    if (k < 0 || !nodes.insert(k).second) continue;
    for (const ValueId in : g.nodes[static_cast<size_t>(k)].inputs)
      if (in != kNoValue && !g.value(in).constant && !stop(in)) open.push_back(in);
  }
  return {nodes.begin(), nodes.end()};
}

bool near(double a, double b, double scale) { return std::abs(a - b) <= 1e-6 * std::max(scale, 1e-30); }

/// "input 1 (w): relative difference 0.01"; empty: the same.
std::string constant_difference(const Graph& ga, const Node& a, const Graph& gb, const Node& b, size_t i) {
  if (i >= a.inputs.size() || i >= b.inputs.size() || a.inputs[i] == kNoValue || b.inputs[i] == kNoValue) return "";
  const auto &x = ga.value(a.inputs[i]).constant, &y = gb.value(b.inputs[i]).constant;
  if (!x || !y || x->elements() != y->elements()) return "";
  const auto is_real = [](const Tensor& t) { return is_float(t.dtype()) || t.quant(); };
  if (is_real(*x) != is_real(*y)) return "";  // a bias of integers, whose step the operands give
  const std::vector<float> p = reals(*x), q = reals(*y);
  const Discrepancy d = discrepancy(p, q);
  if (d.rms <= 1e-7 * d.signal && d.mismatched == 0) return "";
  if (!(x->shape() == y->shape())) {
    double mean_p = 0, mean_q = 0, other = 0;
    for (size_t k = 0; k < p.size(); ++k) {
      mean_p += p[k];
      mean_q += q[k];
      other += static_cast<double>(q[k]) * q[k];
    }
    const auto n = static_cast<double>(p.size());
    if (near(mean_p / n, mean_q / n, d.signal) && near(d.signal, std::sqrt(other / n), d.signal)) return "";
  }
  const std::string& name = ga.value(a.inputs[i]).name;
  return Cat("input ", i, name.empty() ? "" : Cat(" '", name, "'"), ": ",
             p.size() == 1 ? Cat(p[0], ", ", q[0]) : Cat("relative difference ", static_cast<float>(d.relative())));
}

std::string quantization_text(const QuantPtr& q) {
  if (!q) return "none";
  if (q->scales.size() != 1) return Cat(q->scales.size(), " scales along axis ", q->axis);
  return Cat("scale ", q->scales[0], ", zero point ", q->zero_point());
}

/// What tells two nodes of one operator apart.
std::vector<std::string> differences(const Graph& ga, const Node& a, const Graph& gb, const Node& b) {
  std::vector<std::string> out;
  const auto x = fields(a), y = fields(b);
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (x[i] != y[i]) out.push_back(Cat(x[i].first, ": ", x[i].second, ", ", y[i].second));
  for (size_t i = 0; i < std::max(a.inputs.size(), b.inputs.size()); ++i) {
    const bool in_a = i < a.inputs.size() && a.inputs[i] != kNoValue;
    const bool in_b = i < b.inputs.size() && b.inputs[i] != kNoValue;
    if (in_a != in_b) out.push_back(Cat("input ", i, ": ", in_a ? "absent in the second" : "absent in the first"));
    if (std::string text = constant_difference(ga, a, gb, b, i); !text.empty()) out.push_back(std::move(text));
  }
  if (!a.outputs.empty() && !b.outputs.empty() && a.outputs[0] != kNoValue && b.outputs[0] != kNoValue) {
    const QuantPtr &p = ga.value(a.outputs[0]).type.quant, &q = gb.value(b.outputs[0]).type.quant;
    if (!same_quant_params(p, q))
      out.push_back(Cat("quantization of the result: ", quantization_text(p), "; ", quantization_text(q)));
  }
  return out;
}

bool moves_only(const Node& n) { return (op_info(n.op).flags & (kDataMovement | kView)) != 0; }

}  // namespace

std::string title(const Graph& graph, const Node& node) {
  std::string name = node.name;
  for (size_t i = 0; name.empty() && i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoValue) name = graph.value(node.outputs[i]).name;
  const std::string op = node.origin.empty() ? to_string(node.op) : node.origin;
  return name.empty() ? op : Cat(name, " (", op, ")");
}

Blame blame(const Graph& first, const Graph& second, const Pairs& pairs, ValueId at) {
  Blame out;
  std::set<ValueId> paired;
  for (const auto& [id, p] : pairs) paired.insert(p.first);
  out.second = region(second, at, [&](ValueId id) { return pairs.count(id) > 0; });
  out.first = region(first, pairs.at(at).first, [&](ValueId id) { return paired.count(id) > 0; });
  // Nodes of one operator go together from the result backwards; the rest is missing on the other side.
  std::vector<int> lacking(out.first.rbegin(), out.first.rend()), extra;
  int changed = -1;
  for (auto k = out.second.rbegin(); k != out.second.rend(); ++k) {
    const Node& b = second.nodes[static_cast<size_t>(*k)];
    const auto it =
        std::ranges::find_if(lacking, [&](int i) { return first.nodes[static_cast<size_t>(i)].op == b.op; });
    if (it == lacking.end()) {
      extra.push_back(*k);
      continue;
    }
    const auto texts = differences(first, first.nodes[static_cast<size_t>(*it)], second, b);
    if (!texts.empty() && changed < 0) changed = *k;
    for (const std::string& t : texts)
      out.differences.push_back(out.second.size() > 1 ? Cat(title(second, b), ": ", t) : t);
    lacking.erase(it);
  }
  const auto computes = [](const Graph& g, const std::vector<int>& nodes) {
    const auto it = std::ranges::find_if(nodes, [&](int i) { return !moves_only(g.nodes[static_cast<size_t>(i)]); });
    return it == nodes.end() ? -1 : *it;
  };
  for (const int i : lacking)
    out.differences.push_back(Cat("only the first has ", title(first, first.nodes[static_cast<size_t>(i)])));
  for (const int i : extra)
    out.differences.push_back(Cat("only the second has ", title(second, second.nodes[static_cast<size_t>(i)])));
  const int missing = computes(first, lacking), added = computes(second, extra);
  if (missing >= 0 && added < 0) {
    out.node = missing;
    out.in_first = true;
  } else if (added >= 0 && missing < 0) {
    out.node = added;
  } else {
    out.node = changed >= 0 ? changed : producers(second)[static_cast<size_t>(at)];
  }
  return out;
}

}  // namespace smelt
