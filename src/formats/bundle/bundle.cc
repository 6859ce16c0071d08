#include "formats/bundle/bundle.h"

#include <cstring>

#include "base/error.h"
#include "bundled_program_bp04_generated.h"
#include "bundled_program_bp08_generated.h"
#include "formats/executorch/aten/aten.h"
#include "formats/executorch/values.h"
#include "tensor/numeric.h"

namespace smelt::bundle {
namespace {

using Bytes = std::span<const std::byte>;

/// What keeps the bytes, and how much may still be taken out of them: tables may be shared within a file, so that a
/// small one can hold enormous numbers of values.
struct Owner {
  std::shared_ptr<const void> bytes;
  size_t budget;  ///< bytes of values and copies

  Status charge(size_t n) {
    if (n > budget) return LimitReached("the values of the bundle are larger than the file");
    budget -= n;
    return Ok();
  }
};

TestValue number(TestValue::Kind kind, DType dtype, int64_t i, double d) {
  Tensor t(dtype, Shape{});
  if (is_float(dtype))
    set_double(t, 0, d);
  else
    set_int(t, 0, i);
  return {kind, Datum(std::move(t))};
}

/// A tensor of either layout: scalar type, sizes, dim_order, data.
template <class T>
Result<TestValue> tensor(const T& t, Owner& owner) {
  const DType dtype = aten::scalar_type(static_cast<int64_t>(t.scalar_type()));
  if (dtype == DType::kInvalid) return InvalidModel("unknown scalar type ", static_cast<int>(t.scalar_type()));
  SMELT_ASSIGN(const Shape shape, executorch::read_shape(t.sizes()));
  SMELT_ASSIGN(const auto order, executorch::read_dim_order(t.dim_order(), shape.rank()));
  const Bytes data = t.data() ? Bytes(reinterpret_cast<const std::byte*>(t.data()->data()), t.data()->size()) : Bytes();
  SMELT_ASSIGN(Tensor made, executorch::tensor_from(dtype, shape, order, data, owner.bytes));
  if (made.raw() != data.data()) SMELT_TRY(owner.charge(made.bytes()));
  if (made.bytes() != data.size())
    return InvalidModel(data.size(), " bytes of data for ", made.bytes(), " of ", smelt::to_string(dtype), shape.str());
  return TestValue{TestValue::Kind::kTensor, Datum(std::move(made))};
}

Result<TestValue> value(const fb::bp04::BundledValue& v, Owner& owner) {
  using Kind = fb::bp04::BundledValueUnion;
  if (v.val_type() != Kind::NONE && !v.val()) return InvalidModel("its contents are missing");
  switch (v.val_type()) {
    case Kind::NONE:
      return TestValue{};
    case Kind::BundledTensor:
      return tensor(*v.val_as_BundledTensor(), owner);
    case Kind::BundledInt:
      return number(TestValue::Kind::kInt, DType::kI64, v.val_as_BundledInt()->int_val(), 0);
    case Kind::BundledBool:
      return number(TestValue::Kind::kBool, DType::kBool, v.val_as_BundledBool()->bool_val(), 0);
    case Kind::BundledDouble:
      return number(TestValue::Kind::kDouble, DType::kF64, 0, v.val_as_BundledDouble()->double_val());
  }
  return InvalidModel("unknown kind of value ", static_cast<int>(v.val_type()));
}

Result<TestValue> value(const fb::bp08::Value& v, Owner& owner) {
  using Kind = fb::bp08::ValueUnion;
  if (v.val_type() != Kind::NONE && !v.val()) return InvalidModel("its contents are missing");
  switch (v.val_type()) {
    case Kind::NONE:
      return TestValue{};
    case Kind::Tensor:
      return tensor(*v.val_as_Tensor(), owner);
    case Kind::Int:
      return number(TestValue::Kind::kInt, DType::kI64, v.val_as_Int()->int_val(), 0);
    case Kind::Bool:
      return number(TestValue::Kind::kBool, DType::kBool, v.val_as_Bool()->bool_val(), 0);
    case Kind::Double:
      return number(TestValue::Kind::kDouble, DType::kF64, 0, v.val_as_Double()->double_val());
  }
  return InvalidModel("unknown kind of value ", static_cast<int>(v.val_type()));
}

template <class List>
Status values(const List* list, const char* what, Owner& owner, std::vector<TestValue>& out) {
  if (!list) return Ok();
  for (uint32_t i = 0; i < list->size(); ++i) {
    SMELT_TRY(owner.charge(sizeof(TestValue)));
    auto v = value(*list->Get(i), owner);
    if (!v.ok()) return v.error().within(Cat(what, " ", i));
    out.push_back(std::move(v).value());
  }
  return Ok();
}

template <class Sets>
Status sets_of(const Sets* sets, Owner& owner, MethodTests& out) {
  if (!sets) return Ok();
  for (uint32_t i = 0; i < sets->size(); ++i) {
    SMELT_TRY(owner.charge(sizeof(TestSet)));
    TestSet set;
    auto s = values(sets->Get(i)->inputs(), "input", owner, set.inputs);
    if (s.ok()) s = values(sets->Get(i)->expected_outputs(), "expected output", owner, set.expected);
    if (!s.ok()) return s.error().within(Cat("test set ", i));
    out.sets.push_back(std::move(set));
  }
  return Ok();
}

/// An attachment as text: numbers and strings as they are, bytes as their number.
std::pair<std::string, std::string> attachment(const fb::bp04::BundledAttachment& a) {
  using Kind = fb::bp04::BundledAttachmentValueUnion;
  std::pair<std::string, std::string> out{a.key() ? a.key()->str() : "", ""};
  const auto* v = a.val();
  if (!v || !v->val()) return out;
  switch (v->val_type()) {
    case Kind::BundledBytes:
      out.second =
          Cat(v->val_as_BundledBytes()->bytes_value() ? v->val_as_BundledBytes()->bytes_value()->size() : 0, " bytes");
      break;
    case Kind::BundledInt:
      out.second = Cat(v->val_as_BundledInt()->int_val());
      break;
    case Kind::BundledDouble:
      out.second = Cat(v->val_as_BundledDouble()->double_val());
      break;
    case Kind::BundledBool:
      out.second = v->val_as_BundledBool()->bool_val() ? "true" : "false";
      break;
    case Kind::BundledString:
      if (const auto* text = v->val_as_BundledString()->string_value()) out.second = text->str();
      break;
    case Kind::NONE:
      break;
  }
  return out;
}

template <class List>
std::vector<std::pair<std::string, std::string>> attachments(const List* list) {
  std::vector<std::pair<std::string, std::string>> out;
  if (list)
    for (const auto* a : *list) out.push_back(attachment(*a));
  return out;
}

template <class Root>
Result<const Root*> root_of(Bytes bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 64, 1'000'000);
  if (!verifier.VerifyBuffer<Root>(nullptr)) return InvalidModel("the bundle's flatbuffer is broken");
  return flatbuffers::GetRoot<Root>(bytes.data());
}

template <class Root>
Result<Bytes> program_in(const Root* root) {
  const auto* program = root->program();
  if (!program || program->size() == 0) return InvalidModel("the bundle holds no program");
  return Bytes(reinterpret_cast<const std::byte*>(program->data()), program->size());
}

Version version_of(Bytes bytes) {
  return std::memcmp(bytes.data() + 4, "BP04", 4) == 0 ? Version::kBp04 : Version::kBp08;
}

Result<Bundle> read_bp04(Bytes bytes, Owner& owner) {
  SMELT_ASSIGN(const auto* root, root_of<fb::bp04::BundledProgram>(bytes));
  Bundle out;
  out.version = Version::kBp04;
  SMELT_ASSIGN(out.program, program_in(root));
  out.attachments = attachments(root->attachments());
  if (!root->execution_plan_tests()) return out;
  for (uint32_t i = 0; i < root->execution_plan_tests()->size(); ++i) {
    const auto* plan = root->execution_plan_tests()->Get(i);
    MethodTests tests;
    tests.plan = i;
    tests.metadata = attachments(plan->metadata());
    if (auto s = sets_of(plan->test_sets(), owner, tests); !s.ok()) return s.error().within(Cat("tests of plan ", i));
    out.tests.push_back(std::move(tests));
  }
  return out;
}

Result<Bundle> read_bp08(Bytes bytes, Owner& owner) {
  SMELT_ASSIGN(const auto* root, root_of<fb::bp08::BundledProgram>(bytes));
  Bundle out;
  SMELT_ASSIGN(out.program, program_in(root));
  if (!root->method_test_suites()) return out;
  for (const auto* suite : *root->method_test_suites()) {
    MethodTests tests;
    if (!suite->method_name()) return InvalidModel("tests without a method's name");
    tests.method = suite->method_name()->str();
    if (auto s = sets_of(suite->test_cases(), owner, tests); !s.ok())
      return s.error().within(Cat("tests of '", tests.method, "'"));
    out.tests.push_back(std::move(tests));
  }
  return out;
}

}  // namespace

bool recognise(Bytes b) {
  return b.size() >= 8 && (std::memcmp(b.data() + 4, "BP04", 4) == 0 || std::memcmp(b.data() + 4, "BP08", 4) == 0);
}

Result<Bundle> read(Bytes bytes, const std::shared_ptr<const void>& keeper) {
  if (!recognise(bytes)) return InvalidModel("not a bundled program (BP04 or BP08)");
  Owner owner{keeper, (size_t{32} << 20) + 8 * bytes.size()};
  return version_of(bytes) == Version::kBp04 ? read_bp04(bytes, owner) : read_bp08(bytes, owner);
}

Result<Bytes> program_of(Bytes bytes) {
  if (!recognise(bytes)) return InvalidModel("not a bundled program (BP04 or BP08)");
  if (version_of(bytes) == Version::kBp04) {
    SMELT_ASSIGN(const auto* root, root_of<fb::bp04::BundledProgram>(bytes));
    return program_in(root);
  }
  SMELT_ASSIGN(const auto* root, root_of<fb::bp08::BundledProgram>(bytes));
  return program_in(root);
}

}  // namespace smelt::bundle
