#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "smelt/result.h"

namespace smelt {

/// A read-only mapping of a whole regular file.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  size_t size_;
};

/// Gives back the memory of whole pages of mapped files within [begin, begin + bytes), for bytes that are seldom read
/// again: a later read brings them back from the file. Does nothing for other memory. Thread-safe.
void release_pages(const void* begin, size_t bytes);
/// As release_pages(), for bytes that only copy_file_bytes() has read: at most page faults nearby have mapped pages of
/// theirs. Those go with all of the file now and then, which takes less time.
void release_read_pages(const void* begin, size_t bytes);

/// Copies bytes that are read this once. Many at a time of a mapped file are read from it: their pages, which cost more
/// than the bytes, are not mapped. Thread-safe; `from` must stay mapped.
void copy_file_bytes(const void* from, size_t bytes, void* to);
/// As copy_file_bytes(), of few bytes whose neighbours are not read.
void copy_few_file_bytes(const void* from, size_t bytes, void* to);
/// As copy_file_bytes(), of `lines` of `bytes` each that lie one behind the other: line i goes to `to` + i * `stride`
/// bytes.
void copy_file_lines(const void* from, size_t lines, size_t bytes, void* to, size_t stride);

/// Maps `relative` below `folder`. Refused: absolute paths, "..", embedded NUL, and links that lead out of the folder.
Result<std::shared_ptr<const MappedFile>> map_below(const std::string& folder, const std::string& relative);

}  // namespace smelt
