#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/output.h"
#include "smelt/model.h"

namespace smelt::cli {
namespace {

struct BenchOptions {
  std::string model, method, profile, trace, compare, cpus;
  Target target;
  InputOptions inputs;
  Limits limits;
  std::vector<std::string> data, tolerate, custom_operators;
  int threads = 1, streams = 1;
  MeasureOptions measure;
  bool json = false, csv = false;
};

/// Bytes that a line of /proc/self/status names: "VmRSS:" resident memory now, "VmHWM:" the most so far; not, as
/// getrusage() says, of the program that started this one.
size_t memory(std::string_view line) {
  std::ifstream status("/proc/self/status");
  std::string word;
  size_t kilobytes = 0;
  while (status >> word)
    if (word == line) status >> kilobytes;
  return kilobytes * 1024;
}
size_t peak_memory() { return memory("VmHWM:"); }

/// `start_memory`: bytes of resident memory before the model was opened.
Json bench_json(const BenchOptions& o, const Model& model, const Session& session, const Inputs& inputs,
                const Measurement& m, size_t start_memory) {
  Json out = figures_json(m);
  out.update({{"threads", thread_count(o.threads)},
              {"backend", o.target.backend},
              {"isa", session.isa()},
              {"peak_memory_bytes", peak_memory()},
              {"start_memory_bytes", start_memory},
              {"activation_bytes", session.arena_bytes()},
              {"model", o.model},
              {"format", model.format()},
              {"method", o.method.empty() ? model.methods()[0] : o.method},
              {"inputs", inputs_json(model.inputs(o.method), inputs)},
              {"version", SMELT_VERSION_STRING}});
  if (o.target.device >= 0) out["device"] = o.target.device;
  return out;
}

/// One line of column names and one of figures.
void print_csv(const Json& figures) {
  std::string names, values;
  for (const auto& [key, value] : figures.items()) {
    if (value.is_array()) continue;
    names += (names.empty() ? "" : ",") + key;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    values += (values.empty() ? "" : ",") + (text.find_first_of(",\"") == std::string::npos ? text : Json(text).dump());
  }
  say("{}\n{}\n", names, values);
}

void print_figures(const BenchOptions& o, const Model& model, const Session& session, const Inputs& inputs,
                   const Measurement& m) {
  const auto ports = model.inputs(o.method);
  for (size_t i = 0; i < inputs.origins.size(); ++i)
    if (!inputs.origins[i].dimensions.empty())
      say("input {}: {}\n", printable(ports[i].name), printable(inputs.origins[i].dimensions));
  const TimeStatistics s = time_statistics(m.samples_ms);
  const size_t runs = m.samples_ms.size();
  say("load {}, first run {}, then {} run{}{}: min {}, median {}, p90 {}\n", human_time(m.load_ms),
      human_time(m.first_run_ms), runs, runs == 1 ? "" : "s", m.interrupted ? " (interrupted)" : "", human_time(s.min),
      human_time(s.median), human_time(s.p90));
  say("mean {}, std {}, p99 {}, max {}, {:.4g} runs/s\n", human_time(s.mean), human_time(s.deviation),
      human_time(s.p99), human_time(s.max), runs_per_second(m));
  const int threads = thread_count(o.threads);
  const std::string streams = m.streams == 1 ? "" : formatted(" in each of {} streams", m.streams);
  say("backend {}, isa {}, {} thread{}{}, activations {}, peak memory {}\n", o.target.backend, session.isa(), threads,
      threads == 1 ? "" : "s", streams, human_bytes(static_cast<double>(session.arena_bytes())),
      human_bytes(static_cast<double>(peak_memory())));
}

Status write_profile(const std::string& path, const Measurement& m) {
  const bool csv = path.ends_with(".csv");
  return write_result(path, {csv ? profile_csv(m) : profile_json(m).dump(1)});
}

Status bench(const BenchOptions& o) {
  if (o.profile == "-" || o.trace == "-") reserve_standard_output();
  Json old;
  if (!o.compare.empty()) {
    SMELT_ASSIGN(old, read_json(o.compare));
  }
  if (!o.cpus.empty()) SMELT_TRY(restrict_to_cpus(o.cpus));
  Measurement m;
  const size_t start_memory = memory("VmRSS:");
  const double t0 = now_ms();
  SMELT_ASSIGN(const LoadOptions load, load_options(o.data, o.tolerate, o.custom_operators));
  SMELT_ASSIGN(const Model model, load_model(o.model, load, true));
  SessionOptions so;
  o.target.apply(so);
  so.threads = thread_count(o.threads);
  so.method = o.method;
  so.seed = o.inputs.seed;
  so.profile = !o.profile.empty() || !o.trace.empty();
  o.limits.apply(so);
  std::vector<Session> sessions;
  for (int i = 0; i < o.streams; ++i) {
    SMELT_ASSIGN(Session session, Session::create(model, so));
    sessions.push_back(std::move(session));
  }
  const Session& session = sessions[0];
  m.load_ms = now_ms() - t0;
  SMELT_ASSIGN(const Inputs inputs, gather_inputs(model, o.method, o.inputs));
  const double t2 = now_ms();
  for (Session& each : sessions) {
    if (const auto first = each.run_in_place(inputs.values); !first.ok()) return inputs.explain(first.error());
    if (&each == &session) m.first_run_ms = now_ms() - t2;
  }
  MeasureOptions how = o.measure;
  how.trace = !o.trace.empty();
  SMELT_TRY(measure(sessions, inputs.values, how, m));
  if (!o.profile.empty()) SMELT_TRY(write_profile(o.profile, m));
  if (!o.trace.empty()) SMELT_TRY(write_result(o.trace, {trace_json(m).dump()}));
  const Json figures = bench_json(o, model, session, inputs, m, start_memory);
  if (o.json) {
    say("{}\n", figures.dump());
  } else if (o.csv) {
    print_csv(figures);
  } else {
    print_figures(o, model, session, inputs, m);
    if (!o.profile.empty()) print_profile(m);
  }
  if (o.compare.empty()) return Ok();
  if (o.json || o.csv) reserve_standard_output();
  return print_comparison(old, time_statistics(m.samples_ms), o.compare);
}

}  // namespace

void add_bench(Command app, int& status) {
  auto o = std::make_shared<BenchOptions>();
  Command c = app.add_subcommand("bench", "Measure a model's speed");
  add_model(c, o->model);
  add_inputs(c, o->inputs);
  add_target(c, o->target);
  add_threads(c, o->threads);
  c.add_option("--runs", o->measure.runs, "Number of measured runs of each stream")
      .check(between(1, 10000000))
      .type_name("N")
      .default_shown();
  c.add_option("--seconds", o->measure.seconds, "Measure for this time instead of a number of runs")
      .check(duration())
      .type_name("TIME");
  c.add_option("--warmup", o->measure.warmup, "Number of warm-up runs, at least 1")
      .check(between(0, 10000000))
      .type_name("N")
      .default_shown();
  c.add_option("--streams", o->streams, "Number of sessions that run at the same time, each with --threads threads")
      .check(between(1, 256))
      .type_name("N")
      .default_shown();
  c.add_option("--cpus", o->cpus, "Run on these processors only, as 0-3,6")
      .check(text_that(is_cpu_list, "no list of processors, as 0-3,6"))
      .type_name("LIST");
  c.add_option("--method", o->method, "Method of a program (default: the first)").type_name("NAME");
  add_data(c, o->data);
  add_tolerate(c, o->tolerate);
  add_custom_operators(c, o->custom_operators);
  add_limits(c, o->limits);
  add_seed(c, o->inputs.seed);
  c.add_option("--profile", o->profile,
               "Write time per node to FILE, as JSON or, if it ends in .csv, as CSV; print the slowest")
      .type_name("FILE");
  c.add_option("--trace", o->trace, "Write the first measured runs as a trace that Perfetto shows").type_name("FILE");
  c.add_option("--compare", o->compare, "Compare with FILE, the --json output of an earlier run").type_name("FILE");
  Option as_json = c.add_flag("-j,--json", o->json, "One JSON object with the figures");
  c.add_flag("--csv", o->csv, "The figures as CSV: a line of names and a line of values").excludes(as_json);
  c.footer(
      "Examples:\n"
      "  smelt bench model.tflite --threads 2 --runs 50\n"
      "  smelt bench model.tflite --streams 4 --cpus 0-3\n"
      "  smelt bench model.onnx --dim batch=8 --seconds 5 --profile ops.json\n"
      "  smelt bench model.pte --json > old.json; smelt bench model.pte --compare old.json");
  c.callback([o, &status] {
    take_model(o->model, o->inputs.files);
    status = report(bench(*o));
  });
}

}  // namespace smelt::cli
