#include "cli/verify_bundle.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
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
    c.why = fmt::format("{} of {} elements differ, the first at {}: {:.9g}, {:.9g} expected", wrong, want.elements(),
                        position(first, want.shape()), get_double(got, first), get_double(want, first));
  }
  return c;
}

SetResult compare_outputs(const bundle::TestSet& set, const std::vector<Datum>& got, const MatchRule& rule) {
  using V = SetResult::Verdict;
  SetResult r;
  if (set.expected.empty()) return {V::kSkipped, "", "no expected outputs"};
  if (set.expected.size() != got.size())
    return {V::kFailed, "", Cat(got.size(), " outputs, ", set.expected.size(), " expected")};
  double largest = 0;
  std::string at;
  int64_t compared = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const Datum& want = set.expected[i].datum;
    if (want.is_tensor() != got[i].is_tensor())
      return {V::kFailed, "", Cat("output ", i, ": a value where none is expected, or none")};
    if (!want.is_tensor()) continue;
    const Comparison c = compare(want.tensor, got[i].tensor, rule);
    if (!c.equal) return {V::kFailed, "", Cat("output ", i, ": ", c.why)};
    compared += c.compared;
    if (c.largest > largest) {
      largest = c.largest;
      at = fmt::format(" in output {} at {}", i, position(c.where, want.tensor.shape()));
    }
  }
  r.text = fmt::format("{} outputs, {} elements, largest difference {:.3g}{}", got.size(), compared, largest, at);
  return r;
}

}  // namespace

Result<std::vector<SetResult>> verify_bundle(const std::string& path, const LoadOptions& load,
                                             const SessionOptions& options, const MatchRule& rule) {
  SMELT_ASSIGN(const auto file, MappedFile::open(path));
  auto parsed = bundle::read(file->bytes(), file);
  if (!parsed.ok()) return parsed.error().within(path);
  SMELT_ASSIGN(const Model model, Model::load(path, load));
  const auto methods = model.methods();
  auto session = Session::create(model, options);
  if (!session.ok()) return session.error().within(path);
  std::vector<SetResult> out;
  for (const bundle::MethodTests& tests : parsed->tests) {
    if (parsed->version == bundle::Version::kBp04 && tests.plan >= methods.size())
      return InvalidModel(path, ": tests of plan ", tests.plan, ", the program has ", methods.size());
    const std::string method = parsed->version == bundle::Version::kBp04 ? methods[tests.plan] : tests.method;
    for (size_t i = 0; i < tests.sets.size(); ++i) {
      const bundle::TestSet& set = tests.sets[i];
      const std::string name = Cat(method, ", set ", i);
      std::vector<Datum> inputs;
      for (const bundle::TestValue& v : set.inputs) inputs.push_back(v.datum);
      const auto got = session->run(method, inputs);
      if (!got.ok()) return got.error().within(Cat(path, ": ", name));
      SetResult r = compare_outputs(set, *got, rule);
      r.name = name;
      out.push_back(std::move(r));
    }
  }
  if (out.empty()) return InvalidModel(path, ": the bundle holds no test set");
  return out;
}

}  // namespace smelt::cli
