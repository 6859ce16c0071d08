#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compare/match.h"
#include "compare/recording.h"

namespace smelt {

/// A recorded value of the first side beside one of the second that a run made. Elements are read some at a time, so
/// that both need little memory beyond the second's own; all at once where types can't be cut: sub-byte ones, and
/// quantization by axis, block or token.
class PairedValues {
 public:
  /// All outlive this. Precondition: `recording` has the pair's first value.
  PairedValues(const Recording& recording, const Pair& pair, Tensor& second);

  /// Real values of both sides in the same places. Of shapes with unlike numbers of elements one call shows all.
  using Visit = std::function<void(std::span<const float> first, std::span<const float> second)>;
  Status visit(const Visit& visit) const { return walk(visit, false); }
  /// As visit(); then the second side's elements are the first's, in the second's type. Unlike numbers of elements:
  /// they stay.
  Status replace(const Visit& visit) const { return walk(visit, true); }

  /// Element type, shape and quantization of the first; no contents.
  const Tensor& first() const { return recording_.type(pair_.first); }

 private:
  Status walk(const Visit& visit, bool replaces) const;
  Status walk_whole(const Visit& visit, bool replaces) const;

  const Recording& recording_;
  const Pair& pair_;
  Tensor& second_;
};

/// Real values of a tensor, some at a time: `visit` is told the index of the first of them. Nothing for other types
/// than numbers and bools.
void visit_reals(const Tensor& t, const std::function<void(int64_t at, std::span<const float> values)>& visit);

}  // namespace smelt
