#include <algorithm>
#include <array>

#include "ops/common/operands.h"
#include "ops/common/window.h"
#include "ops/conv/conv.h"

namespace smelt {
namespace {

/// Calls body(block position, tap, flattened image position or -1) for all windows of an image.
template <class F>
void for_columns(const Window& w, F&& body) {
  std::array<int64_t, Shape::kMaxRank> out{}, tap{};
  for (int64_t t = 0, taps = w.taps(); t < taps; ++t) {
    out = {};
    for (int64_t o = 0, n = w.out_positions(); o < n; ++o) {
      int64_t index = 0;
      for (int i = 0; i < w.rank && index >= 0; ++i) {
        const auto d = static_cast<size_t>(i);
        const WindowDim& dim = w.dims[d];
        const int64_t p = out[d] * dim.stride - dim.pad_begin + tap[d] * dim.dilation;
        index = p < 0 || p >= dim.in ? -1 : index * dim.in + p;
      }
      body(o, t, index);
      for (int i = w.rank - 1; i >= 0 && ++out[static_cast<size_t>(i)] == w.dims[static_cast<size_t>(i)].out; --i)
        out[static_cast<size_t>(i)] = 0;
    }
    for (int i = w.rank - 1; i >= 0 && ++tap[static_cast<size_t>(i)] == w.dims[static_cast<size_t>(i)].kernel; --i)
      tap[static_cast<size_t>(i)] = 0;
  }
}

Status check_kernel(const std::vector<int64_t>& kernel) {
  int64_t taps = 1;
  for (int64_t k : kernel)
    if (k < 1 || __builtin_mul_overflow(taps, k, &taps) || taps > (int64_t{1} << 26))
      return InvalidModel("a block of size ", k, " is out of range");
  return Ok();
}

/// x [N, C, spatial...] and the window over it.
Result<Window> im2col_window(const Im2ColAttrs& a, const Shape& x) {
  Window w;
  w.rank = static_cast<int>(a.kernel.size());
  if (x.rank() != w.rank + 2 || w.rank < 1)
    return InvalidModel("Im2Col of rank ", x.rank(), " with a kernel of ", w.rank, " dimensions");
  SMELT_TRY(check_kernel(a.kernel));
  for (int i = 0; i < w.rank; ++i) {
    w.dims[static_cast<size_t>(i)].in = x[i + 2];
    w.dims[static_cast<size_t>(i)].kernel = a.kernel[static_cast<size_t>(i)];
  }
  SMELT_TRY(set_window(w, a.strides, a.dilations, a.pads));
  SMELT_TRY(slide_window(w, AutoPad::kExplicit, false));
  return w;
}

bool known_outputs(const Window& w) {
  for (int i = 0; i < w.rank; ++i)
    if (w.dims[static_cast<size_t>(i)].out < 0) return false;
  return true;
}

Result<int64_t> product_of(int64_t a, int64_t b) {
  int64_t r = 0;
  if (a < 0) return int64_t{-1};
  if (__builtin_mul_overflow(a, b, &r)) return LimitReached("a column matrix is too large");
  return r;
}

/// The window whose columns are folded into an image; `kernel` and `image` come as tensors.
Result<Window> col2im_window(const Im2ColAttrs& a, const std::vector<int64_t>& image,
                             const std::vector<int64_t>& kernel) {
  Window w;
  w.rank = static_cast<int>(image.size());
  if (w.rank < 1 || w.rank > Shape::kMaxRank - 2 || kernel.size() != image.size())
    return InvalidInput("Col2Im got an image of ", image.size(), " and a block of ", kernel.size(), " dimensions");
  SMELT_TRY(check_kernel(kernel));
  for (int i = 0; i < w.rank; ++i) {
    const auto at = static_cast<size_t>(i);
    if (image[at] < 0) return InvalidInput("Col2Im to an image of size ", image[at]);
    w.dims[at].in = image[at];
    w.dims[at].kernel = kernel[at];
  }
  SMELT_TRY(set_window(w, a.strides, a.dilations, a.pads));
  SMELT_TRY(slide_window(w, AutoPad::kExplicit, false));
  return w;
}

Status check_columns(const Window& w, const Shape& x) {
  if (x.rank() != 3) return InvalidModel("the columns of Col2Im have rank ", x.rank(), ", 3 expected");
  if (x[1] >= 0 && x[1] % w.taps() != 0)
    return InvalidInput("the columns of Col2Im have ", x[1], " rows, a multiple of ", w.taps(), " expected");
  if (x[2] >= 0 && x[2] != w.out_positions())
    return InvalidInput("Col2Im got ", x[2], " blocks, ", w.out_positions(), " expected");
  return Ok();
}

}  // namespace

Status infer_Im2Col(InferContext& ctx) {
  const ValueType& x = ctx.input(0);
  ValueType y = ValueType::tensor(x.dtype);
  if (x.ranked) {
    SMELT_ASSIGN(const Window w, im2col_window(ctx.attrs<Im2ColAttrs>(), x.shape));
    SMELT_ASSIGN(const int64_t rows, product_of(x.shape[1], w.taps()));
    y.ranked = true;
    y.shape = Shape{x.shape[0], rows, known_outputs(w) ? w.out_positions() : -1};
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_Im2Col(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const Window w, im2col_window(ctx.attrs<Im2ColAttrs>(), x.shape()));
  return with_compute(compute_of(x.dtype()), [&]<class T>() -> Status {
    SMELT_ASSIGN(const T* const xs, operand<T>(ctx, x));
    SMELT_ASSIGN(T* const ys, scratch_array<T>(ctx, y.elements()));
    const int64_t taps = w.taps(), blocks = w.out_positions(), plane = w.in_positions();
    for (int64_t p = 0, planes = x.dim(0) * x.dim(1); p < planes; ++p)
      for_columns(w, [&](int64_t o, int64_t t, int64_t index) {
        ys[(p * taps + t) * blocks + o] = index < 0 ? T{} : xs[p * plane + index];
      });
    store(ys, y);
    return Ok();
  });
}

Status infer_Col2Im(InferContext& ctx) {
  const ValueType& x = ctx.input(0);
  ValueType y = ValueType::tensor(x.dtype);
  const auto image = ctx.ints(1), kernel = ctx.ints(2);
  if (x.ranked && image && kernel) {
    SMELT_ASSIGN(const Window w, col2im_window(ctx.attrs<Im2ColAttrs>(), *image, *kernel));
    SMELT_TRY(check_columns(w, x.shape));
    y.ranked = true;
    y.shape = Shape{x.shape[0], x.shape[1] < 0 ? -1 : x.shape[1] / w.taps()};
    for (int64_t d : *image) y.shape.push_back(d);
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_Col2Im(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  std::vector<int64_t> image(y.shape().begin() + 2, y.shape().end());
  SMELT_ASSIGN(const uint64_t* const block, operand<uint64_t>(ctx, ctx.input(2)));
  const std::vector<int64_t> kernel(block, block + ctx.input(2).elements());
  SMELT_ASSIGN(const Window w, col2im_window(ctx.attrs<Im2ColAttrs>(), image, kernel));
  SMELT_TRY(check_columns(w, x.shape()));
  return with_compute(compute_of(x.dtype()), [&]<class T>() -> Status {
    SMELT_ASSIGN(const T* const xs, operand<T>(ctx, x));
    SMELT_ASSIGN(T* const ys, scratch_array<T>(ctx, y.elements()));
    std::fill_n(ys, y.elements(), T{});
    const int64_t taps = w.taps(), blocks = w.out_positions(), plane = w.in_positions();
    // From where in the columns of a plane to where in the plane.
    SMELT_ASSIGN(int64_t* const moves, scratch_array<int64_t>(ctx, 2 * taps * blocks));
    int64_t count = 0;
    for_columns(w, [&](int64_t o, int64_t t, int64_t index) {
      if (index < 0) return;
      moves[2 * count] = t * blocks + o;
      moves[2 * count++ + 1] = index;
    });
    for (int64_t p = 0, planes = y.dim(0) * y.dim(1); p < planes; ++p) {
      const T* const from = xs + p * taps * blocks;
      T* const to = ys + p * plane;
      for (int64_t i = 0; i < count; ++i) to[moves[2 * i + 1]] += from[moves[2 * i]];
    }
    store(ys, y);
    return Ok();
  });
}

}  // namespace smelt
