#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt::cli {

/// True if the bytes begin as a ZIP archive does.
bool is_npz(std::span<const std::byte> bytes);

/// An array of an .npz archive.
struct NpzEntry {
  std::string name;                        ///< without ".npy"
  std::span<const std::byte> bytes;        ///< the .npy file
  std::shared_ptr<const void> owner = {};  ///< of `bytes` that were compressed; else they lie in the archive
};

/// The .npy files of an archive, stored or deflated, in the archive's order. `name` begins messages.
Result<std::vector<NpzEntry>> read_npz(std::span<const std::byte> bytes, const std::string& name);

/// Writes tensors as numpy.savez does, to standard output for "-". The file appears whole or not at all. Precondition:
/// different names.
Status write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& entries);

}  // namespace smelt::cli
