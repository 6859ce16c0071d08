#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "bundled_program_bp04_generated.h"
#include "bundled_program_bp08_generated.h"
#include "formats/bundle/bundle.h"
#include "formats/executorch/aten/aten.h"
#include "tensor/numeric.h"

namespace smelt::bundle {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

/// What both layouts store of a tensor.
struct StoredTensor {
  fb::et::ScalarType type{};
  std::vector<int32_t> sizes;
  std::vector<uint8_t> data, dim_order;
};

Result<StoredTensor> stored(const Datum& d) {
  if (!d.is_tensor()) return InvalidInput("a bundle holds tensors and numbers only");
  const Tensor& t = d.tensor;
  const int64_t number = aten::scalar_type_number(t.dtype());
  if (number < 0) return InvalidInput("a bundle cannot hold ", smelt::to_string(t.dtype()));
  StoredTensor out;
  out.type = static_cast<fb::et::ScalarType>(number);
  for (int64_t n : t.shape().dims()) {
    if (n > INT32_MAX) return InvalidInput("dimension ", n, " is too large for a bundle");
    out.sizes.push_back(static_cast<int32_t>(n));
  }
  out.dim_order.resize(static_cast<size_t>(t.rank()));
  std::iota(out.dim_order.begin(), out.dim_order.end(), uint8_t{0});
  const auto* bytes = t.data<uint8_t>();
  out.data.assign(bytes, bytes + t.bytes());
  return out;
}

Result<Offset<fb::bp04::BundledValue>> value04(FlatBufferBuilder& b, const TestValue& v) {
  using Kind = fb::bp04::BundledValueUnion;
  const auto wrap = [&](Kind kind, Offset<void> at) { return fb::bp04::CreateBundledValue(b, kind, at); };
  switch (v.kind) {
    case TestValue::Kind::kNone:
      return wrap(Kind::NONE, 0);
    case TestValue::Kind::kInt:
      return wrap(Kind::BundledInt, fb::bp04::CreateBundledInt(b, get_int(v.datum.tensor, 0)).Union());
    case TestValue::Kind::kBool:
      return wrap(Kind::BundledBool, fb::bp04::CreateBundledBool(b, get_int(v.datum.tensor, 0) != 0).Union());
    case TestValue::Kind::kDouble:
      return wrap(Kind::BundledDouble, fb::bp04::CreateBundledDouble(b, get_double(v.datum.tensor, 0)).Union());
    case TestValue::Kind::kTensor:
      break;
  }
  SMELT_ASSIGN(const StoredTensor t, stored(v.datum));
  return wrap(Kind::BundledTensor,
              fb::bp04::CreateBundledTensorDirect(b, t.type, &t.sizes, &t.data, &t.dim_order).Union());
}

Result<Offset<fb::bp08::Value>> value08(FlatBufferBuilder& b, const TestValue& v) {
  using Kind = fb::bp08::ValueUnion;
  const auto wrap = [&](Kind kind, Offset<void> at) { return fb::bp08::CreateValue(b, kind, at); };
  switch (v.kind) {
    case TestValue::Kind::kNone:
      return wrap(Kind::NONE, 0);
    case TestValue::Kind::kInt:
      return wrap(Kind::Int, fb::bp08::CreateInt(b, get_int(v.datum.tensor, 0)).Union());
    case TestValue::Kind::kBool:
      return wrap(Kind::Bool, fb::bp08::CreateBool(b, get_int(v.datum.tensor, 0) != 0).Union());
    case TestValue::Kind::kDouble:
      return wrap(Kind::Double, fb::bp08::CreateDouble(b, get_double(v.datum.tensor, 0)).Union());
    case TestValue::Kind::kTensor:
      break;
  }
  SMELT_ASSIGN(const StoredTensor t, stored(v.datum));
  return wrap(Kind::Tensor, fb::bp08::CreateTensorDirect(b, t.type, &t.sizes, &t.data, &t.dim_order).Union());
}

template <class V, class Make>
Result<std::vector<Offset<V>>> all(FlatBufferBuilder& b, const std::vector<TestValue>& list, Make&& make) {
  std::vector<Offset<V>> out;
  for (const TestValue& v : list) {
    SMELT_ASSIGN(out.emplace_back(), make(b, v));
  }
  return out;
}

std::vector<uint8_t> copy(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  return std::vector<uint8_t>(data, data + bytes.size());
}

Result<std::vector<uint8_t>> write04(const Bundle& bundle, size_t plans) {
  FlatBufferBuilder b(bundle.program.size() + 4096);
  std::vector<Offset<fb::bp04::BundledExecutionPlanTest>> tests;
  for (size_t i = 0; i < plans; ++i) {
    std::vector<Offset<fb::bp04::BundledIOSet>> sets;
    for (const MethodTests& m : bundle.tests) {
      if (m.plan != i) continue;
      for (const TestSet& s : m.sets) {
        SMELT_ASSIGN(const auto in, all<fb::bp04::BundledValue>(b, s.inputs, value04));
        SMELT_ASSIGN(const auto out, all<fb::bp04::BundledValue>(b, s.expected, value04));
        sets.push_back(fb::bp04::CreateBundledIOSetDirect(b, &in, &out));
      }
    }
    tests.push_back(fb::bp04::CreateBundledExecutionPlanTestDirect(b, &sets));
  }
  const auto program = copy(bundle.program);
  const auto root = fb::bp04::CreateBundledProgramDirect(b, 0, nullptr, &tests, &program);
  b.Finish(root, "BP04");
  return std::vector<uint8_t>(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
}

Result<std::vector<uint8_t>> write08(const Bundle& bundle) {
  FlatBufferBuilder b(bundle.program.size() + 4096);
  std::vector<Offset<fb::bp08::BundledMethodTestSuite>> suites;
  for (const MethodTests& m : bundle.tests) {
    std::vector<Offset<fb::bp08::BundledMethodTestCase>> sets;
    for (const TestSet& s : m.sets) {
      SMELT_ASSIGN(const auto in, all<fb::bp08::Value>(b, s.inputs, value08));
      SMELT_ASSIGN(const auto out, all<fb::bp08::Value>(b, s.expected, value08));
      sets.push_back(fb::bp08::CreateBundledMethodTestCaseDirect(b, &in, &out));
    }
    suites.push_back(fb::bp08::CreateBundledMethodTestSuiteDirect(b, m.method.c_str(), &sets));
  }
  const auto program = copy(bundle.program);
  const auto root = fb::bp08::CreateBundledProgramDirect(b, 0, &suites, &program);
  b.Finish(root, "BP08");
  return std::vector<uint8_t>(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
}

}  // namespace

Result<std::vector<uint8_t>> write(const Bundle& bundle, size_t plans) {
  size_t bytes = bundle.program.size();
  for (const MethodTests& m : bundle.tests)
    for (const TestSet& s : m.sets)
      for (const auto* list : {&s.inputs, &s.expected})
        for (const TestValue& v : *list) bytes += v.datum.is_tensor() ? v.datum.tensor.bytes() + 256 : 256;
  if (bytes > (size_t{1} << 31) - (1 << 20)) return LimitReached("a bundle holds at most 2 GB");
  return bundle.version == Version::kBp04 ? write04(bundle, plans) : write08(bundle);
}

}  // namespace smelt::bundle
