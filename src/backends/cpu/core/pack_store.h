#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {

class AlignedBuffer;
using Packed = std::shared_ptr<const AlignedBuffer>;

/// All that a packed form follows from: equal contents give equal bytes.
struct PackContents {
  const char* form = "";                 ///< of the packing; another name where the code that packs changes
  std::vector<int64_t> numbers;          ///< sizes, strides, parameters
  std::vector<const Tensor*> constants;  ///< operands; nullptr: none
  std::vector<QuantPtr> quants = {};     ///< of the operands' types, where not that of the tensors
};

/// Packed weights in a folder, which later runs and other processes map instead of packing them. An entry is named by a
/// hash of what it is made of. Hashes depend on a secret of the folder, so that a hostile model can't aim at the
/// entries of another one. Entries that are damaged, or were made under another secret, count as absent. Thread-safe.
class PackStore {
 public:
  static constexpr size_t kLeastBytes = size_t{1} << 16;

  /// The store in `folder`, which is made if need be; nullptr where it can be neither read nor made. Constants of fewer
  /// than `least_bytes` in all are not worth a file.
  static std::shared_ptr<const PackStore> open(const std::string& folder, size_t least_bytes = kLeastBytes);
  /// The one in the folder "weights" of SMELT_CACHE_DIR; nullptr if that is not set.
  static std::shared_ptr<const PackStore> of_environment();

  /// True if the packed form of these is worth a file.
  bool keeps(const PackContents& contents) const;
  /// A name for the contents: 32 hexadecimal digits.
  std::string name(const PackContents& contents) const;
  /// The bytes of an entry in mapped memory; nullptr: absent.
  Packed read(const std::string& name) const;
  /// Keeps an entry. Without a place to write nothing is kept.
  void write(const std::string& name, const AlignedBuffer& packed) const;

 private:
  static constexpr size_t kSecretBytes = 192;
  using Secret = std::array<unsigned char, kSecretBytes>;
  PackStore(std::string folder, size_t least_bytes, const Secret& secret)
      : folder_(std::move(folder)), least_bytes_(least_bytes), secret_(secret) {}
  std::string path(const std::string& name) const { return folder_ + "/" + name + ".pack"; }

  std::string folder_;
  size_t least_bytes_;
  Secret secret_;
};

}  // namespace smelt
