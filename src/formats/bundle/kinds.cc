#include "base/error.h"
#include "formats/bundle/bundle.h"
#include "formats/executorch/file.h"

namespace smelt::bundle {
namespace {

using Kind = TestValue::Kind;

Kind kind_of(fb::et::KernelTypes type) {
  switch (type) {
    case fb::et::KernelTypes::Int:
      return Kind::kInt;
    case fb::et::KernelTypes::Bool:
      return Kind::kBool;
    case fb::et::KernelTypes::Double:
      return Kind::kDouble;
    case fb::et::KernelTypes::Tensor:
      return Kind::kTensor;
    default:
      return Kind::kNone;
  }
}

}  // namespace

const char* to_string(Kind kind) {
  static const char* const names[] = {"none", "tensor", "int", "bool", "double"};
  return names[static_cast<int>(kind)];
}

Result<MethodKinds> method_kinds(std::span<const std::byte> program, size_t method) {
  const LoadOptions options{.tolerate = {"all"}};  // the program was loaded by the caller's rules
  SMELT_ASSIGN(const auto file, executorch::ProgramFile::parse({program, nullptr, "", "", &options}));
  const auto* plans = file->program().execution_plan();
  if (!plans || method >= plans->size()) return InvalidModel("the program has no method ", method);
  const auto* plan = plans->Get(static_cast<flatbuffers::uoffset_t>(method));
  MethodKinds out;
  const auto list = [&](const flatbuffers::Vector<int32_t>* indices, std::vector<Kind>& kinds) {
    if (!indices || !plan->values()) return;
    for (int32_t at : *indices)
      kinds.push_back(at >= 0 && static_cast<uint32_t>(at) < plan->values()->size()
                          ? kind_of(plan->values()->Get(static_cast<uint32_t>(at))->val_type())
                          : Kind::kNone);
  };
  list(plan->inputs(), out.inputs);
  list(plan->outputs(), out.outputs);
  return out;
}

}  // namespace smelt::bundle
