#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/write_file.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/values.h"
#include "smelt/model.h"

namespace smelt::cli {
namespace {

struct BenchOptions {
  std::string model, method, profile;
  Target target;
  Limits limits;
  std::vector<std::string> inputs, data, tolerate;
  int threads = 1, runs = 20, warmup = 3;
  uint64_t seed = 0;
  bool json = false;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

size_t peak_memory() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<size_t>(u.ru_maxrss) * 1024;
}

Status write_profile(const std::string& path, const Session& session) {
  nlohmann::json out = nlohmann::json::array();
  for (const ProfileEntry& e : session.profile())
    out.push_back({{"node", e.node},
                   {"op", e.op},
                   {"origin", e.origin},
                   {"kernel", e.kernel},
                   {"output", e.output},
                   {"calls", e.calls},
                   {"micros", e.micros}});
  return write_file(path, {out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace)});
}

/// The operators that took most of the time.
void print_profile(const Session& session) {
  auto entries = session.profile();
  double total = 0;
  for (const auto& e : entries) total += e.micros;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.micros > b.micros; });
  Table table({"operator", "kernel", "output", "us/run", "share"});
  for (size_t i = 0; i < entries.size() && i < 20; ++i) {
    const auto& e = entries[i];
    table.row({e.origin.empty() ? e.op : e.origin, e.kernel, e.output,
               fmt::format("{:.1f}", e.micros / static_cast<double>(e.calls)),
               fmt::format("{:.1f} %", 100 * e.micros / std::max(total, 1e-9))});
  }
  put(table.str({3, 4}));
}

/// Milliseconds of the measured runs, in ascending order. The first run is over.
Result<std::vector<double>> measure(Session& session, const std::vector<Datum>& inputs, const BenchOptions& o) {
  Progress progress("bench");
  const size_t total = static_cast<size_t>(o.runs) + static_cast<size_t>(std::max(o.warmup - 1, 0));
  std::vector<double> ms;
  for (size_t i = 0; i < total; ++i) {
    const double a = seconds();
    SMELT_TRY(session.run_in_place(inputs));
    if (total - i <= static_cast<size_t>(o.runs)) ms.push_back((seconds() - a) * 1e3);
    progress.step(i + 1, total);
  }
  std::sort(ms.begin(), ms.end());
  return ms;
}

Status bench(const BenchOptions& o) {
  const double t0 = seconds();
  SMELT_ASSIGN(Model model, load_model(o.model, o.data, o.tolerate));
  SessionOptions so;
  o.target.apply(so);
  so.threads = o.threads;
  so.method = o.method;
  so.seed = o.seed;
  so.profile = !o.profile.empty();
  o.limits.apply(so);
  SMELT_ASSIGN(Session session, Session::create(model, so));
  const double t1 = seconds();
  SMELT_ASSIGN(auto inputs, gather_inputs(model, o.method, o.inputs, o.seed));
  const double t2 = seconds();
  SMELT_TRY(session.run_in_place(inputs));
  const double t3 = seconds();
  SMELT_ASSIGN(const std::vector<double> ms, measure(session, inputs, o));
  const auto at = [&](double q) {
    return ms[std::min(ms.size() - 1, static_cast<size_t>(q * static_cast<double>(ms.size())))];
  };
  if (!o.profile.empty()) SMELT_TRY(write_profile(o.profile, session));
  if (o.json) {
    const nlohmann::json out = {{"load_ms", (t1 - t0) * 1e3}, {"first_run_ms", (t3 - t2) * 1e3},
                                {"min_ms", ms.front()},       {"median_ms", at(0.5)},
                                {"p90_ms", at(0.9)},          {"runs", o.runs},
                                {"threads", o.threads},       {"backend", o.target.backend},
                                {"isa", session.isa()},       {"peak_memory_bytes", peak_memory()}};
    say("{}\n", out.dump());
    return Ok();
  }
  say("load {:.2f} ms, first run {:.2f} ms, then {} runs: min {:.3f}, median {:.3f}, p90 {:.3f} ms\n", (t1 - t0) * 1e3,
      (t3 - t2) * 1e3, o.runs, ms.front(), at(0.5), at(0.9));
  say("backend {}, isa {}, {} thread{}, activations {}, peak memory {}\n", o.target.backend, session.isa(), o.threads,
      o.threads == 1 ? "" : "s", human_bytes(static_cast<double>(session.arena_bytes())),
      human_bytes(static_cast<double>(peak_memory())));
  if (!o.profile.empty()) print_profile(session);
  return Ok();
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* c = app.add_subcommand("bench", "Measure a model's speed");
  add_model(*c, o->model);
  add_inputs(*c, o->inputs);
  add_target(*c, o->target);
  add_threads(*c, o->threads);
  c->add_option("--runs", o->runs, "Number of measured runs")
      ->check(between(1, 10000000))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--warmup", o->warmup, "Number of warm-up runs, at least 1")
      ->check(between(0, 10000000))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--method", o->method, "Method of a program (default: the first)")->type_name("NAME");
  add_data(*c, o->data);
  add_tolerate(*c, o->tolerate);
  add_seed(*c, o->seed);
  add_limits(*c, o->limits);
  c->add_option("--profile", o->profile, "Write time per operator as JSON to FILE and print the slowest")
      ->type_name("FILE");
  c->add_flag("--json", o->json, "One JSON object with the figures");
  c->footer("Examples:\n  smelt bench model.tflite --threads 2 --runs 50\n  smelt bench model.onnx --profile ops.json");
  c->callback([o, &status] {
    take_model(o->model, o->inputs);
    status = report(bench(*o));
  });
}

}  // namespace smelt::cli
