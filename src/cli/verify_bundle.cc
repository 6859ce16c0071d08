#include "cli/verify_bundle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/output.h"
#include "formats/bundle/bundle.h"
#include "graph/graph.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

/// Row-major position of element i: "[0,2,1]".
std::string position(int64_t i, const Shape& shape) {
  const Shape strides = shape.strides();
  std::string out = "[";
  for (int d = 0; d < shape.rank(); ++d)
    out += Cat(d ? "," : "", strides[d] ? i / strides[d] % std::max<int64_t>(shape[d], 1) : 0);
  return out + "]";
}

/// The comparison of one output.
struct Comparison {
  bool equal = true;
  std::string why;     ///< of a mismatch
  double largest = 0;  ///< difference of numbers, and where
  int64_t where = 0;
  int64_t compared = 0;
};

bool by_tolerance(DType dtype, const MatchRule& rule) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || (rule.given && dtype == DType::kBF16);
}

Comparison compare(const Tensor& want, const Tensor& got, const MatchRule& rule) {
  Comparison c;
  c.compared = want.elements();
  if (want.dtype() != got.dtype() || !(want.shape() == got.shape())) {
    c.equal = false;
    c.why =
        Cat(to_string(got.dtype()), got.shape().str(), ", ", to_string(want.dtype()), want.shape().str(), " expected");
    return c;
  }
  const bool near = by_tolerance(want.dtype(), rule);
  if (!near && want.bytes() > 0 && std::memcmp(want.raw(), got.raw(), want.bytes()) == 0) return c;
  int64_t wrong = 0, first = 0;
  for (int64_t i = 0; i < want.elements(); ++i) {
    const double e = get_double(want, i), g = get_double(got, i);
    const bool same = e == g || (std::isnan(e) && std::isnan(g));
    const double difference = same ? 0 : std::fabs(e - g);
    if (difference > c.largest || (std::isnan(difference) && !std::isnan(c.largest))) {
      c.largest = difference;
      c.where = i;
    }
    const bool equal =
        near ? same || (std::isfinite(e) && std::isfinite(g) && difference <= rule.atol + std::fabs(rule.rtol * g))
             : std::memcmp(
                   want.data<char>() + static_cast<size_t>(i) * (want.bytes() / static_cast<size_t>(want.elements())),
                   got.data<char>() + static_cast<size_t>(i) * (want.bytes() / static_cast<size_t>(want.elements())),
                   want.bytes() / static_cast<size_t>(want.elements())) == 0;
    if (!equal && wrong++ == 0) first = i;
  }
  if (wrong > 0) {
    c.equal = false;
    c.why =
        formatted("{} of {} elements differ, the first at {}: {:.9g}, {:.9g} expected; largest difference {:.3g} at {}",
                  wrong, want.elements(), position(first, want.shape()), get_double(got, first),
                  get_double(want, first), c.largest, position(c.where, want.shape()));
  }
  return c;
}

SetResult compare_outputs(const bundle::TestSet& set, const std::vector<Datum>& got,
                          const std::vector<bundle::TestValue::Kind>& kinds, const MatchRule& rule) {
  using V = SetResult::Verdict;
  if (set.expected.empty()) return {V::kSkipped, "", "no expected outputs"};
  if (set.expected.size() != got.size())
    return {V::kFailed, "", Cat(got.size(), " outputs, ", set.expected.size(), " expected")};
  double largest = 0;
  std::string at, wrong;
  int64_t compared = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const bundle::TestValue& want = set.expected[i];
    std::string why;
    if (want.datum.is_tensor() != got[i].is_tensor() || (i < kinds.size() && want.kind != kinds[i])) {
      why = Cat(bundle::to_string(i < kinds.size() ? kinds[i] : bundle::TestValue::Kind::kTensor), ", ",
                bundle::to_string(want.kind), " expected");
    } else if (want.datum.is_tensor()) {
      const Comparison c = compare(want.datum.tensor, got[i].tensor, rule);
      why = c.why;
      compared += c.compared;
      if (c.largest > largest) {
        largest = c.largest;
        at = formatted(" in output {} at {}", i, position(c.where, want.datum.tensor.shape()));
      }
    }
    if (!why.empty()) wrong += Cat(wrong.empty() ? "" : "; ", "output ", i, ": ", why);
  }
  if (!wrong.empty()) return {V::kFailed, "", wrong};
  return {V::kPassed, "",
          formatted("{} outputs, {} elements, largest difference {:.3g}{}", got.size(), compared, largest, at)};
}

/// Runs one set on the session's state.
SetResult run_set(Session& session, const std::string& method, const bundle::TestSet& set,
                  const bundle::MethodKinds& kinds, const MatchRule& rule) {
  using V = SetResult::Verdict;
  std::vector<Datum> inputs;
  for (size_t i = 0; i < set.inputs.size(); ++i) {
    const bundle::TestValue& v = set.inputs[i];
    if (i < kinds.inputs.size() && v.kind != kinds.inputs[i])
      return {V::kBroken, "",
              Cat("input ", i, " is ", bundle::to_string(v.kind), ", the method takes ",
                  bundle::to_string(kinds.inputs[i]))};
    inputs.push_back(v.datum);
  }
  const auto got = session.run(method, inputs);
  if (!got.ok()) return {V::kBroken, "", got.error().message()};
  return compare_outputs(set, *got, kinds.outputs, rule);
}

}  // namespace

Result<std::vector<SetResult>> verify_bundle(const std::string& path, const LoadOptions& load,
                                             const SessionOptions& options, const MatchRule& rule) {
  using V = SetResult::Verdict;
  SMELT_ASSIGN(const auto file, MappedFile::open(path));
  auto parsed = bundle::read(file->bytes(), file);
  if (!parsed.ok()) return parsed.error().within(path);
  SMELT_ASSIGN(const Model model, Model::load(path, load));
  const auto methods = model.methods();
  auto session = Session::create(model, options);
  if (!session.ok()) return session.error().within(path);
  std::vector<SetResult> out;
  std::vector<size_t> tested(methods.size(), 0);
  std::map<size_t, bundle::MethodKinds> read_kinds;
  size_t sets = 0;
  for (const bundle::MethodTests& tests : parsed->tests) {
    size_t plan = tests.plan;
    if (parsed->version == bundle::Version::kBp08)
      plan = static_cast<size_t>(std::ranges::find(methods, tests.method) - methods.begin());
    sets += tests.sets.size();
    if (plan >= methods.size()) {
      const bool named = parsed->version == bundle::Version::kBp08;
      out.push_back({V::kBroken, named ? tests.method : Cat("plan ", plan),
                     Cat(tests.sets.size(), " test sets, but the program has no such method")});
      continue;
    }
    auto kinds = read_kinds.find(plan);
    if (kinds == read_kinds.end()) {
      auto read = bundle::method_kinds(parsed->program, plan);
      if (!read.ok()) return read.error().within(path);
      kinds = read_kinds.emplace(plan, std::move(read).value()).first;
    }
    tested[plan] += tests.sets.size();
    for (size_t i = 0; i < tests.sets.size(); ++i) {
      SetResult r = run_set(*session, methods[plan], tests.sets[i], kinds->second, rule);
      r.name = Cat(methods[plan], ", set ", i);
      out.push_back(std::move(r));
    }
  }
  if (sets == 0) return InvalidModel(path, ": the bundle holds no test set");
  for (size_t m = 0; m < methods.size(); ++m)
    if (tested[m] == 0) out.push_back({V::kSkipped, methods[m], "no test set"});
  return out;
}

}  // namespace smelt::cli
