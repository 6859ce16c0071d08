#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/loops.h"
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
CopyLoop permute_loop(const std::vector<int64_t>& split, const std::vector<int>& perm) {
  std::vector<int64_t> strides(split.size(), 1);
  for (size_t i = split.size(); i-- > 1;) strides[i - 1] = strides[i] * split[i];
  CopyLoop loop;
  loop.dims.resize(split.size());
  loop.from.resize(split.size());
  loop.to.resize(split.size());
  int64_t stride = 1;
  for (size_t i = split.size(); i-- > 0;) {
    const auto p = static_cast<size_t>(perm[i]);
    loop.dims[i] = split[p];
    loop.from[i] = strides[p];
    loop.to[i] = stride;
    stride *= split[p];
  }
  return loop;
}

void run_loop(const Tensor& x, Tensor& y, CopyLoop loop) {
  const MoveSource source(x);
  MoveTarget target(y);
  copy(source, target, std::move(loop));
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

Status reference_Transpose(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  std::vector<int64_t> perm = ctx.attrs<TransposeAttrs>().perm;
  if (perm.empty() && ctx.has(1)) perm = ints_of(ctx.input(1));
  SMELT_ASSIGN(CopyLoop loop, transpose_loop(x.shape(), perm));
  run_loop(x, ctx.output(0), std::move(loop));
  return Ok();
}

Result<CopyLoop> transpose_loop(const Shape& x, const Ints& perm) {
  SMELT_ASSIGN(const auto order, permutation(perm, x.rank()));
  return permute_loop({x.begin(), x.end()}, order);
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

Status reference_DepthSpace(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  run_loop(x, ctx.output(0), depth_space_loop(ctx.attrs<BlockAttrs>(), x.shape()));
  return Ok();
}

CopyLoop depth_space_loop(const BlockAttrs& a, const Shape& x) {
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
  return permute_loop(split, perm);
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

Status move_blocks(KernelContext& ctx, bool to_batch) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const MoveSource source(x);
  MoveTarget target(y);
  if (to_batch) {
    const Tensor zero = zero_like(y.quant() ? y : x);
    fill_run(MoveSource(zero), 0, target, 0, y.elements());
  }
  Shape want;
  return batch_block_loops(x.shape(), ints_of(ctx.input(1)), ints_of(ctx.input(2)), to_batch, want,
                           [&](CopyLoop loop) -> Status {
                             SMELT_TRY(expect_shape(y, want));
                             copy(source, target, std::move(loop));
                             return Ok();
                           });
}

}  // namespace

Status batch_block_loops(const Shape& x, const Ints& block, const Ints& edge, bool to_batch, Shape& y,
                         const std::function<Status(CopyLoop)>& each) {
  SMELT_ASSIGN(const BatchBlocks b, batch_blocks(block, edge, x.rank()));
  SMELT_ASSIGN(y, batch_block_shape(x, b, to_batch));
  if (x.elements() == 0 || y.elements() == 0) return Ok();
  const Shape &space = to_batch ? x : y, &blocked = to_batch ? y : x;
  const Shape strides = space.strides(), blocked_strides = blocked.strides();
  const int64_t blocks = blocked[0] / space[0];
  for (int64_t k = 0; k < blocks; ++k) {
    // Cell i of a dimension stands for position i * block + within - edge of the space.
    CopyLoop loop;
    int64_t at = 0, blocked_at = k * space[0] * blocked_strides[0], rest = k;
    bool any = true;
    std::array<std::array<int64_t, 3>, Shape::kMaxRank> dims = {};
    for (int i = b.spatial; i > 0; --i) {
      const auto d = static_cast<size_t>(i - 1);
      const int64_t step = b.block[d], shift = rest % step - b.edge[2 * d];
      rest /= step;
      const int64_t first = shift >= 0 ? 0 : (-shift + step - 1) / step;
      const int64_t last = shift >= space[i] ? 0 : std::min((space[i] - shift + step - 1) / step, blocked[i]);
      any = any && first < last;
      at += (first * step + shift) * strides[i];
      blocked_at += first * blocked_strides[i];
      dims[d] = {last - first, step * strides[i], blocked_strides[i]};
    }
    if (!any) continue;
    const auto add = [&](int64_t n, int64_t in_space, int64_t in_blocked) {
      loop.dim(n, to_batch ? in_space : in_blocked, to_batch ? in_blocked : in_space);
    };
    add(space[0], strides[0], blocked_strides[0]);
    for (int i = 0; i < b.spatial; ++i) {
      const auto& [n, in_space, in_blocked] = dims[static_cast<size_t>(i)];
      add(n, in_space, in_blocked);
    }
    add(strides[b.spatial], 1, 1);
    loop.from_offset = to_batch ? at : blocked_at;
    loop.to_offset = to_batch ? blocked_at : at;
    SMELT_TRY(each(std::move(loop)));
  }
  return Ok();
}

Status infer_SpaceToBatch(InferContext& ctx) { return infer_batch_blocks(ctx, true); }
Status infer_BatchToSpace(InferContext& ctx) { return infer_batch_blocks(ctx, false); }
Status reference_SpaceToBatch(KernelContext& ctx) { return move_blocks(ctx, true); }
Status reference_BatchToSpace(KernelContext& ctx) { return move_blocks(ctx, false); }

}  // namespace smelt
