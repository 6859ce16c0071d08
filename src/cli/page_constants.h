#pragma once

#include <map>
#include <tuple>

#include "cli/json.h"
#include "smelt/tensor.h"

namespace smelt::cli {

/// Contents of constants for a page: a list of objects, one for each memory, type and length. An object has `elements`,
/// the first `values`, and for real numbers `min`, `max`, `mean`, `deviation`, `zeros`, `nan` (their number) and
/// `histogram` (counts in equal bins from `min` to `max`). All but `values` and `elements` are of finite elements. Of a
/// constant of more than kMostRead elements `sampled` elements are read, evenly spread.
class ConstantTable {
 public:
  static constexpr int64_t kMostValues = 64;  ///< values of a constant that are listed
  static constexpr int64_t kMostRead = int64_t{1} << 20;
  static constexpr int kBins = 32;

  /// The index of the object of `t`, which is read at most once.
  size_t add(const Tensor& t);
  /// The list; nothing can be added afterwards.
  Json take() { return std::move(list_); }

 private:
  std::map<std::tuple<const void*, DType, int64_t>, size_t> index_;
  Json list_ = Json::array();
};

}  // namespace smelt::cli
