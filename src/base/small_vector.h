#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace smelt {

/// A vector of numbers that allocates only beyond N elements.
template <class T, size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return on_heap() ? heap_.data() : inline_.data(); }
  const T* data() const { return on_heap() ? heap_.data() : inline_.data(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  void push_back(T value) {
    if (size_ >= N || on_heap())
      resize(size_ + 1), back() = value;
    else
      inline_[size_++] = value;
  }
  /// Elements beyond the old size are zero.
  void resize(size_t n) {
    if (n > N && !on_heap()) {
      std::vector<T> grown;
      grown.reserve(n);
      grown.assign(begin(), end());
      heap_ = std::move(grown);
    }
    if (on_heap())
      heap_.resize(n);
    else if (n > size_)
      std::fill(inline_.begin() + size_, inline_.begin() + n, T{});
    size_ = n;
  }
  void erase(size_t i) {
    std::copy(begin() + i + 1, end(), begin() + i);
    resize(size_ - 1);
  }

 private:
  bool on_heap() const { return heap_.capacity() > 0; }
  size_t size_ = 0;
  std::array<T, N> inline_{};
  std::vector<T> heap_;
};

}  // namespace smelt
