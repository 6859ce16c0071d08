#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

namespace smelt {

/// A list that a function reads and does not keep: braces or a vector of the caller. Takes no memory, unlike a
/// parameter of type std::vector.
template <class T>
class ListView : public std::span<const T> {
 public:
  ListView(std::initializer_list<T> list) : std::span<const T>(list.begin(), list.size()) {}  // NOLINT(*-explicit-*)
  ListView(const std::vector<T>& list) : std::span<const T>(list) {}                          // NOLINT(*-explicit-*)
  ListView(std::span<const T> list) : std::span<const T>(list) {}                             // NOLINT(*-explicit-*)
  template <std::contiguous_iterator I>
  requires std::same_as<std::iter_value_t<I>, T> ListView(I begin, I end) : std::span<const T>(begin, end) {}
  std::vector<T> copy() const { return {this->begin(), this->end()}; }
};
using IntList = ListView<int>;
using Int64List = ListView<int64_t>;

}  // namespace smelt
