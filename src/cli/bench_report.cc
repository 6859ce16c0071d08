#include "cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "cli/output.h"
#include "cli/trace_event.h"

namespace smelt::cli {
namespace {

constexpr size_t kShownNodes = 20;

/// Label of a node's operator: as its format says it, else the graph's name.
const std::string& operator_of(const ProfileEntry& e) { return e.origin.empty() ? e.op : e.origin; }

double micros_per_run(const Measurement& m, double micros) { return micros / static_cast<double>(m.samples_ms.size()); }

double profile_sum(const std::vector<ProfileEntry>& profile) {
  return std::accumulate(profile.begin(), profile.end(), 0.0,
                         [](double sum, const ProfileEntry& e) { return sum + e.micros; });
}

std::string share(double part, double whole) { return formatted("{:.1f} %", 100 * part / std::max(whole, 1e-12)); }

/// A field of CSV, quoted where it must be.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

namespace {

/// The entry of what `e` measures, first looked for at `hint`; end if there is none.
std::vector<ProfileEntry>::const_iterator entry_like(const std::vector<ProfileEntry>& list, size_t hint,
                                                     const ProfileEntry& e) {
  const auto same = [&](const ProfileEntry& o) {
    return o.graph == e.graph && o.index == e.index && o.node == e.node && o.op == e.op && o.kernel == e.kernel &&
           o.output == e.output;
  };
  if (hint < list.size() && same(list[hint])) return list.begin() + static_cast<std::ptrdiff_t>(hint);
  return std::ranges::find_if(list, same);
}

}  // namespace

void add_profile(std::vector<ProfileEntry>& total, const std::vector<ProfileEntry>& part) {
  for (size_t i = 0; i < part.size(); ++i) {
    const auto at = entry_like(total, i, part[i]);
    if (at == total.end()) {
      total.push_back(part[i]);
      continue;
    }
    ProfileEntry& sum = total[static_cast<size_t>(at - total.begin())];
    sum.micros += part[i].micros;
    sum.calls += part[i].calls;
  }
}

std::vector<ProfileEntry> profile_since(const std::vector<ProfileEntry>& before, std::vector<ProfileEntry> now) {
  for (size_t i = 0; i < now.size(); ++i) {
    const auto old = entry_like(before, i, now[i]);
    if (old == before.end()) continue;  // it ran for the first time
    now[i].micros -= old->micros;
    now[i].calls -= old->calls;
  }
  std::erase_if(now, [](const ProfileEntry& e) { return e.calls == 0; });
  return now;
}

TimeStatistics time_statistics(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const auto at = [&](double q) { return samples[std::min(samples.size() - 1, static_cast<size_t>(q * n))]; };
  TimeStatistics s{.min = samples.front(), .max = samples.back(), .median = at(0.5), .p90 = at(0.9), .p99 = at(0.99)};
  s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (double v : samples) squares += (v - s.mean) * (v - s.mean);
  s.deviation = samples.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  return s;
}

std::string human_time(double ms) {
  if (ms < 0.001) return formatted("{:.1f} ns", ms * 1e6);
  if (ms < 1) return formatted("{:.{}f} us", ms * 1e3, ms < 0.1 ? 2 : 1);
  if (ms < 1000) return formatted("{:.{}f} ms", ms, ms < 100 ? 3 : 1);
  return formatted("{:.2f} s", ms / 1e3);
}

double runs_per_second(const Measurement& m) {
  if (m.streams > 1 && m.wall_ms > 0) return 1e3 * static_cast<double>(m.samples_ms.size()) / m.wall_ms;
  return 1e3 / time_statistics(m.samples_ms).mean;
}

Json figures_json(const Measurement& m) {
  const TimeStatistics s = time_statistics(m.samples_ms);
  return {{"load_ms", m.load_ms},
          {"first_run_ms", m.first_run_ms},
          {"min_ms", s.min},
          {"median_ms", s.median},
          {"p90_ms", s.p90},
          {"p99_ms", s.p99},
          {"max_ms", s.max},
          {"mean_ms", s.mean},
          {"std_ms", s.deviation},
          {"runs", m.samples_ms.size()},
          {"runs_per_second", runs_per_second(m)},
          {"streams", m.streams},
          {"samples_ms", m.samples_ms},
          {"interrupted", m.interrupted}};
}

Json profile_json(const Measurement& m) {
  Json out = Json::array();
  for (const ProfileEntry& e : m.profile)
    out.push_back({{"graph", e.graph},
                   {"index", e.index},
                   {"node", e.node},
                   {"op", e.op},
                   {"origin", e.origin},
                   {"kernel", e.kernel},
                   {"output", e.output},
                   {"calls", e.calls},
                   {"micros", e.micros},
                   {"micros_per_run", micros_per_run(m, e.micros)}});
  return out;
}

std::string profile_csv(const Measurement& m) {
  std::string out = "graph,index,node,op,origin,kernel,output,calls,micros,micros_per_run\n";
  for (const ProfileEntry& e : m.profile)
    out += formatted("{},{},{},{},{},{},{},{},{:.3f},{:.3f}\n", e.graph, e.index, csv_field(e.node), csv_field(e.op),
                     csv_field(e.origin), csv_field(e.kernel), csv_field(e.output), e.calls, e.micros,
                     micros_per_run(m, e.micros));
  return out;
}

void print_profile(const Measurement& m) {
  auto entries = m.profile;
  const double total = profile_sum(entries);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.micros > b.micros; });
  const bool graphs = std::ranges::any_of(entries, [](const auto& e) { return e.graph != 0; });
  Table nodes({"#", "operator", "kernel", "output", "us/run", "share"});
  for (size_t i = 0; i < entries.size() && i < kShownNodes; ++i) {
    const ProfileEntry& e = entries[i];
    nodes.row({graphs ? Cat(e.graph, ":", e.index) : Cat(e.index), operator_of(e), e.kernel, e.output,
               formatted("{:.2f}", micros_per_run(m, e.micros)), share(e.micros, total)});
  }
  say("\n{}", nodes.str({0, 4, 5}));
  if (entries.size() > kShownNodes) say("and {} faster nodes\n", entries.size() - kShownNodes);
  std::map<std::string, std::pair<size_t, double>> sums;
  for (const ProfileEntry& e : entries) {
    auto& [count, micros] = sums[operator_of(e)];
    ++count;
    micros += e.micros;
  }
  std::vector<std::pair<std::string, std::pair<size_t, double>>> operators(sums.begin(), sums.end());
  std::stable_sort(operators.begin(), operators.end(),
                   [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  Table table({"operator", "nodes", "us/run", "share"});
  for (const auto& [name, sum] : operators)
    table.row({name, Cat(sum.first), formatted("{:.2f}", micros_per_run(m, sum.second)), share(sum.second, total)});
  say("\n{}", table.str({1, 2, 3}));
  const double wall = std::accumulate(m.samples_ms.begin(), m.samples_ms.end(), 0.0) * 1e3;
  say("\nnodes {} of {} a run: {}\n", human_time(micros_per_run(m, total) / 1e3),
      human_time(micros_per_run(m, wall) / 1e3), share(total, wall));
}

Json trace_json(const Measurement& m) {
  Json events = Json::array();
  events.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"tid", 1}, {"args", {{"name", "smelt bench"}}}});
  size_t number = 0;
  for (const ProfiledRun& run : m.traced) {
    const double start = run.start_ms * 1e3, wall = run.wall_ms * 1e3;
    const int64_t begin = nanoseconds(start), end = nanoseconds(start + wall);
    events.push_back(slice_event(Cat("run ", number++), begin, end, 1, 1, Json::object()));
    const double sum = profile_sum(run.nodes), scale = sum > wall ? wall / sum : 1;
    double at = start;
    for (const ProfileEntry& e : run.nodes) {
      const int64_t from = std::min(nanoseconds(at), end);
      at += e.micros * scale;
      events.push_back(slice_event(operator_of(e), from, std::min(nanoseconds(at), end), 1, 1,
                                   {{"graph", e.graph},
                                    {"index", e.index},
                                    {"node", e.node},
                                    {"kernel", e.kernel},
                                    {"output", e.output},
                                    {"calls", e.calls}}));
    }
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
}

Status print_comparison(const Json& old, const TimeStatistics& now, const std::string& label) {
  const std::pair<const char*, double> rows[] = {
      {"min", now.min}, {"median", now.median}, {"mean", now.mean}, {"p90", now.p90}, {"p99", now.p99}};
  Table table({"", "before", "now", "ratio"});
  size_t found = 0;
  for (const auto& [name, value] : rows) {
    const Json* it = old.find(Cat(name, "_ms"));
    if (!it || !it->is_number() || it->get<double>() <= 0) continue;
    ++found;
    table.row({name, human_time(it->get<double>()), human_time(value), formatted("{:.3f}", value / it->get<double>())});
  }
  if (found == 0) return InvalidInput(label, ": no figures of `smelt bench --json`");
  say("\n{}", table.str({1, 2, 3}));
  return Ok();
}

}  // namespace smelt::cli
