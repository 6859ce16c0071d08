#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>

#include "base/checked.h"
#include "base/descriptor.h"
#include "base/error.h"

namespace smelt {
namespace {

struct Mapping {
  const std::byte* end = nullptr;
  int file = -1;  ///< open descriptor; -1: closed
  int kept = 0;   ///< times that release_read_pages() left it as it is, since all its pages went
};
/// The ranges of memory that are mapped files, by their begin.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, Mapping> ranges;
  size_t open = 0;  ///< files among them

  /// The mapping that [begin, end) lies in; ranges.end(): none.
  auto around(const std::byte* begin, const std::byte* end) {
    const auto after = ranges.upper_bound(begin);
    return after == ranges.begin() || std::prev(after)->second.end < end ? ranges.end() : std::prev(after);
  }
};
Mappings& mappings() {
  static Mappings& m = *new Mappings;  // outlives every file
  return m;
}
/// Files that stay open: those of that many bytes, so many at a time in the process.
constexpr size_t kLeastOpen = size_t{1} << 18, kMostOpen = 64;

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  auto io = [&](const char* what) { return Error(ErrorCode::kIo, Cat(path, ": ", what, ": ", std::strerror(errno))); };
  Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!descriptor) return io("cannot open");
  struct stat st {};
  if (::fstat(descriptor.get(), &st) != 0) return io("cannot stat");
  if (!S_ISREG(st.st_mode)) return Error(ErrorCode::kIo, Cat(path, ": not a regular file"));
  const auto size = static_cast<size_t>(st.st_size);
  std::shared_ptr<MappedFile> file(new MappedFile(nullptr, 0));
  if (size == 0) return std::shared_ptr<const MappedFile>(file);
  void* p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (p == MAP_FAILED) return io("cannot map");
  const auto* begin = static_cast<const std::byte*>(p);
  file->data_ = begin;
  file->size_ = size;
  const std::lock_guard lock(mappings().mutex);
  Mapping& mapping = mappings().ranges[begin];
  mapping.end = begin + size;
  if (size >= kLeastOpen && mappings().open < kMostOpen) {
    mapping.file = descriptor.release();
    ++mappings().open;
  }
  return std::shared_ptr<const MappedFile>(file);
}

MappedFile::~MappedFile() {
  if (!data_) return;
  const std::lock_guard lock(mappings().mutex);
  const auto mapping = mappings().ranges.find(data_);
  if (mapping != mappings().ranges.end()) {  // else there was no memory for it
    if (const int file = mapping->second.file; file >= 0) {
      ::close(file);
      --mappings().open;
    }
    mappings().ranges.erase(mapping);
  }
  ::munmap(const_cast<std::byte*>(data_), size_);
}

namespace {

constexpr size_t kWorthReading = 4096;  ///< bytes: fewer are read where they are mapped

/// Where bytes lie in a mapped file; file -1: in none that is open.
struct FilePlace {
  int file = -1;
  off_t at = 0;

  static FilePlace of(const std::byte* begin, size_t bytes) {
    const std::lock_guard lock(mappings().mutex);
    const auto mapping = mappings().around(begin, begin + bytes);
    if (mapping == mappings().ranges.end() || mapping->second.file < 0) return {};
    return {mapping->second.file, begin - mapping->first};
  }
};

}  // namespace

void copy_few_file_bytes(const void* from, size_t bytes, void* to) {
  const auto* begin = static_cast<const std::byte*>(from);
  auto* out = static_cast<std::byte*>(to);
  FilePlace place = FilePlace::of(begin, bytes);
  while (place.file >= 0 && bytes > 0) {
    const ssize_t got = ::pread(place.file, out, bytes, place.at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    begin += got, out += got, place.at += got;
    bytes -= static_cast<size_t>(got);
  }
  std::copy_n(begin, bytes, out);
}

void copy_file_bytes(const void* from, size_t bytes, void* to) {
  if (bytes >= kWorthReading) return copy_few_file_bytes(from, bytes, to);
  std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
}

void copy_file_lines(const void* from, size_t lines, size_t bytes, void* to, size_t stride) {
  constexpr size_t kAtOnce = 64;
  const auto* begin = static_cast<const std::byte*>(from);
  auto* out = static_cast<std::byte*>(to);
  FilePlace place = lines * bytes < kWorthReading ? FilePlace() : FilePlace::of(begin, lines * bytes);
  for (size_t first = 0; first < lines; first += kAtOnce) {
    std::array<iovec, kAtOnce> parts;
    const size_t count = std::min(kAtOnce, lines - first), all = count * bytes;
    for (size_t i = 0; i < count; ++i) parts[i] = {out + (first + i) * stride, bytes};
    if (place.file >= 0 &&
        ::preadv(place.file, parts.data(), static_cast<int>(count), place.at) == static_cast<ssize_t>(all)) {
      place.at += static_cast<off_t>(all);
      continue;
    }
    place.file = -1;
    for (size_t i = first; i < first + count; ++i) std::copy_n(begin + i * bytes, bytes, out + i * stride);
  }
}

namespace {

/// Gives the whole pages of a mapping within [begin, begin + bytes) back. read: only now and then, but all of it.
void release(const void* begin, size_t bytes, bool read) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = round_up(reinterpret_cast<uintptr_t>(begin), page);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) / page * page;
  if (first >= last) return;
  auto *pages = reinterpret_cast<std::byte*>(first), *end = reinterpret_cast<std::byte*>(last);
  const std::lock_guard lock(mappings().mutex);
  const auto found = mappings().around(pages, end);
  if (found == mappings().ranges.end()) return;
  if (Mapping& mapping = found->second; read && mapping.file >= 0) {
    constexpr int kMostKept = 64;
    if (++mapping.kept < kMostKept) return;
    mapping.kept = 0;
    pages = const_cast<std::byte*>(found->first);
    end = const_cast<std::byte*>(mapping.end);
  }
  ::madvise(pages, static_cast<size_t>(end - pages), MADV_DONTNEED);  // of a read-only mapping: nothing is lost
}

}  // namespace

void release_pages(const void* begin, size_t bytes) { release(begin, bytes, false); }
void release_read_pages(const void* begin, size_t bytes) { release(begin, bytes, true); }

Result<std::shared_ptr<const MappedFile>> map_below(const std::string& folder, const std::string& relative) {
  namespace fs = std::filesystem;
  if (relative.empty() || relative.find('\0') != std::string::npos)
    return InvalidModel("external file name is empty or holds a NUL character");
  const fs::path rel(relative);
  if (rel.is_absolute()) return InvalidModel("external file '", relative, "': absolute paths are refused");
  for (const auto& part : rel)
    if (part == "..") return InvalidModel("external file '", relative, "': leaves the model's folder");
  std::error_code ec;
  const fs::path base = fs::canonical(folder.empty() ? fs::path(".") : fs::path(folder), ec);
  if (ec) return Error(ErrorCode::kIo, Cat(folder, ": ", ec.message()));
  const fs::path full = fs::canonical(base / rel, ec);
  if (ec) return Error(ErrorCode::kIo, Cat("external file '", relative, "': ", ec.message()));
  const auto inside = full.lexically_relative(base);
  if (inside.empty() || *inside.begin() == "..")
    return InvalidModel("external file '", relative, "': a link leads out of the model's folder");
  return MappedFile::open(full.string());
}

}  // namespace smelt
