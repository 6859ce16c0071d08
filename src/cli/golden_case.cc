#include "cli/golden_case.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <vector>

#include "base/cat.h"
#include "base/correlation.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/values.h"
#include "tensor/npy.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

namespace fs = std::filesystem;
struct Tolerance {
  double rtol, atol, loose = -1, correlation = 2;
  int64_t steps = 0;
};

/// Values as doubles; a complex number counts as two.
std::vector<double> numbers(const Tensor& t) {
  std::vector<double> v;
  if (is_complex(t.dtype())) {
    for (int64_t i = 0; i < 2 * t.elements(); ++i)
      v.push_back(t.dtype() == DType::kC64 ? static_cast<double>(t.data<float>()[i]) : t.data<double>()[i]);
    return v;
  }
  v.resize(static_cast<size_t>(t.elements()));
  to_doubles(t, v.data());
  return v;
}

/// Empty when equal within the tolerance.
std::string compare(const Tensor& got, const Tensor& want, const Tolerance& tol) {
  if (!(got.shape() == want.shape())) return Cat("shape ", got.shape().str(), ", expected ", want.shape().str());
  if (want.dtype() == DType::kString || got.dtype() == DType::kString) {
    if (got.dtype() != want.dtype())
      return Cat("type ", to_string(got.dtype()), ", expected ", to_string(want.dtype()));
    for (int64_t i = 0; i < want.elements(); ++i)
      if (got.data<std::string>()[i] != want.data<std::string>()[i]) return Cat("string ", i, " differs");
    return "";
  }
  const bool integers = is_integer(want.dtype()) || want.dtype() == DType::kBool;
  if (got.dtype() != want.dtype() &&
      !(integers && !is_float(got.dtype()) && bit_width(got.dtype()) == bit_width(want.dtype())))
    return Cat("type ", to_string(got.dtype()), ", expected ", to_string(want.dtype()));
  const std::vector<double> g = numbers(got), w = numbers(want);
  size_t bad = 0, first = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    bool good;
    if (integers) {
      const int64_t a = get_int(got, static_cast<int64_t>(i)), b = get_int(want, static_cast<int64_t>(i));
      good = a == b || std::llabs(a - b) <= tol.steps;
    } else {
      const double d = std::fabs(g[i] - w[i]);
      good = g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i])) || d <= tol.atol + tol.rtol * std::fabs(w[i]) ||
             (tol.loose >= 0 && d <= tol.loose + tol.rtol * std::fabs(w[i]));
    }
    if (good) continue;
    if (bad++ == 0) first = i;
  }
  if (bad == 0 || (tol.correlation <= 1 && w.size() > 1 && correlation(g, w) >= tol.correlation)) return "";
  return formatted("{}/{} differ, first at {}: {:.9g}, expected {:.9g}", bad, w.size(), first, g[first], w[first]);
}

/// The N of N.npy; -1: another name.
int number_of(const fs::path& path) {
  const std::string stem = path.stem().string();
  int n = -1;
  const auto end = std::from_chars(stem.data(), stem.data() + stem.size(), n);
  return end.ec == std::errc() && end.ptr == stem.data() + stem.size() ? n : -1;
}

/// The files N.npy, N.seq, N.map of a folder by number.
std::vector<fs::path> numbered(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(folder, ec))
    if ((e.path().extension() == ".npy" || e.path().extension() == ".seq" || e.path().extension() == ".map") &&
        number_of(e.path()) >= 0)
      out.push_back(e.path());
  std::sort(out.begin(), out.end(), [](const fs::path& a, const fs::path& b) { return number_of(a) < number_of(b); });
  return out;
}

/// The entry `key` where it is of the default's type, else the default.
std::string entry(const Json& info, const char* key, const char* otherwise) {
  const Json* it = info.find(key);
  return it && it->is_string() ? it->get<std::string>() : otherwise;
}
double entry(const Json& info, const char* key, double otherwise) {
  const Json* it = info.find(key);
  return it && it->is_number() ? it->get<double>() : otherwise;
}

/// Sub-byte and narrow types as .npy holds them.
Datum as_npy(const Datum& d) {
  if (!d.is_tensor()) return d;
  Tensor t = d.tensor;
  if (t.dtype() == DType::kF4E2M1) t = Tensor::view(DType::kU4, t.shape(), t.raw(), t.owner());
  const int width = bit_width(t.dtype());
  if (t.dtype() == DType::kBF16) return Datum(Tensor::view(DType::kU16, t.shape(), t.raw(), t.owner()));
  if (width == 8 && is_float(t.dtype())) return Datum(Tensor::view(DType::kU8, t.shape(), t.raw(), t.owner()));
  if (width == 0 || width >= 8) return d;
  Tensor wide(is_signed_integer(t.dtype()) ? DType::kI8 : DType::kU8, t.shape());
  for (int64_t i = 0; i < t.elements(); ++i) set_int(wide, i, get_int(t, i));
  return Datum(std::move(wide));
}

Tensor bf16_as_floats(const Tensor& bits) {
  Tensor out(DType::kF32, bits.shape());
  for (int64_t i = 0; i < bits.elements(); ++i) out.data<float>()[i] = bf16_to_f32(bits.data<uint16_t>()[i]);
  return out;
}

std::string compare_value(const Datum& got, const fs::path& path, const Tolerance& tol, bool bf16) {
  auto want = read_value(path.string());
  if (!want.ok()) return want.error().message();
  if (want->is_tensor()) {
    if (!got.is_tensor()) return "no tensor";
    Tensor a = as_npy(got).tensor, b = want->tensor;
    if (bf16 && a.dtype() == DType::kU16 && b.dtype() == DType::kU16) {
      a = bf16_as_floats(a);
      b = bf16_as_floats(b);
    }
    return compare(a, b, tol);
  }
  if (got.kind != want->kind || got.items->size() != want->items->size()) return "another number of elements";
  for (size_t i = 0; i < want->items->size(); ++i)
    if (auto why = compare(as_npy((*got.items)[i]).tensor, (*want->items)[i].tensor, tol); !why.empty())
      return Cat("element ", i, ": ", why);
  return "";
}

Status run_case(const fs::path& folder, const fs::path& model_path, const Json& info, LoadOptions load,
                SessionOptions options, const ModelChange& change, std::vector<Datum>& outputs) {
  load.data_files.clear();
  if (std::error_code ec; fs::exists(folder / "model.ptd", ec))
    load.data_files.push_back((folder / "model.ptd").string());
  SMELT_ASSIGN(Model model, Model::load(model_path.string(), load));
  options.method = entry(info, "method", options.method.c_str());
  if (change) {
    SMELT_ASSIGN(model, change(model, options));
    options.method.clear();
  }
  SMELT_ASSIGN(Session session, Session::create(model, options));
  SMELT_ASSIGN(Inputs inputs,
               gather_inputs(model, options.method, {.files = case_inputs(folder), .seed = options.seed}));
  const int invokes = static_cast<int>(std::clamp(entry(info, "invokes", 1.0), 1.0, 1e6));
  for (int i = 0; i < invokes; ++i) {
    SMELT_ASSIGN(outputs, session.run(inputs.values));
  }
  return Ok();
}

}  // namespace

std::vector<std::string> case_inputs(const fs::path& folder) {
  std::vector<std::string> out;
  for (const fs::path& p : numbered(folder / "inputs")) out.push_back(p.string());
  return out;
}

CaseResult run_golden_case(const fs::path& folder, const LoadOptions& load, const SessionOptions& given,
                           const CaseTolerance& given_tolerance, const ModelChange& change) {
  using V = CaseResult::Verdict;
  std::ifstream file(folder / "case.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Json info = Json::parse(text).value_or(nullptr);
  if (!info.is_object()) return {V::kFailed, "case.json is not a JSON object"};
  if (info.contains("make_links") || info.contains("symlinks"))
    return {V::kSkipped, "needs links made beside the model"};
  fs::path model;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(folder, ec))
    if (e.path().stem() == "model" && e.path().extension() != ".ptd") model = e.path();
  if (model.empty()) return {V::kSkipped, "no model file"};
  const std::string expect = entry(info, "expect", "");
  SessionOptions options = given;
  if (!expect.empty()) options.limit_seconds = 5;
  std::vector<Datum> outputs;
  const Status status = run_case(folder, model, info, load, options, change, outputs);
  if (expect == "error") {
    if (status.ok()) return {V::kFailed, "an error was expected"};
    return status.error().message().empty() ? CaseResult{V::kFailed, "failed without a word"} : CaseResult{};
  }
  if (!expect.empty() || (!status.ok() && info.contains("reject_ok") && info["reject_ok"] == true)) return {};
  if (!status.ok()) return {V::kFailed, status.error().message()};
  Tolerance tol{entry(info, "rtol", 1e-4), entry(info, "atol", 1e-5)};
  tol.loose = entry(info, "loose_atol", tol.loose);
  tol.correlation = entry(info, "min_correlation", tol.correlation);
  tol.steps = static_cast<int64_t>(std::clamp(entry(info, "max_ulp_steps", 0.0), 0.0, 1e9));
  if (given_tolerance.rtol || given_tolerance.atol)
    tol = {given_tolerance.rtol.value_or(tol.rtol), given_tolerance.atol.value_or(tol.atol), -1, 2, tol.steps};
  tol.steps = given_tolerance.steps.value_or(tol.steps);
  std::vector<int> bf16;
  if (const Json* list = info.find("bf16_outputs"); list && list->is_array())
    for (const Json& k : *list)
      if (k.is_integer()) bf16.push_back(k);
  const auto wanted = numbered(folder / "outputs");
  if (wanted.empty()) return {V::kSkipped, "no stored outputs"};
  for (const fs::path& p : wanted) {
    const int k = number_of(p);
    if (k >= static_cast<int>(outputs.size())) return {V::kFailed, Cat("output ", k, " is missing")};
    const bool b = std::ranges::find(bf16, k) != bf16.end();
    if (auto why = compare_value(outputs[static_cast<size_t>(k)], p, tol, b); !why.empty())
      return {V::kFailed, Cat("output ", k, ": ", why)};
  }
  return {};
}

}  // namespace smelt::cli
