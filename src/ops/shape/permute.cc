#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"

namespace smelt {
namespace {

/// The permutation of a Transpose for a given rank.
Result<std::vector<int>> permutation(const std::vector<int64_t>& perm, int rank) {
  std::vector<int> out;
  if (perm.empty()) {
    for (int i = rank; i-- > 0;) out.push_back(i);
    return out;
  }
  if (static_cast<int>(perm.size()) != rank)
    return InvalidModel("perm has ", perm.size(), " entries, the value has rank ", rank);
  return axes_of(perm, rank);
}

/// A value's elements, seen with dims `split`, written with those dimensions in the order `perm`.
StridedCopy permuted(const std::vector<int64_t>& split, const std::vector<int>& perm) {
  std::vector<int64_t> strides(split.size(), 1);
  for (size_t i = split.size(); i-- > 1;) strides[i - 1] = strides[i] * split[i];
  StridedCopy loop;
  loop.dims.resize(split.size());
  loop.in_strides.resize(split.size());
  loop.out_strides.resize(split.size());
  int64_t stride = 1;
  for (size_t i = split.size(); i-- > 0;) {
    const auto p = static_cast<size_t>(perm[i]);
    loop.dims[i] = split[p];
    loop.in_strides[i] = strides[p];
    loop.out_strides[i] = stride;
    stride *= split[p];
  }
  return loop;
}

struct ImageDims {
  int batch_rank, c, h, w;
};

ImageDims image_dims(int rank, Layout layout) {
  if (layout == Layout::kChannelsFirst) return {rank - 3, rank - 3, rank - 2, rank - 1};
  return {rank - 3, rank - 1, rank - 3, rank - 2};
}

}  // namespace

Status infer_Transpose(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  std::vector<int64_t> perm = ctx.attrs<TransposeAttrs>().perm;
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  if (perm.empty() && ctx.has(1)) {
    auto given = ctx.ints(1);
    if (!given) {
      ctx.set(0, like(x, Shape::of_rank(x.shape.rank(), -1)));
      return Ok();
    }
    if (given->empty() && x.shape.rank() > 0) return InvalidModel("perm is empty");
    perm = std::move(*given);
  }
  SMELT_ASSIGN(const auto order, permutation(perm, x.shape.rank()));
  Shape out = x.shape;
  int moved = -1;
  for (int i = 0; i < out.rank(); ++i) {
    out[i] = x.shape[order[static_cast<size_t>(i)]];
    if (x.quant && order[static_cast<size_t>(i)] == x.quant->axis) moved = i;
  }
  ctx.set(0, like(x, out, moved));
  return Ok();
}

Result<StridedCopies> copies_Transpose(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  Ints perm = spec.attrs<TransposeAttrs>().perm;
  if (perm.empty()) {
    SMELT_ASSIGN(perm, optional_ints(spec, 1));
  }
  SMELT_ASSIGN(const auto order, permutation(perm, x.rank()));
  return one_copy(permuted({x.begin(), x.end()}, order));
}

Status infer_DepthSpace(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& a = ctx.attrs<BlockAttrs>();
  const ValueType& x = ctx.input(0);
  if (a.block < 1 || a.block > (1 << 20)) return InvalidModel("a block of ", a.block);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  if (x.shape.rank() < 3) return InvalidModel("rank ", x.shape.rank(), ", at least 3 expected");
  const ImageDims d = image_dims(x.shape.rank(), a.layout);
  Shape out = x.shape;
  const int64_t b = a.block;
  auto scale = [&](int dim, int64_t times, int64_t by) -> Status {
    if (out[dim] < 0) return Ok();
    if (out[dim] % by != 0)
      return InvalidModel("dimension ", dim, " of shape ", x.shape.str(), " is not a multiple of ", by);
    out[dim] /= by;
    if (__builtin_mul_overflow(out[dim], times, &out[dim])) return InvalidModel("the result is too large");
    return Ok();
  };
  SMELT_TRY(a.to_depth ? scale(d.c, b * b, 1) : scale(d.c, 1, b * b));
  SMELT_TRY(a.to_depth ? scale(d.h, 1, b) : scale(d.h, b, 1));
  SMELT_TRY(a.to_depth ? scale(d.w, 1, b) : scale(d.w, b, 1));
  ctx.set(0, like(x, out));
  return Ok();
}

Result<StridedCopies> copies_DepthSpace(const NodeSpec& spec) {
  const auto& a = spec.attrs<BlockAttrs>();
  const Shape& x = spec.inputs[0].shape;
  const ImageDims d = image_dims(x.rank(), a.layout);
  int64_t n = 1;
  for (int i = 0; i < d.batch_rank; ++i) n *= x[i];
  const int64_t b = a.block, c = x[d.c], h = x[d.h], w = x[d.w];
  std::vector<int64_t> split;
  std::vector<int> perm;
  const bool first = a.layout == Layout::kChannelsFirst, crd = a.channel_first_order;
  if (a.to_depth && first) {
    split = {n, c, h / b, b, w / b, b};
    perm = crd ? std::vector<int>{0, 1, 3, 5, 2, 4} : std::vector<int>{0, 3, 5, 1, 2, 4};
  } else if (a.to_depth) {
    split = {n, h / b, b, w / b, b, c};
    perm = crd ? std::vector<int>{0, 1, 3, 5, 2, 4} : std::vector<int>{0, 1, 3, 2, 4, 5};
  } else if (first) {
    const int64_t oc = c / (b * b);
    split = crd ? std::vector<int64_t>{n, oc, b, b, h, w} : std::vector<int64_t>{n, b, b, oc, h, w};
    perm = crd ? std::vector<int>{0, 1, 4, 2, 5, 3} : std::vector<int>{0, 3, 4, 1, 5, 2};
  } else {
    const int64_t oc = c / (b * b);
    split = crd ? std::vector<int64_t>{n, h, w, oc, b, b} : std::vector<int64_t>{n, h, w, b, b, oc};
    perm = crd ? std::vector<int>{0, 1, 4, 2, 5, 3} : std::vector<int>{0, 1, 3, 2, 4, 5};
  }
  return one_copy(permuted(split, perm));
}

namespace {

struct BatchBlocks {
  int spatial = 0;                   ///< number of block dimensions m
  std::vector<int64_t> block, edge;  ///< [m], [m, 2]
};

Result<BatchBlocks> batch_blocks(std::vector<int64_t> block, std::vector<int64_t> edge, int rank) {
  const auto m = static_cast<int64_t>(block.size());
  if (m < 1 || m > rank - 1) return InvalidModel("a block of ", m, " dimensions for a value of rank ", rank);
  if (edge.size() != block.size() * 2)
    return InvalidModel(edge.size(), " paddings or crops, ", block.size() * 2, " expected");
  for (int64_t b : block)
    if (b < 1 || b > (1 << 30)) return InvalidModel("a block of ", b);
  for (int64_t e : edge)
    if (e < 0 || e > (int64_t{1} << 40)) return InvalidModel("a padding or crop of ", e);
  return BatchBlocks{static_cast<int>(m), std::move(block), std::move(edge)};
}

/// Shape after moving blocks between batch and space; unknown dimensions stay unknown.
Result<Shape> batch_block_shape(const Shape& in, const BatchBlocks& b, bool to_batch) {
  Shape out = in;
  int64_t product = 1;
  for (int i = 0; i < b.spatial; ++i) {
    const int64_t block = b.block[static_cast<size_t>(i)];
    const int64_t edge = b.edge[static_cast<size_t>(2 * i)] + b.edge[static_cast<size_t>(2 * i + 1)];
    if (__builtin_mul_overflow(product, block, &product)) return InvalidModel("the block is too large");
    int64_t& d = out[i + 1];
    if (d < 0) continue;
    if (to_batch) {
      if (__builtin_add_overflow(d, edge, &d)) return InvalidModel("the padding is too large");
      if (d % block != 0) return InvalidModel("padded dimension ", i + 1, " is ", d, ", not a multiple of ", block);
      d /= block;
    } else {
      if (__builtin_mul_overflow(d, block, &d)) return InvalidModel("the block is too large");
      if (edge > d) return InvalidModel("dimension ", i + 1, " of ", d, " cannot be cropped by ", edge);
      d -= edge;
    }
  }
  if (out[0] >= 0) {
    if (!to_batch && out[0] % product != 0)
      return InvalidModel("a batch of ", out[0], " is not a multiple of the block's ", product);
    if (!to_batch)
      out[0] /= product;
    else if (__builtin_mul_overflow(out[0], product, &out[0]))
      return InvalidModel("the block is too large");
  }
  return out;
}

Status infer_batch_blocks(InferContext& ctx, bool to_batch) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType& x = ctx.input(0);
  auto block = ctx.ints(1), edge = ctx.ints(2);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
  } else if (!block || !edge) {
    ctx.set(0, like(x, Shape::of_rank(x.shape.rank(), -1)));
  } else {
    SMELT_ASSIGN(const BatchBlocks b, batch_blocks(std::move(*block), std::move(*edge), x.shape.rank()));
    SMELT_ASSIGN(const Shape out, batch_block_shape(x.shape, b, to_batch));
    ctx.set(0, like(x, out));
  }
  return Ok();
}

/// Without padding or crops: one permutation of the blocks' dimensions, in the order of `blocked`.
StridedCopy batch_block_permutation(const Shape& space, const Shape& blocked, const BatchBlocks& b, bool to_batch) {
  const Shape strides = space.strides(), blocked_strides = blocked.strides();
  StridedCopy c;
  const auto add = [&](int64_t n, int64_t in_space, int64_t in_blocked) {
    c.dim(n, to_batch ? in_space : in_blocked, to_batch ? in_blocked : in_space);
  };
  int64_t step = blocked.elements();  // of `blocked`, along the block's dimension
  for (int i = 0; i < b.spatial; ++i) {
    const int64_t block = b.block[static_cast<size_t>(i)];
    step /= block;
    add(block, strides[i + 1], step);
  }
  add(space[0], strides[0], blocked_strides[0]);
  for (int i = 0; i < b.spatial; ++i)
    add(blocked[i + 1], b.block[static_cast<size_t>(i)] * strides[i + 1], blocked_strides[i + 1]);
  add(strides[b.spatial], 1, 1);
  return c;
}

/// What cell k of the block holds of the space; nullopt: nothing.
std::optional<StridedCopy> batch_block_cell(const Shape& space, const Shape& blocked, const BatchBlocks& b,
                                            bool to_batch, int64_t k) {
  const Shape strides = space.strides(), blocked_strides = blocked.strides();
  // Entry i of a dimension of `blocked` stands for entry i * block + (the cell's) - edge of the space.
  int64_t at = 0, blocked_at = k * space[0] * blocked_strides[0], rest = k;
  std::array<std::array<int64_t, 3>, Shape::kMaxRank> dims = {};
  for (int i = b.spatial; i > 0; --i) {
    const auto d = static_cast<size_t>(i - 1);
    const int64_t step = b.block[d], shift = rest % step - b.edge[2 * d];
    rest /= step;
    const int64_t first = shift >= 0 ? 0 : (-shift + step - 1) / step;
    const int64_t last = shift >= space[i] ? 0 : std::min((space[i] - shift + step - 1) / step, blocked[i]);
    if (first >= last) return std::nullopt;
    at += (first * step + shift) * strides[i];
    blocked_at += first * blocked_strides[i];
    dims[d] = {last - first, step * strides[i], blocked_strides[i]};
  }
  StridedCopy c;
  const auto add = [&](int64_t n, int64_t in_space, int64_t in_blocked) {
    c.dim(n, to_batch ? in_space : in_blocked, to_batch ? in_blocked : in_space);
  };
  add(space[0], strides[0], blocked_strides[0]);
  for (int i = 0; i < b.spatial; ++i) {
    const auto& [n, in_space, in_blocked] = dims[static_cast<size_t>(i)];
    add(n, in_space, in_blocked);
  }
  add(strides[b.spatial], 1, 1);
  c.in_offset = to_batch ? at : blocked_at;
  c.out_offset = to_batch ? blocked_at : at;
  return c;
}

Result<StridedCopies> batch_block_copies(const NodeSpec& spec, bool to_batch) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  SMELT_ASSIGN(Ints block, constant_ints(spec, 1));
  SMELT_ASSIGN(Ints edge, constant_ints(spec, 2));
  SMELT_ASSIGN(const BatchBlocks b, batch_blocks(std::move(block), std::move(edge), x.shape.rank()));
  SMELT_ASSIGN(const Shape want, batch_block_shape(x.shape, b, to_batch));
  SMELT_TRY(expect_shape(y, want));
  StridedCopies all;
  const bool padded = std::ranges::any_of(b.edge, [](int64_t e) { return e != 0; });
  if (to_batch && padded) all.fill = zero_like(type_only(y.quant ? y : x));
  if (x.shape.elements() == 0 || y.shape.elements() == 0) return all;
  const Shape &space = to_batch ? x.shape : y.shape, &blocked = to_batch ? y.shape : x.shape;
  if (!padded) {
    all.copies.push_back(batch_block_permutation(space, blocked, b, to_batch));
    return all;
  }
  for (int64_t k = 0; k < blocked[0] / space[0]; ++k)
    if (auto cell = batch_block_cell(space, blocked, b, to_batch, k)) all.copies.push_back(std::move(*cell));
  return all;
}

}  // namespace

Status infer_SpaceToBatch(InferContext& ctx) { return infer_batch_blocks(ctx, true); }
Status infer_BatchToSpace(InferContext& ctx) { return infer_batch_blocks(ctx, false); }
Result<StridedCopies> copies_SpaceToBatch(const NodeSpec& spec) { return batch_block_copies(spec, true); }
Result<StridedCopies> copies_BatchToSpace(const NodeSpec& spec) { return batch_block_copies(spec, false); }

}  // namespace smelt
