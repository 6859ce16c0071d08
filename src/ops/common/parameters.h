#pragma once

#include "ops/core/op.h"

namespace smelt {

/// Shape rules of parameters (biases, scales), as far as shapes are known: input i, if given, has `length` elements.
inline Status check_length(const InferContext& ctx, int i, int64_t length, const char* what) {
  if (length < 0 || !ctx.has(i) || !ctx.input(i).is_static()) return Ok();
  SMELT_ASSIGN(const int64_t n, ctx.input(i).shape.checked_elements());
  if (n == length) return Ok();
  return InvalidModel(what, " has ", n, " elements, ", length, " expected");
}

/// Input i, if given, broadcasts to `shape` without changing it.
inline Status check_spreads(const InferContext& ctx, int i, const Shape& shape, const char* what) {
  if (!ctx.has(i) || !ctx.input(i).ranked) return Ok();
  const Shape& p = ctx.input(i).shape;
  bool fits = p.rank() <= shape.rank();
  for (int k = 0; fits && k < p.rank(); ++k) {
    const int64_t have = p[k], want = shape[shape.rank() - p.rank() + k];
    fits = have < 0 || want < 0 || have == 1 || have == want;
  }
  if (fits) return Ok();
  return InvalidModel(what, " of shape ", p.str(), " does not broadcast to ", shape.str());
}

}  // namespace smelt
