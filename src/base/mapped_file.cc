#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>

#include "base/checked.h"
#include "base/error.h"

namespace smelt {
namespace {

/// The ranges of memory that are mapped files: begin -> end.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, const std::byte*> ranges;
};
Mappings& mappings() {
  static Mappings& m = *new Mappings;  // outlives every file
  return m;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  auto io = [&](const char* what) { return Error(ErrorCode::kIo, Cat(path, ": ", what, ": ", std::strerror(errno))); };
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io("cannot open");
  struct stat st {};
  if (::fstat(fd, &st) != 0) {
    Error e = io("cannot stat");
    ::close(fd);
    return e;
  }
  if (!S_ISREG(st.st_mode)) {
    ::close(fd);
    return Error(ErrorCode::kIo, Cat(path, ": not a regular file"));
  }
  const auto size = static_cast<size_t>(st.st_size);
  if (size == 0) {
    ::close(fd);
    return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0));
  }
  void* p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (p == MAP_FAILED) return io("cannot map");
  const auto* begin = static_cast<const std::byte*>(p);
  std::shared_ptr<const MappedFile> file(new MappedFile(begin, size));
  const std::lock_guard lock(mappings().mutex);
  mappings().ranges.emplace(begin, begin + size);
  return file;
}

MappedFile::~MappedFile() {
  if (!data_) return;
  const std::lock_guard lock(mappings().mutex);
  mappings().ranges.erase(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void release_pages(const void* begin, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = round_up(reinterpret_cast<uintptr_t>(begin), page);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) / page * page;
  if (first >= last) return;
  auto* const pages = reinterpret_cast<std::byte*>(first);
  const std::lock_guard lock(mappings().mutex);
  auto after = mappings().ranges.upper_bound(pages);
  if (after == mappings().ranges.begin() || std::prev(after)->second < reinterpret_cast<std::byte*>(last)) return;
  ::madvise(pages, last - first, MADV_DONTNEED);  // of a read-only mapping: nothing is lost
}

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
