#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace smelt {

/// A number that is known (`of` is kNoValue), or dimension `number` of value `of`.
struct Extent {
  ValueId of = kNoValue;
  int64_t number = 0;
  bool is_literal() const { return of == kNoValue; }
  bool operator==(const Extent&) const = default;
};
using Extents = std::vector<Extent>;

/// The numbers of a constant of integers, or of truth values, of rank 0 or 1; nullopt for another value, or one that is
/// longer than a shape.
std::optional<Extents> literals(const Tensor* t);

/// Follows dimensions, and integer lists that are put together from dimensions, through the nodes of a graph. Two equal
/// extents are equal in each run that succeeds.
class ExtentFlow {
 public:
  /// The nodes are added in their order by add(). `exact_inputs`: of the module; dimensions that the file states are
  /// numbers only if callers cannot change those of inputs. The graph must outlive it; values may be added to it.
  ExtentFlow(const Graph& graph, bool exact_inputs);
  /// Takes dimensions of inputs that have one symbolic name as equal from now on, before the first node. A caller may
  /// give others all the same: what follows has to be checked in the run.
  void trust_names();

  /// Dimensions of a ranked value.
  Extents dims(ValueId id) const;
  /// Elements of a list of integers or truth values, of rank 0 or 1; nullopt where they are not told.
  std::optional<Extents> list(ValueId id) const;
  /// True if both are lists that nodes make, and equal.
  bool equal_lists(ValueId a, ValueId b) const;
  /// Notes what a node makes of its operands. Types of its outputs are up to date.
  void add(const Node& n);

 private:
  Extent dimension(ValueId id, int d) const;
  const Tensor* constant(ValueId id) const { return id == kNoValue ? nullptr : graph_.value(id).constant.get(); }
  bool ranked(const Node& n, size_t input) const;
  Extents dims_of(const Node& n, ValueId out) const;
  Extents of_product(const Node& n, const Extents& a, Extents made) const;
  Extents of_transpose(const Node& n, const Extents& x) const;
  Extents of_reshape(const Node& n, const Extents& x, Extents made) const;
  Extents of_gather(const Node& n, const Extents& x) const;
  Extents of_expand(const Node& n, const Extents& x, Extents made) const;
  Extents of_reduce(const Node& n, Extents x) const;
  Extents of_unsqueeze(const Node& n, const Extents& x, size_t rank) const;
  std::optional<Extents> list_of(const Node& n) const;
  std::optional<Extents> list_of_slice(const Node& n) const;
  std::optional<Extents> list_of_strided_slice(const Node& n) const;
  std::optional<Extents> list_of_gather(const Node& n) const;
  std::optional<Extents> list_of_join(const Node& n) const;
  std::optional<Extents> list_of_equal(const Node& n) const;
  std::optional<Extents> list_of_where(const Node& n) const;

  const Graph& graph_;
  bool exact_inputs_;
  std::vector<Extents> dims_;  ///< by ValueId; empty: those of the type
  std::vector<std::optional<Extents>> lists_;
};

}  // namespace smelt
