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

bool holds(const std::vector<int>& labels, int label);
/// Labels that the operands from `next` on or the output still need.
std::vector<int> needed_after(const EinsumEquation& e, size_t next);

/// Two operands as a stack of matrix products, by their labels: [batch, rows, inner] x [batch, inner, columns] ->
/// [batch, rows, columns].
struct EinsumProduct {
  std::vector<int> batch, rows, columns, inner;

  /// For operands without repeated labels; the result keeps the labels in `needed`.
  static EinsumProduct of(const std::vector<int>& a, const std::vector<int>& b, const std::vector<int>& needed);
  std::vector<int> left() const;
  std::vector<int> right() const;
  std::vector<int> result() const;

  struct Sizes {
    int64_t batches = 1, m = 1, k = 1, n = 1;
    std::vector<int64_t> result;
  };
  /// From the extents of operands whose labels lie as left() and right() say.
  Sizes sizes(const std::vector<int64_t>& left, const std::vector<int64_t>& right) const;
};

}  // namespace smelt
