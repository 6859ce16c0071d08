#include "cli/onnx_case.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/output.h"
#include "formats/onnx/test_data.h"
#include "graph/graph.h"
#include "runtime/model_access.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

namespace fs = std::filesystem;

struct Bounds {
  double rtol, atol;
};

Bounds bounds(DType dtype, const CaseTolerance& t) {
  Bounds b{1e-3, 1e-5};
  if (dtype == DType::kF64 || dtype == DType::kC128) b = {1e-3, 1e-7};
  if (dtype == DType::kF16) b = {1e-3, 1e-3};
  if (dtype == DType::kBF16) b = {0.016, 0.016};
  if (is_float(dtype) && Tensor::byte_size(dtype, 1) == 1) b = {0, 0};
  return {t.rtol.value_or(b.rtol), t.atol.value_or(b.atol)};
}

std::string mismatch(const Tensor& want, const Tensor& got, const CaseTolerance& tolerance) {
  if (want.dtype() != got.dtype() || !(want.shape() == got.shape()))
    return Cat(to_string(got.dtype()), got.shape().str(), ", ", to_string(want.dtype()), want.shape().str(),
               " expected");
  if (want.dtype() == DType::kString) {
    for (int64_t i = 0; i < want.elements(); ++i)
      if (want.data<std::string>()[i] != got.data<std::string>()[i]) return Cat("element ", i, " is another text");
    return "";
  }
  const auto [rtol, atol] = bounds(want.dtype(), tolerance);
  const bool complex = is_complex(want.dtype());
  const DType part = want.dtype() == DType::kC64 ? DType::kF32 : DType::kF64;
  const int64_t n = want.elements() * (complex ? 2 : 1);
  const Tensor a = complex ? Tensor::view(part, Shape{n}, want.raw(), want.owner()) : want;
  const Tensor b = complex ? Tensor::view(part, Shape{n}, got.raw(), got.owner()) : got;
  const bool real = is_float(a.dtype());
  for (int64_t i = 0; i < n; ++i) {
    const double e = real ? get_double(a, i) : 0, g = real ? get_double(b, i) : 0;
    const bool equal =
        real ? e == g || (std::isnan(e) && std::isnan(g)) || std::fabs(e - g) <= atol + rtol * std::fabs(e)
             : get_int(a, i) == get_int(b, i);
    if (!equal) return formatted("element {} is {:.9g}, {:.9g} expected", i, get_double(b, i), get_double(a, i));
  }
  return "";
}

/// Values FOLDER/NAME_0.pb, NAME_1.pb, ... of the graph's inputs or outputs.
Result<std::vector<Datum>> read_values(const fs::path& folder, const char* name, const Graph& graph,
                                       const std::vector<ValueId>& ids) {
  std::vector<Datum> out;
  for (size_t k = 0; k < ids.size(); ++k) {
    const fs::path path = folder / Cat(name, "_", k, ".pb");
    std::error_code ec;
    if (!fs::exists(path, ec)) break;
    SMELT_ASSIGN(const auto file, MappedFile::open(path.string()));
    auto value = onnx::read_test_value(file->bytes(), file, graph.value(ids[k]).type);
    if (!value.ok()) return value.error().within(path.string());
    out.push_back(std::move(value).value());
  }
  return out;
}

}  // namespace

std::string mismatch(const Datum& want, const Datum& got, const CaseTolerance& tolerance) {
  if (want.kind != got.kind) return "another kind of value";
  if (want.is_tensor()) return mismatch(want.tensor, got.tensor, tolerance);
  if (want.none()) return "";
  if (want.items->size() != got.items->size())
    return Cat(got.items->size(), " elements, ", want.items->size(), " expected");
  for (size_t i = 0; i < want.items->size(); ++i)
    if (auto why = mismatch((*want.items)[i], (*got.items)[i], tolerance); !why.empty())
      return Cat("element ", i, ": ", why);
  return "";
}

Result<std::vector<OnnxTestSet>> read_onnx_sets(const Model& model, const fs::path& folder) {
  const Graph& graph = module_of(model).graphs[static_cast<size_t>(module_of(model).methods[0].graph)];
  std::vector<fs::path> paths;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(folder, ec))
    if (e.path().filename().string().starts_with("test_data_set_")) paths.push_back(e.path());
  std::sort(paths.begin(), paths.end());
  std::vector<OnnxTestSet> sets;
  for (const fs::path& path : paths) {
    OnnxTestSet set{.name = path.filename().string()};
    SMELT_ASSIGN(set.inputs, read_values(path, "input", graph, graph.inputs));
    SMELT_ASSIGN(set.wanted, read_values(path, "output", graph, graph.outputs));
    set.inputs.resize(graph.inputs.size());
    sets.push_back(std::move(set));
  }
  return sets;
}

Result<std::vector<SetResult>> run_onnx_case(const fs::path& folder, LoadOptions load, const SessionOptions& options,
                                             const CaseTolerance& tolerance) {
  using V = SetResult::Verdict;
  load.data_files.clear();
  SMELT_ASSIGN(const Model model, Model::load((folder / "model.onnx").string(), load));
  SMELT_ASSIGN(const auto sets, read_onnx_sets(model, folder));
  std::vector<SetResult> out;
  for (const OnnxTestSet& set : sets) {
    SetResult r;
    r.name = set.name;
    SMELT_ASSIGN(Session session, Session::create(model, options));
    const auto got = session.run(set.inputs);
    if (!got.ok()) {
      r.verdict = V::kFailed;
      r.text = got.error().message();
    } else if (set.wanted.empty()) {
      r.verdict = V::kSkipped;
      r.text = "no stored outputs";
    } else {
      for (size_t k = 0; k < set.wanted.size() && r.text.empty(); ++k)
        if (auto why = mismatch(set.wanted[k], (*got)[k], tolerance); !why.empty()) {
          r.verdict = V::kFailed;
          r.text = Cat("output ", k, ": ", why);
        }
    }
    out.push_back(std::move(r));
  }
  if (out.empty()) out.push_back({V::kSkipped, "model.onnx", "no test_data_set_N beside it"});
  return out;
}

}  // namespace smelt::cli
