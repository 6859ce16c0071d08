#include "formats/executorch/vulkan/graph.h"

#include <set>
#include <utility>

#include "base/aligned_bytes.h"
#include "base/error.h"

namespace smelt::executorch {
namespace {

using vkgraph::GraphTypes;
using vkgraph::VkDataType;

DType element_type(VkDataType type) {
  using enum VkDataType;
  static constexpr std::pair<VkDataType, DType> kTypes[] = {
      {BOOL, DType::kBool}, {UINT8, DType::kU8},    {INT8, DType::kI8},     {INT32, DType::kI32},
      {INT64, DType::kI64}, {FLOAT16, DType::kF16}, {FLOAT32, DType::kF32}, {FLOAT64, DType::kF64}};
  for (const auto& [known, dtype] : kTypes)
    if (known == type) return dtype;
  return DType::kInvalid;
}

/// Storage and layout are enumerators of the schema, which has holes.
Status check_storage(vkgraph::VkStorageType storage, vkgraph::VkMemoryLayout layout) {
  if (!*vkgraph::EnumNameVkStorageType(storage))
    return InvalidModel("storage type ", static_cast<int>(storage), " is unknown");
  if (!*vkgraph::EnumNameVkMemoryLayout(layout))
    return InvalidModel("memory layout ", static_cast<int>(layout), " is unknown");
  return Ok();
}

Result<ValueType> tensor_type(const vkgraph::VkTensor& tensor) {
  const VkDataType host =
      tensor.staging_datatype() == VkDataType::UNSET ? tensor.datatype() : tensor.staging_datatype();
  ValueType type;
  type.dtype = element_type(host);
  if (type.dtype == DType::kInvalid || element_type(tensor.datatype()) == DType::kInvalid)
    return InvalidModel("data type ", static_cast<int>(type.dtype == DType::kInvalid ? host : tensor.datatype()),
                        " is unknown");
  type.ranked = true;
  if (!tensor.dims()) return type;
  if (tensor.dims()->size() > static_cast<uint32_t>(Shape::kMaxRank))
    return InvalidModel("rank ", tensor.dims()->size(), ", at most ", Shape::kMaxRank, " is supported");
  for (uint32_t d : *tensor.dims()) type.shape.push_back(d);
  SMELT_TRY(type.shape.checked_elements());
  return type;
}

Result<Tensor> constant_of(const VkGraphView& g, const vkgraph::VkTensor& tensor, const ValueType& type,
                           const DelegateBlob& blob, const BlobParts& parts, CopyBudget& budget) {
  const uint32_t count = g.table->constants() ? g.table->constants()->size() : 0;
  const auto index = static_cast<uint32_t>(tensor.constant_id());
  if (index >= count) return InvalidModel("constant ", index, ", the graph has ", count);
  const auto* entry = g.table->constants()->Get(index);
  auto bytes = find_constant(blob, parts, entry->offset(), entry->length(),
                             entry->named_key() ? entry->named_key()->str() : std::string());
  if (!bytes.ok()) return bytes.error().within(Cat("constant ", index));
  auto constant = view_constant(type.dtype, type.shape, *bytes, blob.owner, budget);
  if (!constant.ok()) return constant.error().within(Cat("constant ", index));
  return constant;
}

Status read_value(VkGraphView& g, uint32_t i, const DelegateBlob& blob, const BlobParts& parts, CopyBudget& budget) {
  const auto* value = g.table->values()->Get(i);
  if (value->value_type() == GraphTypes::NONE || !value->value()) return InvalidModel("it has no contents");
  if (value->value_type() > GraphTypes::MAX)
    return Unsupported("kind ", static_cast<int>(value->value_type()), " is newer than this build");
  if (value->value_type() == GraphTypes::SymInt) g.symbolic = true;
  if (const auto* tensor = value->value_as_VkTensor()) {
    SMELT_ASSIGN(g.types[i], tensor_type(*tensor));
    SMELT_TRY(check_storage(tensor->storage_type(), tensor->memory_layout()));
    if (tensor->datatype() == VkDataType::FLOAT16 && tensor->staging_datatype() == VkDataType::FLOAT32)
      g.widened = true;
    if (tensor->constant_id() < 0) return Ok();
    SMELT_ASSIGN(g.constants[i], constant_of(g, *tensor, g.types[i], blob, parts, budget));
    return Ok();
  }
  const auto* ints = value->value_as_IntList();
  const auto* doubles = value->value_as_DoubleList();
  if ((ints && !elements_aligned(ints->items())) || (doubles && !elements_aligned(doubles->items())))
    return InvalidModel("its numbers lie at an odd address");
  const auto* list = value->value_as_ValueList();
  if (!list || !list->items()) return Ok();
  for (int32_t item : *list->items()) {
    if (item < 0 || static_cast<uint32_t>(item) >= g.types.size())
      return InvalidModel("the list holds value ", item, ", the graph has ", g.types.size());
    if (g.table->values()->Get(static_cast<uint32_t>(item))->value_type() == GraphTypes::ValueList)
      return InvalidModel("the list holds a list");
  }
  return Ok();
}

/// Every region that the graph names lies in the blob's data, whether or not something reads it.
Status check_regions(const flatbuffers::Vector<flatbuffers::Offset<vkgraph::VkBytes>>* list, const char* what,
                     const DelegateBlob& blob, const BlobParts& parts) {
  for (uint32_t i = 0; list && i < list->size(); ++i) {
    const auto* entry = list->Get(i);
    if (entry->offset() == UINT64_MAX || (entry->named_key() && entry->named_key()->size() > 0)) continue;
    if (auto s = find_constant(blob, parts, entry->offset(), entry->length(), ""); !s.ok())
      return s.error().within(Cat(what, " ", i));
  }
  return Ok();
}

Status check_call(const VkGraphView& g, const vkgraph::OperatorCall& call) {
  if (!call.name() || call.name()->size() == 0) return InvalidModel("it has no name");
  if (!call.args() || call.args()->size() == 0) return InvalidModel("it has no arguments");
  for (int32_t arg : *call.args())
    if (arg < 0 || static_cast<size_t>(arg) >= g.types.size())
      return InvalidModel("argument ", arg, " is no value, the graph has ", g.types.size());
  return Ok();
}

Status check_externals(const VkGraphView& g, const flatbuffers::Vector<uint32_t>* ids, const char* what) {
  if (!ids) return Ok();
  for (uint32_t id : *ids) {
    if (id >= g.types.size()) return InvalidModel(what, " ", id, " is no value, the graph has ", g.types.size());
    const GraphTypes kind = g.table->values()->Get(id)->value_type();
    if (kind != GraphTypes::VkTensor && kind != GraphTypes::SymInt)
      return InvalidModel(what, " ", id, " is a ", vkgraph::EnumNameGraphTypes(kind), ", a tensor or SymInt expected");
  }
  return Ok();
}

}  // namespace

StorageHint vk_storage(const vkgraph::VkGraph& graph, const vkgraph::VkTensor& tensor) {
  using vkgraph::VkMemoryLayout;
  using vkgraph::VkStorageType;
  const VkStorageType storage = graph.storage_type_override() == VkStorageType::DEFAULT_STORAGE
                                    ? tensor.storage_type()
                                    : graph.storage_type_override();
  const VkMemoryLayout layout = graph.memory_layout_override() == VkMemoryLayout::DEFAULT_LAYOUT
                                    ? tensor.memory_layout()
                                    : graph.memory_layout_override();
  StorageHint hint;
  if (storage == VkStorageType::BUFFER) hint.storage = Storage::kBuffer;
  if (storage == VkStorageType::TEXTURE_3D) hint.storage = Storage::kTexture3D;
  if (storage == VkStorageType::TEXTURE_2D) hint.storage = Storage::kTexture2D;
  if (layout == VkMemoryLayout::TENSOR_WIDTH_PACKED) hint.packing = Packing::kWidth;
  if (layout == VkMemoryLayout::TENSOR_HEIGHT_PACKED) hint.packing = Packing::kHeight;
  if (layout == VkMemoryLayout::TENSOR_CHANNELS_PACKED) hint.packing = Packing::kChannels;
  return hint;
}

std::string vk_call_label(const VkGraphView& graph, uint32_t call) {
  const auto* name = graph.table->chain()->Get(call)->name();
  return Cat("call ", call, " ", name ? name->str() : "");
}

Result<VkGraphView> read_vk_graph(const DelegateBlob& blob) {
  SMELT_ASSIGN(const BlobParts parts, split_blob(blob.bytes, "VH00"));
  if (!has_magic(parts.flatbuffer, "VK00")) return InvalidModel("the flatbuffer's identifier is not VK00");
  const auto* data = reinterpret_cast<const uint8_t*>(parts.flatbuffer.data());
  flatbuffers::Verifier verifier(data, parts.flatbuffer.size(), 64, 10'000'000);
  if (!verifier.VerifyBuffer<vkgraph::VkGraph>(nullptr)) return InvalidModel("the flatbuffer is damaged or cut off");
  VkGraphView g;
  g.table = vkgraph::GetVkGraph(data);
  const uint32_t values = g.table->values() ? g.table->values()->size() : 0;
  g.types.resize(values);
  g.constants.resize(values);
  SMELT_TRY(check_storage(g.table->storage_type_override(), g.table->memory_layout_override()));
  SMELT_TRY(check_regions(g.table->constants(), "constant", blob, parts));
  SMELT_TRY(check_regions(g.table->shaders(), "shader", blob, parts));
  CopyBudget budget(blob);
  for (uint32_t i = 0; i < values; ++i)
    if (auto s = read_value(g, i, blob, parts, budget); !s.ok()) return s.error().within(Cat("value ", i));
  const uint32_t calls = g.table->chain() ? g.table->chain()->size() : 0;
  for (uint32_t i = 0; i < calls; ++i)
    if (auto s = check_call(g, *g.table->chain()->Get(i)); !s.ok()) return s.error().within(vk_call_label(g, i));
  SMELT_TRY(check_externals(g, g.table->input_ids(), "input"));
  SMELT_TRY(check_externals(g, g.table->output_ids(), "output"));
  std::set<uint32_t> inputs;
  for (uint32_t i = 0; g.table->input_ids() && i < g.table->input_ids()->size(); ++i) {
    const uint32_t id = g.table->input_ids()->Get(i);
    if (g.constants[id].defined()) return InvalidModel("input ", i, " is the constant value ", id);
    if (!inputs.insert(id).second) return InvalidModel("input ", i, " is value ", id, " again");
  }
  if (!g.table->output_ids() || g.table->output_ids()->size() == 0) return InvalidModel("the graph has no output");
  return g;
}

}  // namespace smelt::executorch
