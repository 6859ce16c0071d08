#include "cli/diff_report.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"
#include "cli/output.h"
#include "cli/page.h"
#include "cli/page_text.h"

namespace smelt::cli {
namespace {

Json figure_json(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "Infinity" : "-Infinity";
  return v;
}

Json discrepancy_json(const Discrepancy& d, double excess, const std::string& draw) {
  return {{"relative", figure_json(d.relative())},
          {"rms", figure_json(d.rms)},
          {"max_abs", figure_json(d.max_abs)},
          {"mean", figure_json(d.mean)},
          {"signal", figure_json(d.signal)},
          {"sqnr_db", figure_json(d.sqnr())},
          {"mismatched", d.mismatched},
          {"comparable", d.comparable},
          {"excess", figure_json(excess)},
          {"inputs", draw}};
}

Json histogram_json(const Histogram& h) {
  return {{"low", figure_json(h.low)}, {"high", figure_json(h.high)}, {"counts", h.counts}};
}

std::string value_name(const Graph& g, ValueId id) {
  const std::string& name = g.value(id).name;
  return name.empty() ? Cat("%", id) : name;
}

Json value_comparison_json(const DiffResult& r, const ValueComparison& v, const std::vector<int>& first_makers,
                           const std::vector<int>& makers) {
  Json out = {{"name", value_name(r.second.graph(), v.second)},
              {"first_name", value_name(r.first.graph(), v.pair.first)},
              {"node", makers[static_cast<size_t>(v.second)]},
              {"first_node", first_makers[static_cast<size_t>(v.pair.first)]},
              {"paired_by", to_string(v.pair.evidence)},
              {"whole", discrepancy_json(v.total, v.total_excess, v.total_draw)}};
  if (v.has_own) out["own"] = discrepancy_json(v.own, v.own_excess, v.own_draw);
  if (!v.first_histogram.counts.empty())
    out["histograms"] = {{"first", histogram_json(v.first_histogram)},
                         {"second", histogram_json(v.second_histogram)},
                         {"difference", histogram_json(v.error_histogram)}};
  return out;
}

Json nodes_json(const Graph& g, const std::vector<int>& nodes) {
  Json out = Json::array();
  for (const int k : nodes) out.push_back({{"node", k}, {"title", title(g, g.nodes[static_cast<size_t>(k)])}});
  return out;
}

std::string titles(const Graph& g, const std::vector<int>& nodes) {
  std::string out;
  for (const int k : nodes) out += Cat(out.empty() ? "" : ", ", title(g, g.nodes[static_cast<size_t>(k)]));
  return out.empty() ? "-" : out;
}

std::string relative_text(const Discrepancy& d) {
  if (!d.comparable) return d.problem;
  if (d.mismatched > 0) return formatted("{} not finite alike", d.mismatched);
  return formatted("{:.3g}", d.relative());
}

/// A graph as the page draws it.
Json page_graph(const Graph& g) {
  Json nodes = Json::array();
  for (const Node& n : g.nodes) {
    Json in = Json::array();
    for (const ValueId id : n.inputs)
      if (id != kNoValue && !g.value(id).constant) in.push_back(id);
    nodes.push_back({{"title", title(g, n)},
                     {"op", n.origin.empty() ? to_string(n.op) : n.origin},
                     {"inputs", in},
                     {"outputs", n.outputs}});
  }
  return nodes;
}

void print_departure(const DiffResult& r) {
  const Comparison& c = r.comparison;
  const ValueComparison& v = c.values[static_cast<size_t>(c.departs)];
  const Blame& b = *c.blame;
  const Graph& g = b.in_first ? r.first.graph() : r.second.graph();
  say("departs first at {}{}\n", printable(title(g, g.nodes[static_cast<size_t>(b.node)])),
      b.in_first ? formatted(", which {} lacks", r.second.label()) : "");
  if (v.has_own)
    say("  own error {} (inputs: {}), whole error {}\n", relative_text(v.own), v.own_draw, relative_text(v.total));
  else
    say("  error {} (inputs: {})\n", relative_text(v.total), v.total_draw);
  say("  {}: {}\n  {}: {}\n", r.first.label(), printable(titles(r.first.graph(), b.first)), r.second.label(),
      printable(titles(r.second.graph(), b.second)));
  constexpr size_t kShown = 12;
  for (size_t i = 0; i < std::min(b.differences.size(), kShown); ++i) say("  {}\n", printable(b.differences[i]));
  if (b.differences.size() > kShown) say("  and {} more differences\n", b.differences.size() - kShown);
}

void add_row(Table& table, const DiffResult& r, const ValueComparison& v, const std::vector<int>& makers) {
  const int k = makers[static_cast<size_t>(v.second)];
  const Graph& g = r.second.graph();
  table.row({value_name(g, v.second), k < 0 ? "" : g.nodes[static_cast<size_t>(k)].origin,
             v.has_own ? relative_text(v.own) : "", relative_text(v.total),
             v.has_own && v.own_excess >= 1 ? v.own_draw : v.total_draw, to_string(v.pair.evidence)});
}

}  // namespace

Json diff_json(const DiffResult& r) {
  const Comparison& c = r.comparison;
  const auto first_makers = producers(r.first.graph()), makers = producers(r.second.graph());
  Json values = Json::array();
  for (const ValueComparison& v : c.values) values.push_back(value_comparison_json(r, v, first_makers, makers));
  Json out = {{"first", r.first.label()}, {"second", r.second.label()},
              {"differ", c.differ()},     {"outputs_differ", c.outputs_differ},
              {"inputs", c.draws},        {"remarks", c.remarks},
              {"failures", c.failures},   {"unpaired", {{"first", c.unpaired_first}, {"second", c.unpaired_second}}},
              {"values", values}};
  if (c.departs >= 0) {
    const Blame& b = *c.blame;
    const Graph& g = b.in_first ? r.first.graph() : r.second.graph();
    const Node& n = g.nodes[static_cast<size_t>(b.node)];
    out["departs"] = {{"value", c.departs},
                      {"node", b.node},
                      {"graph", b.in_first ? "first" : "second"},
                      {"name", n.name},
                      {"outputs", Json::array()},
                      {"title", title(g, n)},
                      {"first_nodes", nodes_json(r.first.graph(), b.first)},
                      {"second_nodes", nodes_json(r.second.graph(), b.second)},
                      {"differences", b.differences}};
    for (const ValueId id : n.outputs)
      if (id != kNoValue) out["departs"]["outputs"].push_back(value_name(g, id));
  }
  return out;
}

void print_diff(const DiffResult& r) {
  const Comparison& c = r.comparison;
  std::string draws;
  for (const std::string& d : c.draws) draws += Cat(draws.empty() ? "" : ", ", d);
  say("{} values paired; {} of {} and {} of {} have no counterpart; inputs: {}\n", c.values.size(), c.unpaired_first,
      r.first.label(), c.unpaired_second, r.second.label(), draws.empty() ? "none" : draws);
  for (const std::string& f : c.failures) say("{}\n", printable(f));
  for (const std::string& remark : c.remarks) say("{}\n", printable(remark));
  if (c.departs >= 0) print_departure(r);
  const auto makers = producers(r.second.graph());
  const std::vector<std::string> header{"value", "operator", "own error", "whole error", "inputs", "paired by"};
  Table layers(header), outputs(header);
  constexpr size_t kShown = 20;
  size_t found = 0;
  const auto& results = r.second.graph().outputs;
  for (const ValueComparison& v : c.values) {
    if (v.has_own && v.own_excess > 1 && found++ < kShown) add_row(layers, r, v, makers);
    if (std::ranges::find(results, v.second) != results.end()) add_row(outputs, r, v, makers);
  }
  if (found > 1) say("\nlayers with an error of their own: {}\n{}", found, layers.str({2, 3}, 50));
  say("\noutputs\n{}", outputs.str({2, 3}, 50));
  say("{}\n", c.differ() ? "the models differ" : "no difference beyond the tolerance");
}

std::string diff_page(const DiffResult& r) {
  Json data = diff_json(r);
  data["first_graph"] = page_graph(r.first.graph());
  data["second_graph"] = page_graph(r.second.graph());
  std::string text = data.dump();
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6) text.replace(at, 1, "\\u003c");
  std::string page = diff_page_text();
  const std::string mark = "/*DIFF*/null";
  page.replace(page.find(mark), mark.size(), text);
  return page;
}

Json quantization_json(const Side& real, const Side& quantized, const QuantizationReport& q) {
  Json layers = Json::array();
  for (const QuantizedLayer& l : q.layers) {
    const int k = producers(real.graph())[static_cast<size_t>(l.real)];
    layers.push_back({{"value", value_name(real.graph(), l.real)},
                      {"node", k},
                      {"title", title(real.graph(), real.graph().nodes[static_cast<size_t>(k)])},
                      {"sqnr_db", figure_json(l.sqnr)},
                      {"own_sqnr_db", figure_json(l.own_sqnr)},
                      {"saturated", l.saturated},
                      {"clipped", l.clipped},
                      {"error_kept_in_float", figure_json(l.remaining)}});
  }
  return {{"first", real.label()},         {"second", quantized.label()},
          {"error", figure_json(q.error)}, {"sqnr_db", figure_json(q.sqnr)},
          {"unpaired", q.unpaired},        {"layers", layers},
          {"ranking", q.ranking}};
}

void print_quantization(const Side& real, const QuantizationReport& q) {
  say("outputs: relative error {:.3g}, SQNR {:.1f} dB; {} layers, what gains most by staying in float first\n\n",
      q.error, q.sqnr, q.layers.size());
  Table table({"layer", "operator", "SQNR", "own SQNR", "saturated", "clipped", "error without"});
  constexpr size_t kShown = 30;
  const auto makers = producers(real.graph());
  for (size_t i = 0; i < std::min(q.ranking.size(), kShown); ++i) {
    const QuantizedLayer& l = q.layers[static_cast<size_t>(q.ranking[i])];
    const Node& n = real.graph().nodes[static_cast<size_t>(makers[static_cast<size_t>(l.real)])];
    table.row({value_name(real.graph(), l.real), n.origin, formatted("{:.1f} dB", l.sqnr),
               formatted("{:.1f} dB", l.own_sqnr), formatted("{:.2f} %", 100 * l.saturated),
               formatted("{:.2f} %", 100 * l.clipped), formatted("{:.3g}", l.remaining)});
  }
  put(table.str({2, 3, 4, 5, 6}, 50));
  if (q.unpaired > 0) say("{} values of the quantized model go with none of the float model\n", q.unpaired);
}

}  // namespace smelt::cli
