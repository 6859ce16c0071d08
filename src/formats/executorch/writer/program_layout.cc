// The bytes of a program: flatbuffer behind an extended header, then the segments.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "executorch_program_generated.h"
#include "formats/executorch/aten/aten.h"
#include "formats/executorch/writer/plan_writer.h"

namespace smelt::executorch {
namespace {

namespace et = fb::et;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

constexpr uint64_t kAlignment = 16, kSegmentAlignment = 128;
/// Memories of a plan: 1 holds activations, 2 variables.
constexpr uint32_t kActivations = 1, kVariables = 2;

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const FileProgram& program) : program_(program) {}

  /// Segments by their sizes: constants, variables if there are any, delegates, named data.
  std::vector<uint8_t> build(const std::vector<uint64_t>& sizes, bool any_variables,
                             const std::vector<uint64_t>& constant_offsets,
                             const std::vector<uint64_t>& variable_offsets) {
    delegate_segment_ = any_variables ? 2 : 1;
    std::vector<Offset<et::ExecutionPlan>> plans;
    for (const FilePlan& p : program_.plans) plans.push_back(plan(p));
    std::vector<Offset<et::DataSegment>> segments;
    uint64_t at = 0;
    for (const uint64_t size : sizes) {
      segments.push_back(et::CreateDataSegment(b_, at, size));
      at += round_up(size, kSegmentAlignment);
    }
    std::vector<Offset<et::NamedData>> named;
    for (const NamedTensor& t : program_.named)
      named.push_back(et::CreateNamedDataDirect(b_, t.key.c_str(), delegate_segment_++));
    const auto constant = et::CreateSubsegmentOffsetsDirect(b_, 0, &constant_offsets);
    const std::vector<Offset<et::SubsegmentOffsets>> mutable_data{
        et::CreateSubsegmentOffsetsDirect(b_, 1, &variable_offsets)};
    const auto root =
        et::CreateProgramDirect(b_, 0, &plans, nullptr, nullptr, &segments, constant,
                                any_variables ? &mutable_data : nullptr, named.empty() ? nullptr : &named);
    b_.Finish(root, "ET12");
    return {b_.GetBufferPointer(), b_.GetBufferPointer() + b_.GetSize()};
  }

 private:
  Offset<et::EValue> value(const FileValue& v) {
    using Kind = FileValue::Kind;
    using Type = et::KernelTypes;
    const auto wrap = [&](Type type, Offset<void> at) { return et::CreateEValue(b_, type, at); };
    const std::vector<int64_t> wide(v.items.begin(), v.items.end());
    const std::vector<int32_t> narrow(v.items.begin(), v.items.end());
    switch (v.kind) {
      case Kind::kNull:
        return wrap(Type::Null, et::CreateNull(b_).Union());
      case Kind::kInt:
        return wrap(Type::Int, et::CreateInt(b_, v.i).Union());
      case Kind::kBool:
        return wrap(Type::Bool, et::CreateBool(b_, v.i != 0).Union());
      case Kind::kDouble:
        return wrap(Type::Double, et::CreateDouble(b_, v.d).Union());
      case Kind::kString:
        return wrap(Type::String, et::CreateStringDirect(b_, v.text.c_str()).Union());
      case Kind::kIntList:
        return wrap(Type::IntList, et::CreateIntListDirect(b_, &wide).Union());
      case Kind::kTensorList:
        return wrap(Type::TensorList, et::CreateTensorListDirect(b_, &narrow).Union());
      case Kind::kOptionalTensorList:
        return wrap(Type::OptionalTensorList, et::CreateOptionalTensorListDirect(b_, &narrow).Union());
      case Kind::kTensor:
        break;
    }
    return wrap(Type::Tensor, tensor(v).Union());
  }

  Offset<et::Tensor> tensor(const FileValue& v) {
    std::vector<int32_t> sizes(v.shape.begin(), v.shape.end());
    std::vector<uint8_t> order(sizes.size());
    std::iota(order.begin(), order.end(), uint8_t{0});
    Offset<et::AllocationDetails> place = 0;
    Offset<et::ExtraTensorInfo> extra = 0;
    uint32_t data = 0;
    if (v.constant >= 0) {
      data = static_cast<uint32_t>(v.constant) + 1;
    } else {
      const bool state = v.state >= 0;
      const uint64_t at = state ? program_.states[static_cast<size_t>(v.state)].offset : v.offset;
      place = et::CreateAllocationDetails(b_, state ? kVariables : kActivations, static_cast<uint32_t>(at),
                                          static_cast<uint32_t>(at >> 32));
      if (state) {
        data = static_cast<uint32_t>(v.state) + 1;
        extra = et::CreateExtraTensorInfoDirect(b_, 0, program_.states[static_cast<size_t>(v.state)].name.c_str());
      }
    }
    using enum et::TensorShapeDynamism;
    const et::TensorShapeDynamism dynamism = v.bounded ? DYNAMIC_BOUND : STATIC;
    const auto type = static_cast<et::ScalarType>(aten::scalar_type_number(v.dtype));
    return et::CreateTensorDirect(b_, type, 0, &sizes, &order, false, data, place, 0, dynamism, extra);
  }

  Offset<et::ExecutionPlan> plan(const FilePlan& p) {
    std::vector<Offset<et::EValue>> values;
    for (const FileValue& v : p.values) values.push_back(value(v));
    std::vector<std::pair<std::string, std::string>> names;
    std::vector<Offset<et::Instruction>> instructions;
    for (const FileCall& c : p.calls) {
      const std::vector<int32_t> args(c.args.begin(), c.args.end());
      if (c.jump >= 0) {
        const auto jump = et::CreateJumpFalseCall(b_, c.args[0], c.jump);
        instructions.push_back(et::CreateInstruction(b_, et::InstructionArguments::JumpFalseCall, jump.Union()));
        continue;
      }
      if (c.delegate >= 0) {
        const auto call = et::CreateDelegateCallDirect(b_, c.delegate, &args);
        instructions.push_back(et::CreateInstruction(b_, et::InstructionArguments::DelegateCall, call.Union()));
        continue;
      }
      const std::pair<std::string, std::string> name{c.name, c.overload};
      auto at = std::ranges::find(names, name);
      if (at == names.end()) at = names.insert(names.end(), name);
      const auto call = et::CreateKernelCallDirect(b_, static_cast<int32_t>(at - names.begin()), &args);
      instructions.push_back(et::CreateInstruction(b_, et::InstructionArguments::KernelCall, call.Union()));
    }
    std::vector<Offset<et::Operator>> operators;
    for (const auto& [name, overload] : names)
      operators.push_back(et::CreateOperatorDirect(b_, name.c_str(), overload.c_str()));
    std::vector<Offset<et::BackendDelegate>> delegates;
    for (size_t i = 0; i < p.delegates.size(); ++i) {
      const auto place = et::CreateBackendDelegateDataReference(b_, et::DataLocation::SEGMENT, delegate_segment_++);
      delegates.push_back(et::CreateBackendDelegateDirect(b_, "XnnpackBackend", place));
    }
    const std::vector<int32_t> in(p.inputs.begin(), p.inputs.end()), out(p.outputs.begin(), p.outputs.end());
    const std::vector<Offset<et::Chain>> chains{et::CreateChainDirect(b_, &in, &out, &instructions)};
    std::vector<int64_t> memories{0, static_cast<int64_t>(p.memory)};
    uint64_t variables = 0;
    for (const FileState& s : program_.states) variables = std::max(variables, s.offset + s.first.bytes());
    if (variables > 0) memories.push_back(static_cast<int64_t>(round_up(variables, kAlignment)));
    const auto container = et::CreateContainerMetadataDirect(b_, "", "");
    return et::CreateExecutionPlanDirect(b_, p.name.c_str(), container, &values, &in, &out, &chains, &operators,
                                         &delegates, &memories);
  }

  const FileProgram& program_;
  uint32_t delegate_segment_ = 0;  ///< segment of the next delegate or named data
  FlatBufferBuilder b_;
};

void put_le(std::string& out, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
}

/// Offsets of tensors that lie one behind the other; the first entry stands for "no data". `end` is the first free
/// byte.
template <class List, class Get>
std::vector<uint64_t> offsets_of(const List& list, Get&& get, uint64_t& end) {
  std::vector<uint64_t> out{0};
  end = 0;
  for (const auto& entry : list) {
    out.push_back(end);
    end = round_up(end + get(entry).bytes(), kAlignment);
  }
  return out;
}

void pad_to(formats::FileBytes& file, uint64_t written, uint64_t alignment) {
  file.append(std::string(round_up(written, alignment) - written, '\0'));
}

/// Appends contents; the next ones begin at a multiple of `alignment`.
void append(formats::FileBytes& file, const Tensor& t, uint64_t alignment) {
  if (t.bytes() > 0) file.append({t.data<std::byte>(), t.bytes()}, std::make_shared<const Tensor>(t));
  pad_to(file, t.bytes(), alignment);
}

}  // namespace

void drop_unused_constants(FileProgram& program) {
  std::vector<int> place(program.constants.size(), -1);
  for (FilePlan& plan : program.plans) {
    std::vector<char> read(plan.values.size(), 0);
    const auto mark = [&](int value) {
      read[static_cast<size_t>(value)] = 1;
      const FileValue& v = plan.values[static_cast<size_t>(value)];
      for (const int item : v.items)
        if (item >= 0) read[static_cast<size_t>(item)] = 1;
    };
    for (const FileCall& c : plan.calls) std::ranges::for_each(c.args, mark);
    std::ranges::for_each(plan.outputs, mark);
    for (size_t i = 0; i < plan.values.size(); ++i) {
      FileValue& v = plan.values[i];
      if (v.constant < 0) continue;
      if (read[i])
        place[static_cast<size_t>(v.constant)] = 0;
      else
        v = {};
    }
  }
  std::vector<Tensor> kept;
  for (size_t i = 0; i < place.size(); ++i) {
    if (place[i] < 0) continue;
    place[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(program.constants[i]));
  }
  program.constants = std::move(kept);
  for (FilePlan& plan : program.plans)
    for (FileValue& v : plan.values)
      if (v.constant >= 0) v.constant = place[static_cast<size_t>(v.constant)];
}

Result<formats::FileBytes> lay_out(const FileProgram& program) {
  uint64_t constants = 0, variables = 0;
  const auto constant_offsets = offsets_of(
      program.constants, [](const Tensor& t) { return t; }, constants);
  const auto variable_offsets = offsets_of(
      program.states, [](const FileState& s) { return s.first; }, variables);
  std::vector<uint64_t> segments{constants};
  if (variables > 0) segments.push_back(variables);
  for (const FilePlan& p : program.plans)
    for (const std::string& blob : p.delegates) segments.push_back(blob.size());
  for (const NamedTensor& t : program.named) segments.push_back(t.contents.bytes());
  const std::vector<uint8_t> flat =
      ProgramBuilder(program).build(segments, variables > 0, constant_offsets, variable_offsets);
  if (flat.size() > (size_t{1} << 31) - 1) return LimitReached("a program's tables of ", flat.size(), " bytes");
  // The header stands behind root offset and identifier: what follows moves, and with it the root's offset.
  constexpr size_t kHeader = 32;
  const uint64_t size = flat.size() + kHeader, base = round_up(size, kSegmentAlignment);
  uint64_t data = 0;
  for (const uint64_t segment : segments) data += round_up(segment, kSegmentAlignment);
  std::string head(size, '\0');
  uint32_t root = 0;
  std::memcpy(&root, flat.data(), 4);
  put_le(head, 0, root + kHeader, 4);
  std::memcpy(head.data() + 4, flat.data() + 4, 4);
  std::memcpy(head.data() + 8, "eh00", 4);
  put_le(head, 12, kHeader, 4);
  put_le(head, 16, size, 8);
  put_le(head, 24, base, 8);
  put_le(head, 32, data, 8);
  std::memcpy(head.data() + 8 + kHeader, flat.data() + 8, flat.size() - 8);
  formats::FileBytes file;
  file.append(std::move(head));
  file.append(std::string(base - size, '\0'));
  for (const Tensor& t : program.constants) append(file, t, kAlignment);
  pad_to(file, constants, kSegmentAlignment);
  for (const FileState& v : program.states) append(file, v.first, kAlignment);
  pad_to(file, variables, kSegmentAlignment);
  for (const FilePlan& p : program.plans)
    for (const std::string& blob : p.delegates) {
      file.append(blob);
      pad_to(file, blob.size(), kSegmentAlignment);
    }
  for (const NamedTensor& t : program.named) append(file, t.contents, kSegmentAlignment);
  return file;
}

}  // namespace smelt::executorch
