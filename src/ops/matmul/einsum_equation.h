#pragma once

#include <string>
#include <vector>

#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// Labels of an Einstein sum. Letters stand for themselves; the dimensions of the ellipsis are negative labels, -1 the
/// last one.
struct EinsumEquation {
  std::vector<std::vector<int>> operands;
  std::vector<int> output;
};

/// Parses "ij,jk->ik", with ellipses and spaces, against the ranks of the operands. Without an arrow the output takes
/// the ellipsis and then the letters that occur once, in alphabetical order.
Result<EinsumEquation> parse_einsum(const std::string& equation, const std::vector<int>& ranks);

/// Extent of each label, by position in `labels`.
struct LabelSizes {
  std::vector<int> labels;
  std::vector<int64_t> sizes;  ///< -1: unknown
  int64_t of(int label) const;
};
Result<LabelSizes> einsum_sizes(const EinsumEquation& e, const std::vector<Shape>& shapes);

}  // namespace smelt
