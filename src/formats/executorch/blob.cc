#include "formats/executorch/blob.h"

#include <cstring>

#include "base/aligned_bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/little_endian.h"
#include "tensor/bools.h"

namespace smelt::executorch {
namespace {

constexpr size_t kHeaderBytes = 30;

}  // namespace

Status CopyBudget::take(uint64_t bytes) {
  if (bytes > left_) return LimitReached("the graph's constants need more copies than a file of its size can");
  left_ -= bytes;
  return Ok();
}

bool has_magic(std::span<const std::byte> bytes, const char* magic) {
  return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, magic, 4) == 0;
}

DelegateBlob::DelegateBlob(std::span<const std::byte> given, std::shared_ptr<const void> keeper, NamedData named)
    : bytes(given), owner(std::move(keeper)), named_data(std::move(named)) {
  align_flatbuffer(bytes, owner);
}

Result<BlobParts> split_blob(std::span<const std::byte> bytes, const char* magic) {
  BlobParts parts;
  parts.flatbuffer = bytes;
  if (!has_magic(bytes, magic)) return parts;
  if (bytes.size() < kHeaderBytes)
    return InvalidModel("header ", magic, ": the blob has ", bytes.size(), " bytes, a header takes ", kHeaderBytes);
  const auto length = read_le<uint16_t>(bytes, 8);
  if (length < kHeaderBytes) return InvalidModel("header ", magic, ": length ", length, ", 30 expected");
  const uint64_t flatbuffer = read_le<uint32_t>(bytes, 10), flatbuffer_size = read_le<uint32_t>(bytes, 14);
  const uint64_t constants = read_le<uint32_t>(bytes, 18), constants_size = read_le<uint64_t>(bytes, 22);
  if (!in_range(flatbuffer, flatbuffer_size, bytes.size()) || flatbuffer < kHeaderBytes)
    return InvalidModel("header ", magic, ": the flatbuffer at ", flatbuffer, ", ", flatbuffer_size,
                        " bytes, lies outside the blob of ", bytes.size());
  if (flatbuffer % 8 != 0)
    return InvalidModel("header ", magic, ": the flatbuffer starts at ", flatbuffer, ", a multiple of 8 expected");
  if (!in_range(constants, constants_size, bytes.size()))
    return InvalidModel("header ", magic, ": the constants at ", constants, ", ", constants_size,
                        " bytes, lie outside the blob of ", bytes.size());
  const bool before = constants + constants_size <= flatbuffer, behind = constants >= flatbuffer + flatbuffer_size;
  if (constants_size > 0 && (constants < kHeaderBytes || (!before && !behind)))
    return InvalidModel("header ", magic, ": the constants at ", constants, ", ", constants_size,
                        " bytes, overlap the ", constants < kHeaderBytes ? "header" : "flatbuffer");
  parts.flatbuffer = bytes.subspan(flatbuffer, flatbuffer_size);
  parts.constants = bytes.subspan(constants, constants_size);
  parts.has_header = true;
  return parts;
}

Result<std::vector<FilePart>> blob_parts(std::span<const std::byte> bytes, const char* magic) {
  SMELT_ASSIGN(const BlobParts parts, split_blob(bytes, magic));
  std::vector<FilePart> out{{"graph flatbuffer", 1, parts.flatbuffer.size()}};
  if (!parts.constants.empty()) out.push_back({"constants", 1, parts.constants.size()});
  const uint64_t named = parts.flatbuffer.size() + parts.constants.size();
  if (named < bytes.size()) out.push_back({"header and padding", 1, bytes.size() - named});
  return out;
}

Result<std::span<const std::byte>> find_constant(const DelegateBlob& blob, const BlobParts& parts, uint64_t offset,
                                                 uint64_t size, const std::string& key) {
  if (offset == UINT64_MAX || !key.empty()) {
    if (key.empty()) return InvalidModel("it lies in named data but has no key");
    if (!blob.named_data) return InvalidModel("it lies in named data '", key, "', which only a program carries");
    return blob.named_data(key);
  }
  if (!in_range(offset, size, parts.constants.size()))
    return InvalidModel("it lies at ", offset, ", ", size, " bytes, outside the constants area of ",
                        parts.constants.size());
  return parts.constants.subspan(offset, size);
}

Result<Tensor> view_constant(DType dtype, const Shape& shape, std::span<const std::byte> data,
                             const std::shared_ptr<const void>& owner, CopyBudget& budget) {
  SMELT_ASSIGN(const int64_t elements, shape.checked_elements());
  const size_t need = elements > (int64_t{1} << 48) ? SIZE_MAX : Tensor::byte_size(dtype, elements);
  if (need > data.size())
    return InvalidModel("it has ", data.size(), " bytes, shape ", shape.str(), " of ", to_string(dtype), " needs more");
  const auto align = static_cast<uintptr_t>(bit_width(dtype) > 8 ? bit_width(dtype) / 8 : 1);
  if (reinterpret_cast<uintptr_t>(data.data()) % align == 0) {
    SMELT_ASSIGN(Tensor constant, normalize_bools(Tensor::view(dtype, shape, data.data(), owner)));
    if (constant.raw() != data.data()) SMELT_TRY(budget.take(need));
    return constant;
  }
  SMELT_TRY(budget.take(need));
  SMELT_ASSIGN(Tensor copy, Tensor::allocate(dtype, shape, false));
  std::memcpy(copy.raw(), data.data(), need);
  return copy;
}

}  // namespace smelt::executorch
