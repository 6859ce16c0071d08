// smelt verify: bundled programs, golden cases and ONNX test folders, one line a case.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/golden_case.h"
#include "cli/onnx_case.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/verify_bundle.h"
#include "formats/bundle/bundle.h"

namespace smelt::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions {
  std::vector<std::string> paths, data, tolerate;
  Target target;
  int threads = 1;
  Limits limits;
  double rtol = -1, atol = -1;
};

/// Counts verdicts and prints a line for each.
class Tally {
 public:
  void line(const char* verdict, const std::string& name, const std::string& text) {
    say("{:<4}  {}{}{}\n", verdict, printable(name), text.empty() ? "" : ": ", printable(text));
    if (!flush_output()) broken_ = true;
  }
  void passed(const std::string& name, const std::string& text) {
    ++passed_;
    line("pass", name, text);
  }
  void failed(const std::string& name, const std::string& text) {
    ++failed_;
    line("FAIL", name, text);
  }
  void skipped(const std::string& name, const std::string& text) {
    ++skipped_;
    line("skip", name, text);
  }
  void broken(const std::string& name, const std::string& message) {
    broken_ = true;
    ++failed_;
    line("FAIL", name, "");
    complain(message);
  }
  int finish() const {
    say("{} passed, {} failed, {} skipped\n", passed_, failed_, skipped_);
    if (broken_) return kFault;
    return failed_ > 0 ? kMismatch : kDone;
  }

 private:
  size_t passed_ = 0, failed_ = 0, skipped_ = 0;
  bool broken_ = false;
};

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& o) {
    load_.data_files = o.data;
    load_.tolerate = o.tolerate;
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
  int finish() const { return tally_.finish(); }

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
    const auto info = nlohmann::json::parse(in, nullptr, false);
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

}  // namespace

void add_verify(CLI::App& app, int& status) {
  auto o = std::make_shared<VerifyOptions>();
  CLI::App* c = app.add_subcommand("verify", "Run models on the tests that come with them and compare");
  c->add_option("paths", o->paths,
                "Bundled programs (.bp, .bpte), or folders of them, of golden cases (case.json) and of "
                "ONNX tests (model.onnx, test_data_set_N)")
      ->required()
      ->type_name("FILE|FOLDER");
  c->add_option("--rtol", o->rtol, "Relative tolerance of reals (default 1e-5; 1e-3 for ONNX; a golden case's own)")
      ->check(at_least_zero())
      ->type_name("X");
  c->add_option("--atol", o->atol,
                "Absolute tolerance of reals (default 1e-8; for ONNX by element type; a golden case's own)")
      ->check(at_least_zero())
      ->type_name("X");
  add_target(*c, o->target);
  add_threads(*c, o->threads);
  add_data(*c, o->data);
  add_tolerate(*c, o->tolerate);
  add_limits(*c, o->limits);
  c->footer(
      "Prints a line a test and 'N passed, N failed, N skipped'.\n"
      "Exit status: 0 everything matched, 3 something did not, 1 a file is broken.\n"
      "Examples:\n"
      "  smelt verify model.bpte\n"
      "  smelt verify tests --backend vulkan --rtol 1e-3");
  c->callback([o, &status] {
    Verifier verifier(*o);
    for (const std::string& path : o->paths)
      if (flush_output()) verifier.verify(path);
    status = verifier.finish();
  });
}

}  // namespace smelt::cli
