#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <string_view>

namespace smelt::test {

/// The first bytes of a file, a multiple of kStep, that end at a page nobody may read: one byte too far is a crash.
class GuardedBytes {
 public:
  static constexpr size_t kStep = 16;  ///< so that they begin at an aligned address

  explicit GuardedBytes(std::string_view file) : bytes_(file.size() / kStep * kStep) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t pages = (bytes_ + page - 1) / page * page;
    size_ = pages + page;
    base_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    auto* const end = static_cast<std::byte*>(base_) + pages;
    mprotect(end, page, PROT_NONE);
    std::memcpy(end - bytes_, file.data(), bytes_);
    data_ = end - bytes_;
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { munmap(base_, size_); }
  std::span<const std::byte> bytes() const { return {data_, bytes_}; }

 private:
  void* base_;
  const std::byte* data_;
  size_t bytes_, size_;
};

}  // namespace smelt::test
