#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executorch_program_generated.h"
#include "formats/format.h"
#include "smelt/result.h"

namespace smelt::executorch {

using Bytes = std::span<const std::byte>;

/// External data: the named tensors of one .ptd file.
class DataFile {
 public:
  static Result<DataFile> open(const std::string& path);
  /// Calls visit(name, contents) for every entry.
  template <class F>
  void for_each(F&& visit) const {
    for (const auto& [key, bytes] : entries_) visit(key, bytes);
  }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  uint64_t size() const { return size_; }

 private:
  std::shared_ptr<const void> owner_;
  uint64_t size_ = 0;
  std::map<std::string, Bytes, std::less<>> entries_;
};

/// The bytes of a program: its verified flatbuffer, its segments and the data that come with it. Every access is
/// checked.
class ProgramFile {
 public:
  /// True if the bytes begin like a program: identifier ET followed by two digits.
  static bool recognise(Bytes bytes);
  static Result<std::shared_ptr<const ProgramFile>> parse(const Source& source);

  const fb::et::Program& program() const { return *program_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  size_t size() const { return bytes_.size(); }
  Bytes flatbuffer() const { return flatbuffer_; }
  /// The external files read, with their sizes.
  const std::vector<std::pair<std::string, uint64_t>>& data_files() const { return data_files_; }
  Result<Bytes> segment(uint64_t index) const;
  /// `size` bytes of constant `index` (at least 1), from the flatbuffer or from the constant segment.
  Result<Bytes> constant(uint32_t index, uint64_t size) const;
  /// Initial contents of a mutable tensor.
  Result<Bytes> mutable_data(uint64_t group, uint32_t index, uint64_t size) const;
  /// A delegate's processed bytes.
  Result<Bytes> delegate_data(const fb::et::BackendDelegateDataReference* where) const;
  /// Named data of the program or of an external file; null when there is none.
  const Bytes* named(std::string_view key) const;

 private:
  Status read_header(Bytes bytes);
  Status read_named(const Source& source);
  /// Fails for data, used or not, that begin outside their segment. Entry 0 stands for no data.
  Status check_subsegments(const fb::et::SubsegmentOffsets* table) const;
  Result<Bytes> subsegment(const fb::et::SubsegmentOffsets* table, uint32_t index, uint64_t size) const;

  Bytes bytes_;
  Bytes flatbuffer_;
  uint64_t segment_base_ = 0, segment_size_ = 0;
  const fb::et::Program* program_ = nullptr;
  std::shared_ptr<const void> owner_;
  std::map<std::string, Bytes, std::less<>> named_;
  std::vector<std::pair<std::string, uint64_t>> data_files_;
};

}  // namespace smelt::executorch
