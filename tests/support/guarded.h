#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <string_view>

namespace smelt::test {

/// Memory that ends at a page nobody may touch: reading or writing one byte too far is a crash.
class Guarded {
 public:
  static constexpr size_t kAligned = 16;  ///< sizes that are a multiple of it begin at an aligned address

  explicit Guarded(size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(base_ + size_ - page, page, PROT_NONE);
    data_ = base_ + size_ - page - bytes;
  }
  Guarded(const void* from, size_t bytes) : Guarded(bytes) { std::memcpy(data_, from, bytes); }
  explicit Guarded(std::string_view file) : Guarded(file.data(), file.size()) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, size_); }
  void read_only() { mprotect(base_, size_ - static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_READ); }
  void* data() { return data_; }
  std::span<const std::byte> bytes() const { return {reinterpret_cast<const std::byte*>(data_), bytes_}; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }

 private:
  char *base_, *data_;
  size_t bytes_, size_;
};

}  // namespace smelt::test
