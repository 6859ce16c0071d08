#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "smelt/result.h"

namespace smelt::executorch {

/// Bytes of an entry of a program's named data, by key. Entries view the program, which `owner` of the blob keeps.
using NamedData = std::function<Result<std::span<const std::byte>>(const std::string& key)>;

/// A delegate's processed bytes, as they lie in a program or in a file of their own.
struct DelegateBlob {
  DelegateBlob(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, NamedData named_data = {});
  std::span<const std::byte> bytes;   ///< aligned for the flatbuffer
  std::shared_ptr<const void> owner;  ///< keeps the bytes and the named data
  NamedData named_data;               ///< empty: the blob stands alone
};

/// The two sections of a blob.
struct BlobParts {
  std::span<const std::byte> flatbuffer;
  std::span<const std::byte> constants;
  bool has_header = false;
};

/// True when bytes 4 to 7 are `magic`.
bool has_magic(std::span<const std::byte> bytes, const char* magic);

/// Cuts a blob whose header has `magic` (XH00, VH00) into its sections; without that magic the whole blob is the
/// flatbuffer.
Result<BlobParts> split_blob(std::span<const std::byte> bytes, const char* magic);

/// The sections as parts of a file that is nothing but the blob.
Result<std::vector<FilePart>> blob_parts(std::span<const std::byte> bytes, const char* magic);

/// Limits what reading a blob may copy: entries of a flatbuffer can share their bytes, so that a small file could
/// demand large copies.
class CopyBudget {
 public:
  explicit CopyBudget(const DelegateBlob& blob) : left_((uint64_t{64} << 20) + 2 * blob.bytes.size()) {}
  Status take(uint64_t bytes);

 private:
  uint64_t left_;
};

/// The bytes that a constant's entry names: by key when `offset` is UINT64_MAX, else inside the blob's constants.
Result<std::span<const std::byte>> find_constant(const DelegateBlob& blob, const BlobParts& parts, uint64_t offset,
                                                 uint64_t size, const std::string& key);

/// A constant that views `data`. Where the bytes are not aligned for their type, or bools are no 0 or 1, a copy.
Result<Tensor> view_constant(DType dtype, const Shape& shape, std::span<const std::byte> data,
                             const std::shared_ptr<const void>& owner, CopyBudget& budget);

}  // namespace smelt::executorch
