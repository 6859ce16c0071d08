#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "smelt/tensor.h"
#include "tensor/numeric.h"

namespace smelt {

/// The elements of a tensor in a form that compares fast and exactly. NaN counts as the largest number and equals NaN.
class SortKeys {
 public:
  static Result<SortKeys> of(const Tensor& t) {
    SortKeys k;
    if (t.dtype() == DType::kString) {
      k.strings_ = t.data<std::string>();
    } else if (is_float(t.dtype())) {
      k.reals_.resize(static_cast<size_t>(t.elements()));
      to_doubles(t, k.reals_.data());
      k.real_ = true;
    } else if (is_integer(t.dtype()) || t.dtype() == DType::kBool) {
      k.whole_.resize(static_cast<size_t>(t.elements()));
      to_ints(t, k.whole_.data());
      // uint64 in the order of int64.
      if (t.dtype() == DType::kU64)
        for (int64_t& v : k.whole_) v = static_cast<int64_t>(static_cast<uint64_t>(v) ^ (uint64_t{1} << 63));
    } else {
      return Unsupported("elements of ", to_string(t.dtype()), " have no order");
    }
    return k;
  }
  /// -1, 0, 1 as element i is less than, equal to or greater than element j.
  int compare(int64_t i, int64_t j) const {
    const auto a = static_cast<size_t>(i), b = static_cast<size_t>(j);
    if (strings_) {
      const int c = strings_[i].compare(strings_[j]);
      return c < 0 ? -1 : c > 0;
    }
    if (!real_) return whole_[a] < whole_[b] ? -1 : whole_[a] > whole_[b];
    const double x = reals_[a], y = reals_[b];
    if (x < y) return -1;
    if (x > y) return 1;
    return static_cast<int>(x != x) - static_cast<int>(y != y);
  }

 private:
  const std::string* strings_ = nullptr;
  std::vector<double> reals_;
  std::vector<int64_t> whole_;
  bool real_ = false;
};

}  // namespace smelt
