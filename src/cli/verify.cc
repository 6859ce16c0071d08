// smelt verify: bundled programs, golden cases and ONNX test folders, one line a case.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/golden_case.h"
#include "cli/json.h"
#include "cli/onnx_case.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/verify_bundle.h"
#include "formats/bundle/bundle.h"

namespace smelt::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions {
  std::vector<std::string> paths, data, tolerate, custom_operators;
  Target target;
  int threads = 1;
  Limits limits;
  double rtol = -1, atol = -1;
  std::string junit;
  bool json = false;
};

/// Counts verdicts, prints a line for each, or keeps them for a report.
class Tally {
 public:
  explicit Tally(bool quiet) : quiet_(quiet) {}
  void passed(const std::string& name, const std::string& text) { add("pass", name, text); }
  void failed(const std::string& name, const std::string& text) { add("fail", name, text); }
  void skipped(const std::string& name, const std::string& text) { add("skip", name, text); }
  /// A test that cannot be run, or what is no test.
  void broken(const std::string& name, const std::string& message) {
    broken_ = true;
    if (!quiet_) complain(message);
    add("fail", name, quiet_ ? message : "");
  }
  size_t count(std::string_view verdict) const {
    return static_cast<size_t>(
        std::count_if(cases_.begin(), cases_.end(), [&](const auto& c) { return c["verdict"] == verdict; }));
  }
  const Json& cases() const { return cases_; }
  int status() const { return broken_ ? kFault : count("fail") > 0 ? kMismatch : kDone; }

 private:
  void add(const char* verdict, const std::string& name, const std::string& text) {
    cases_.push_back({{"name", printable(name)}, {"verdict", verdict}, {"text", printable(text)}});
    if (quiet_) return;
    say("{:<4}  {}{}{}\n", verdict == std::string_view("fail") ? "FAIL" : verdict, printable(name),
        text.empty() ? "" : ": ", printable(text));
    if (!flush_output()) broken_ = true;
  }

  Json cases_ = Json::array();
  bool quiet_, broken_ = false;
};

/// Text of an XML attribute or element.
std::string xml(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// The cases as JUnit's XML, which continuous integration shows.
std::string junit(const Tally& tally) {
  std::string out = formatted(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"smelt verify\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
      tally.cases().size(), tally.count("fail"), tally.count("skip"));
  for (const auto& c : tally.cases()) {
    const std::string name = xml(c["name"].get<std::string>()), text = xml(c["text"].get<std::string>());
    out += formatted("  <testcase classname=\"smelt\" name=\"{}\"", name);
    if (c["verdict"] == "pass")
      out += "/>\n";
    else
      out += formatted("><{} message=\"{}\"/></testcase>\n", c["verdict"] == "fail" ? "failure" : "skipped", text);
  }
  return out + "</testsuite>\n";
}

class Verifier {
 public:
  Verifier(const VerifyOptions& o, LoadOptions load) : load_(std::move(load)), tally_(o.json) {
    o.target.apply(session_);
    session_.threads = o.threads;
    o.limits.apply(session_);
    rule_.given = o.rtol >= 0 || o.atol >= 0;
    if (o.rtol >= 0) tolerance_.rtol = rule_.rtol = o.rtol;
    if (o.atol >= 0) tolerance_.atol = rule_.atol = o.atol;
  }

  void verify(const fs::path& path) {
    std::error_code ec;
    if (fs::is_directory(path, ec)) return folder(path, 0);
    if (!is_bundle(path)) {
      std::error_code gone;
      const char* why = fs::exists(path, gone) ? "not a bundled program, nothing to compare with" : "no such file";
      tally_.broken(path.string(), Cat(path.string(), ": ", why));
      return;
    }
    bundle(path);
  }
  const Tally& tally() const { return tally_; }

 private:
  static bool is_bundle(const fs::path& path) {
    std::error_code ec;
    if (!fs::is_regular_file(path, ec)) return false;
    char head[8] = {};
    std::ifstream in(path, std::ios::binary);
    in.read(head, sizeof head);
    return in.gcount() == 8 && bundle::recognise(std::as_bytes(std::span(head)));
  }

  void bundle(const fs::path& path) {
    const auto results = verify_bundle(path.string(), load_, session_, rule_);
    if (!results.ok()) return tally_.broken(path.string(), results.error().message());
    for (const SetResult& r : *results) count(Cat(path.string(), " ", r.name), r);
  }

  /// A golden case around a bundle says whether it must match.
  void bundle_case(const fs::path& path, const fs::path& model) {
    std::ifstream in(path / "case.json");
    const std::string stored{std::istreambuf_iterator<char>(in), {}};
    const Json info = Json::parse(stored).value_or(nullptr);
    const bool says = info.is_object() && info.contains("expect") && info["expect"].is_string();
    const std::string expect = says ? info["expect"].get<std::string>() : "match";
    const auto results = verify_bundle(model.string(), load_, session_, rule_);
    std::string outcome = "error", text = results.ok() ? "" : results.error().message();
    if (results.ok()) {
      const auto first = [&](SetResult::Verdict v) {
        const auto at = std::find_if(results->begin(), results->end(), [v](const auto& r) { return r.verdict == v; });
        if (at != results->end()) text = Cat(at->name, ": ", at->text);
        return at != results->end();
      };
      if (first(SetResult::Verdict::kBroken))
        outcome = "error";
      else if (first(SetResult::Verdict::kFailed))
        outcome = "mismatch";
      else
        outcome = first(SetResult::Verdict::kPassed) ? "match" : "nothing compared";
    }
    if (outcome == expect || expect == "any")
      tally_.passed(path.string(), Cat(outcome, " as expected"));
    else
      tally_.failed(path.string(), Cat(outcome, ", ", expect, " expected", text.empty() ? "" : ": ", text));
  }

  void golden(const fs::path& path) {
    ++seen_;
    std::error_code ec;
    for (const auto& e : fs::directory_iterator(path, ec))
      if (e.path().stem() == "model" && (e.path().extension() == ".bpte" || e.path().extension() == ".bp"))
        return bundle_case(path, e.path());
    const CaseResult r = run_golden_case(path, load_, session_, tolerance_);
    switch (r.verdict) {
      case CaseResult::Verdict::kPassed:
        return tally_.passed(path.string(), "");
      case CaseResult::Verdict::kFailed:
        return tally_.failed(path.string(), r.why);
      case CaseResult::Verdict::kSkipped:
        return tally_.skipped(path.string(), r.why);
    }
  }

  void onnx(const fs::path& path) {
    ++seen_;
    const auto results = run_onnx_case(path, load_, session_, tolerance_);
    if (!results.ok()) return tally_.broken(path.string(), results.error().message());
    for (const SetResult& r : *results) count(Cat(path.string(), " ", r.name), r);
  }

  void count(const std::string& name, const SetResult& r) {
    switch (r.verdict) {
      case SetResult::Verdict::kPassed:
        return tally_.passed(name, r.text);
      case SetResult::Verdict::kFailed:
        return tally_.failed(name, r.text);
      case SetResult::Verdict::kSkipped:
        return tally_.skipped(name, r.text);
      case SetResult::Verdict::kBroken:
        return tally_.broken(name, Cat(name, ": ", r.text));
    }
  }

  void folder(const fs::path& path, int depth) {
    std::error_code ec;
    if (fs::exists(path / "case.json", ec)) return golden(path);
    if (fs::exists(path / "model.onnx", ec)) return onnx(path);
    std::vector<fs::path> inside;
    for (const auto& e : fs::directory_iterator(path, ec)) inside.push_back(e.path());
    if (ec) return tally_.broken(path.string(), Cat(path.string(), ": ", ec.message()));
    std::sort(inside.begin(), inside.end());
    const size_t before = seen_;
    for (const fs::path& p : inside) {
      if (!flush_output()) return;
      if (fs::is_directory(p, ec) && !fs::is_symlink(p, ec) && depth < 8) {
        folder(p, depth + 1);
      } else if (is_bundle(p)) {
        ++seen_;
        bundle(p);
      }
    }
    if (depth == 0 && seen_ == before) tally_.broken(path.string(), Cat(path.string(), ": nothing to verify"));
  }

  LoadOptions load_;
  SessionOptions session_;
  MatchRule rule_;
  CaseTolerance tolerance_;
  Tally tally_;
  size_t seen_ = 0;
};

Status verify_all(const VerifyOptions& o, int& status) {
  if (o.junit == "-") reserve_standard_output();
  SMELT_ASSIGN(LoadOptions load, load_options(o.data, o.tolerate, o.custom_operators));
  Verifier verifier(o, std::move(load));
  for (const std::string& path : o.paths)
    if (flush_output()) verifier.verify(path);
  const Tally& tally = verifier.tally();
  const size_t passed = tally.count("pass"), failed = tally.count("fail"), skipped = tally.count("skip");
  if (o.json)
    put_json({{"passed", passed}, {"failed", failed}, {"skipped", skipped}, {"cases", tally.cases()}});
  else
    say("{} passed, {} failed, {} skipped\n", passed, failed, skipped);
  status = tally.status();
  return o.junit.empty() ? Ok() : write_result(o.junit, {junit(tally)});
}

void verify(const VerifyOptions& o, int& status) {
  if (const Status done = verify_all(o, status); !done.ok()) status = report(done);
}

}  // namespace

void add_verify(Command app, int& status) {
  auto o = std::make_shared<VerifyOptions>();
  Command c = app.add_subcommand("verify", "Run models on the tests that come with them and compare");
  c.add_option("paths", o->paths,
               "Bundled programs (.bp, .bpte), or folders of them, of golden cases (case.json) and of "
               "ONNX tests (model.onnx, test_data_set_N)")
      .required()
      .type_name("FILE|FOLDER");
  c.add_option("--rtol", o->rtol, "Relative tolerance of reals (default 1e-5; 1e-3 for ONNX; a golden case's own)")
      .check(at_least_zero())
      .type_name("X");
  c.add_option("--atol", o->atol,
               "Absolute tolerance of reals (default 1e-8; for ONNX by element type; a golden case's own)")
      .check(at_least_zero())
      .type_name("X");
  c.add_flag("-j,--json", o->json, "Print one JSON object instead of a line a test");
  c.add_option("--junit", o->junit, "Write the verdicts as JUnit XML, too").type_name("FILE");
  add_target(c, o->target);
  add_threads(c, o->threads);
  add_data(c, o->data);
  add_tolerate(c, o->tolerate);
  add_custom_operators(c, o->custom_operators);
  add_limits(c, o->limits);
  c.footer(
      "Prints a line a test and 'N passed, N failed, N skipped'.\n"
      "Exit status: 0 everything matched, 3 something did not, 1 a file is broken.\n"
      "Examples:\n"
      "  smelt verify model.bpte\n"
      "  smelt verify tests --junit results.xml\n"
      "  smelt verify tests --backend vulkan --rtol 1e-3");
  c.callback([o, &status] { verify(*o, status); });
}

}  // namespace smelt::cli
