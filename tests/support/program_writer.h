#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "executorch_program_generated.h"

namespace smelt {

/// Writes a program value by value. Its methods are written one after another, each with values of its own.
class ProgramWriter {
 public:
  int tensor(std::vector<int32_t> sizes, uint32_t offset, fb::et::ScalarType type = fb::et::ScalarType::FLOAT,
             uint32_t buffer = 0, std::vector<uint8_t> order = {}) {
    if (order.empty())
      for (size_t i = 0; i < sizes.size(); ++i) order.push_back(static_cast<uint8_t>(i));
    const auto place = buffer ? 0 : fb::et::CreateAllocationDetails(b_, 1, offset, 0);
    const auto dims = b_.CreateVector(sizes);
    const auto dim_order = b_.CreateVector(order);
    return add(fb::et::KernelTypes::Tensor,
               fb::et::CreateTensor(b_, type, 0, dims, dim_order, false, buffer, place, layout, dynamism).Union());
  }
  int integer(int64_t v) { return add(fb::et::KernelTypes::Int, fb::et::CreateInt(b_, v).Union()); }
  int real(double v) { return add(fb::et::KernelTypes::Double, fb::et::CreateDouble(b_, v).Union()); }
  int boolean(bool v) { return add(fb::et::KernelTypes::Bool, fb::et::CreateBool(b_, v).Union()); }
  int int_list(std::vector<int64_t> values) {  ///< of values that integer() made
    return add(fb::et::KernelTypes::IntList, fb::et::CreateIntListDirect(b_, &values).Union());
  }
  int null() { return add(fb::et::KernelTypes::Null, fb::et::CreateNull(b_).Union()); }
  int text(const char* v) { return add(fb::et::KernelTypes::String, fb::et::CreateStringDirect(b_, v).Union()); }

  void call(const std::string& name, const std::string& overload, std::vector<int32_t> args) {
    operators_.push_back(fb::et::CreateOperatorDirect(b_, name.c_str(), overload.c_str()));
    instruction(fb::et::InstructionArguments::KernelCall,
                fb::et::CreateKernelCallDirect(b_, static_cast<int32_t>(operators_.size()) - 1, &args).Union());
  }
  /// A call of back-end `id` with a blob in the program itself.
  void delegate(const char* id, const std::vector<uint8_t>& blob, std::vector<int32_t> args) {
    const auto data = fb::et::CreateBackendDelegateDataReference(b_, fb::et::DataLocation::INLINE,
                                                                 static_cast<uint32_t>(blobs_.size()));
    delegates_.push_back(fb::et::CreateBackendDelegateDirect(b_, id, data));
    blobs_.push_back(blob);
    instruction(fb::et::InstructionArguments::DelegateCall,
                fb::et::CreateDelegateCallDirect(b_, static_cast<int32_t>(delegates_.size()) - 1, &args).Union());
  }
  void jump_false(int condition, int to) {
    instruction(fb::et::InstructionArguments::JumpFalseCall, fb::et::CreateJumpFalseCall(b_, condition, to).Union());
  }
  void move(int from, int to) {
    instruction(fb::et::InstructionArguments::MoveCall, fb::et::CreateMoveCall(b_, from, to).Union());
  }
  void constant(const std::vector<float>& v) {
    std::vector<uint8_t> bytes(v.size() * 4);
    std::memcpy(bytes.data(), v.data(), bytes.size());
    constants_.push_back(bytes);
  }

  /// Ends the method that was written last. `planned`: bytes of the memory for its activations.
  void end_method(const char* name, std::vector<int32_t> inputs, std::vector<int32_t> outputs, int64_t planned = 4096) {
    std::vector<flatbuffers::Offset<fb::et::Chain>> chains{
        fb::et::CreateChainDirect(b_, nullptr, nullptr, &instructions_)};
    std::vector<int64_t> memory{0, planned};
    plans_.push_back(fb::et::CreateExecutionPlanDirect(b_, name, 0, &values_, &inputs, &outputs, &chains, &operators_,
                                                       &delegates_, &memory));
    values_.clear();
    operators_.clear();
    instructions_.clear();
    delegates_.clear();
  }

  /// Ends the method "forward" and the program.
  std::vector<uint8_t> finish(std::vector<int32_t> inputs, std::vector<int32_t> outputs, int64_t planned = 4096) {
    end_method("forward", std::move(inputs), std::move(outputs), planned);
    plans_.resize(std::max(plans_.size(), methods), plans_[0]);
    std::vector<flatbuffers::Offset<fb::et::DataSegment>> regions;
    for (const auto& [offset, size] : segments) regions.push_back(fb::et::CreateDataSegment(b_, offset, size));
    std::vector<flatbuffers::Offset<fb::et::NamedData>> entries;
    for (const auto& [key, segment] : named) entries.push_back(fb::et::CreateNamedDataDirect(b_, key.c_str(), segment));
    std::vector<flatbuffers::Offset<fb::et::Buffer>> buffers{fb::et::CreateBuffer(b_)};
    for (const auto& c : constants_) buffers.push_back(fb::et::CreateBufferDirect(b_, &c));
    std::vector<flatbuffers::Offset<fb::et::BackendDelegateInlineData>> blobs;
    for (const auto& blob : blobs_) blobs.push_back(fb::et::CreateBackendDelegateInlineDataDirect(b_, &blob));
    std::vector<flatbuffers::Offset<fb::et::SubsegmentOffsets>> groups;
    if (!mutable_data.empty()) groups.push_back(fb::et::CreateSubsegmentOffsetsDirect(b_, 0, &mutable_data));
    const auto root = fb::et::CreateProgramDirect(b_, 0, &plans_, &buffers, &blobs, &regions, 0, &groups, &entries);
    b_.Finish(root, "ET12");
    return std::vector<uint8_t>(b_.GetBufferPointer(), b_.GetBufferPointer() + b_.GetSize());
  }

  size_t methods = 1;                                   ///< copies of the method, all of one name
  std::vector<std::pair<uint64_t, uint64_t>> segments;  ///< offset and size
  std::vector<std::pair<std::string, uint32_t>> named;  ///< key and segment
  std::vector<uint64_t> mutable_data;                   ///< offsets in segment 0; entry 0 stands for no data
  // Of the tensors that follow.
  int8_t layout = 0;
  fb::et::TensorShapeDynamism dynamism = fb::et::TensorShapeDynamism::STATIC;

 private:
  int add(fb::et::KernelTypes type, flatbuffers::Offset<void> value) {
    values_.push_back(fb::et::CreateEValue(b_, type, value));
    return static_cast<int>(values_.size()) - 1;
  }
  void instruction(fb::et::InstructionArguments type, flatbuffers::Offset<void> value) {
    instructions_.push_back(fb::et::CreateInstruction(b_, type, value));
  }

  flatbuffers::FlatBufferBuilder b_;
  std::vector<flatbuffers::Offset<fb::et::EValue>> values_;
  std::vector<flatbuffers::Offset<fb::et::Operator>> operators_;
  std::vector<flatbuffers::Offset<fb::et::Instruction>> instructions_;
  std::vector<flatbuffers::Offset<fb::et::BackendDelegate>> delegates_;
  std::vector<flatbuffers::Offset<fb::et::ExecutionPlan>> plans_;
  std::vector<std::vector<uint8_t>> constants_, blobs_;
};

}  // namespace smelt
