// A run on the CPU allocates nothing: the golden cases of one operator, run a second time. Where memory runs out in a
// first run, those behind it are right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/cat.h"
#include "cli/golden_case.h"
#include "cli/inputs.h"
#include "smelt/model.h"
#include "tensor/numeric.h"
#include "tests/support/allocations.h"
#include "tests/support/paths.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

/// What runs the nodes of a case, and what its second run allocates.
struct CaseRun {
  std::set<std::string> kernels;    ///< of back-ends
  std::set<std::string> reference;  ///< operators on reference kernels
  bool dynamic = false;             ///< an output has a size that only a run tells, or is no tensor
  int allocations = 0;
};

Result<Model> load_case(const fs::path& folder, const fs::path& file) {
  LoadOptions load;
  if (fs::exists(folder / "model.ptd")) load.data_files = {(folder / "model.ptd").string()};
  return Model::load(file.string(), load);
}

/// Calls body(name, folder, model file) for the golden cases of one operator. Returns how many it gave a result for;
/// suites/corpus_test.cc tells which cases must run.
template <class F>
int each_case(const fs::path& corpus, F&& body) {
  int ran = 0;
  for (const char* group : {"onnx/ops", "tflite/ops", "custom/ops", "pte/portable", "xnnpack/newer"})
    for (const auto& entry : fs::directory_iterator(corpus / group))
      for (const auto& file : fs::directory_iterator(entry.path()))
        if (file.path().stem() == "model" && file.path().extension() != ".ptd")
          ran += body(Cat(group, '/', entry.path().filename().string()), entry.path(), file.path()) ? 1 : 0;
  return ran;
}

Result<CaseRun> run_twice(const fs::path& folder, const fs::path& file) {
  SMELT_ASSIGN(const Model model, load_case(folder, file));
  SMELT_ASSIGN(const cli::Inputs inputs, cli::gather_inputs(model, "", {.files = cli::case_inputs(folder)}));
  CaseRun r;
  for (const Port& p : model.outputs())
    r.dynamic = r.dynamic || !p.is_tensor || !p.ranked || std::ranges::any_of(p.shape, [](int64_t d) { return d < 0; });
  SessionOptions options;
  options.profile = true;
  SMELT_ASSIGN(Session profiled, Session::create(model, options));
  SMELT_TRY(profiled.run_in_place(inputs.values));
  for (const ProfileEntry& e : profiled.profile()) {
    (e.kernel == "reference" ? r.reference.insert(e.op) : r.kernels.insert(e.kernel));
  }
  options.profile = false;
  SMELT_ASSIGN(Session session, Session::create(model, options));
  for (int i = 0; i < 2; ++i) SMELT_TRY(session.run_in_place(inputs.values));
  Allocations::counted = 0;
  Allocations::counting = true;
  const Status again = session.run_in_place(inputs.values).ok() ? Ok() : Status(Error(ErrorCode::kInternal, "again"));
  Allocations::counting = false;
  r.allocations = Allocations::counted;
  SMELT_TRY(again);
  return r;
}

/// Operators whose reference kernels compute in vectors of their own, in forms that no kernel of the CPU runs: strings,
/// float64 and integers where models have float32, training, control flow and containers; and views beside them, which
/// a profile counts as reference kernels. The list may only shrink.
const std::set<std::string> kAllocatingReferences = {"ArgReduce",
                                                     "BatchNorm",
                                                     "Binary",
                                                     "CategoryOneHot",
                                                     "Concat",
                                                     "Cumulative",
                                                     "Dft",
                                                     "DictVectorize",
                                                     "Einsum",
                                                     "EmbeddingLookup",
                                                     "FakeQuant",
                                                     "FeatureConcat",
                                                     "FeatureNormalize",
                                                     "Gather",
                                                     "GatherBlockQuantized",
                                                     "GatherND",
                                                     "GroupNorm",
                                                     "Hash",
                                                     "HashtableLookup",
                                                     "If",
                                                     "IndexPut",
                                                     "IndexTensors",
                                                     "LRN",
                                                     "LabelEncode",
                                                     "LayerNorm",
                                                     "LinearAttention",
                                                     "LinearModel",
                                                     "Loop",
                                                     "MatMul",
                                                     "MeanVarianceNorm",
                                                     "Mfcc",
                                                     "OptionalGet",
                                                     "OptionalHas",
                                                     "OptionalMake",
                                                     "Quantize",
                                                     "Random",
                                                     "Recurrent",
                                                     "Reduce",
                                                     "RegexMatch",
                                                     "Reshape",
                                                     "Resize",
                                                     "Scan",
                                                     "ScatterElements",
                                                     "ScatterND",
                                                     "Segment",
                                                     "SequenceAt",
                                                     "SequenceLength",
                                                     "SequenceSplit",
                                                     "Slice",
                                                     "SliceSize",
                                                     "Softmax",
                                                     "SparseToDense",
                                                     "Spectrogram",
                                                     "StateRead",
                                                     "StateWrite",
                                                     "StridedSlice",
                                                     "StringConcat",
                                                     "TensorScatter",
                                                     "TfIdf",
                                                     "TfLstm",
                                                     "TfRnn",
                                                     "TfSvdf",
                                                     "Tile",
                                                     "TopK",
                                                     "Transpose",
                                                     "TreeEnsemble",
                                                     "Unary",
                                                     "Where"};

/// Kernels of nodes whose shapes depend on what inputs hold, so that a run first infers them (ShapeGuard).
const std::set<std::string> kShapesFromContents = {"grouped_query_attention_f32"};

TEST(AllocationOfCases, ASecondRunAllocatesNothing) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  const fs::path corpus = corpus_folder();
  if (corpus.empty()) GTEST_SKIP() << "the golden cases are not unpacked";
  std::set<std::string> kernels, allocating;
  const int ran = each_case(corpus, [&](const std::string& name, const fs::path& folder, const fs::path& file) {
    const auto r = run_twice(folder, file);
    if (!r.ok()) return false;
    if (r->allocations == 0) kernels.insert(r->kernels.begin(), r->kernels.end());
    if (r->allocations == 0 || r->dynamic) return true;
    allocating.insert(r->reference.begin(), r->reference.end());
    if (r->reference.empty() && !std::ranges::includes(kShapesFromContents, r->kernels))
      ADD_FAILURE() << name << ": " << r->allocations << " allocations by "
                    << (r->kernels.empty() ? "no kernel" : *r->kernels.begin());
    return true;
  });
  EXPECT_GT(ran, 1000);
  EXPECT_GT(kernels.size(), 50u) << "kernels that ran and allocated nothing";
  for (const std::string& op : allocating)
    EXPECT_TRUE(kAllocatingReferences.contains(op)) << "the reference kernel of " << op << " allocates in every run";
  for (const std::string& op : kAllocatingReferences)
    EXPECT_TRUE(allocating.contains(op)) << op << " allocates no more: take it off the list";
}

/// True for values of the same bits.
bool equal(const Datum& a, const Datum& b) {
  if (a.kind != b.kind || static_cast<bool>(a.items) != static_cast<bool>(b.items)) return false;
  if (a.items) return std::ranges::equal(*a.items, *b.items, equal);
  return !a.is_tensor() || (a.tensor.dtype() == b.tensor.dtype() && a.tensor.shape() == b.tensor.shape() &&
                            same_contents(a.tensor, b.tensor, SIZE_MAX));
}

/// Makes memory run out at a few places of a session's first run. Returns what then gives other results than a session
/// of its own; "": nothing.
Result<std::string> fail_first_runs(const fs::path& folder, const fs::path& file) {
  constexpr int kPlaces = 12;
  SMELT_ASSIGN(const Model model, load_case(folder, file));
  SMELT_ASSIGN(const cli::Inputs inputs, cli::gather_inputs(model, "", {.files = cli::case_inputs(folder)}));
  SMELT_ASSIGN(Session fresh, Session::create(model));
  Allocations::counted = 0;
  Allocations::counting = true;
  auto first = fresh.run(inputs.values);
  Allocations::counting = false;
  const int most = Allocations::counted;
  SMELT_ASSIGN(const std::vector<Datum> want, std::move(first));
  fresh.reset_state();
  SMELT_ASSIGN(const std::vector<Datum> second, fresh.run(inputs.values));
  if (!std::ranges::equal(want, second, equal)) return std::string();  // random values
  // All over it, and each of the last ones, which are those of the steps.
  std::set<int> places;
  for (int i = 0; i < kPlaces; ++i) {
    places.insert(static_cast<int>(int64_t{most} * (2 * i + 1) / (2 * kPlaces)));
    places.insert(std::max(0, most - 1 - i));
  }
  for (const int n : places) {
    SMELT_ASSIGN(Session session, Session::create(model));
    Allocations::left = n;
    static_cast<void>(session.run(inputs.values).ok());
    Allocations::left = -1;
    for (int again = 0; again < 2; ++again) {
      session.reset_state();
      const auto got = session.run(inputs.values);
      if (!got.ok()) return Cat("after ", n, " of ", most, " allocations: ", got.error().message());
      if (!std::ranges::equal(want, *got, equal)) return Cat("after ", n, " of ", most, " allocations: other results");
    }
  }
  return std::string();
}

TEST(AllocationOfCases, MemoryMayRunOutInFirstRuns) {
  if (!SMELT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  const fs::path corpus = corpus_folder();
  if (corpus.empty()) GTEST_SKIP() << "the golden cases are not unpacked";
  const int ran = each_case(corpus, [](const std::string& name, const fs::path& folder, const fs::path& file) {
    const auto r = fail_first_runs(folder, file);
    if (r.ok()) {
      EXPECT_EQ(*r, "") << name;
    }
    return r.ok();
  });
  EXPECT_GT(ran, 1000);
}

}  // namespace
}  // namespace smelt
