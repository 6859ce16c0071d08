#include <algorithm>
#include <cmath>
#include <complex>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/rules.h"
#include "ops/signal/fft.h"
#include "ops/signal/signal.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

using Complex = std::complex<double>;
constexpr int64_t kMaxLength = int64_t{1} << 26;

Status check_length(int64_t n) {
  if (n < 1) return InvalidModel("a transform of length ", n);
  if (n > kMaxLength) return LimitReached("a transform of length ", n);
  return Ok();
}

/// Complex numbers in row-major order.
struct Field {
  Shape shape;
  std::vector<Complex> v;
};

/// Real or complex elements; `pairs`: the last dimension holds real, or real and imaginary parts.
Field read_field(const Tensor& x, bool pairs) {
  Field f;
  f.shape = x.shape();
  int64_t parts = 1;
  if (pairs) {
    parts = x.shape().back();
    f.shape.erase(f.shape.rank() - 1);
  }
  f.v.resize(static_cast<size_t>(f.shape.elements()));
  for (size_t i = 0; i < f.v.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (x.dtype() == DType::kC64)
      f.v[i] = {x.data<float>()[2 * i], x.data<float>()[2 * i + 1]};
    else if (x.dtype() == DType::kC128)
      f.v[i] = {x.data<double>()[2 * i], x.data<double>()[2 * i + 1]};
    else
      f.v[i] = {get_double(x, at * parts), parts == 2 ? get_double(x, at * parts + 1) : 0};
  }
  return f;
}

/// Writes scaled elements in the form of y: complex, pairs in the last dimension, or the real parts.
void write_field(const Field& f, double scale, Tensor& y) {
  const bool pairs = !is_complex(y.dtype()) && y.elements() == 2 * static_cast<int64_t>(f.v.size());
  for (size_t i = 0; i < f.v.size(); ++i) {
    const Complex c = f.v[i] * scale;
    if (y.dtype() == DType::kC64) {
      y.data<float>()[2 * i] = static_cast<float>(c.real());
      y.data<float>()[2 * i + 1] = static_cast<float>(c.imag());
    } else if (y.dtype() == DType::kC128) {
      y.data<double>()[2 * i] = c.real();
      y.data<double>()[2 * i + 1] = c.imag();
    } else if (pairs) {
      set_double(y, static_cast<int64_t>(2 * i), c.real());
      set_double(y, static_cast<int64_t>(2 * i + 1), c.imag());
    } else {
      set_double(y, static_cast<int64_t>(i), c.real());
    }
  }
}

struct LineTransform {
  int64_t length = 0;  ///< entries cropped or zero-padded to
  int64_t keep = 0;    ///< entries kept
  bool inverse = false;
  bool half_input = false;  ///< the entries are the first half of a conjugate-symmetric spectrum
};

/// Transforms every line along an axis.
Status transform(KernelContext& ctx, Field& f, int axis, const LineTransform& t) {
  const Around around(f.shape, axis);
  const int64_t extent = f.shape[axis];
  Shape shape = f.shape;
  shape[axis] = t.keep;
  std::vector<Complex> out(static_cast<size_t>(shape.elements()));
  std::vector<Complex> line;
  for (int64_t o = 0; o < around.outer && !out.empty(); ++o)
    for (int64_t i = 0; i < around.inner; ++i) {
      SMELT_TRY(ctx.tick());
      line.assign(static_cast<size_t>(t.length), 0);
      const int64_t used = std::min(extent, t.half_input ? t.length / 2 + 1 : t.length);
      for (int64_t k = 0; k < used; ++k) {
        const Complex c = f.v[static_cast<size_t>((o * extent + k) * around.inner + i)];
        line[static_cast<size_t>(k)] = c;
        if (t.half_input && k > 0 && t.length - k > k) line[static_cast<size_t>(t.length - k)] = std::conj(c);
      }
      fft(line, t.inverse);
      for (int64_t k = 0; k < t.keep; ++k)
        out[static_cast<size_t>((o * t.keep + k) * around.inner + i)] = line[static_cast<size_t>(k)];
    }
  f.shape = shape;
  f.v = std::move(out);
  return Ok();
}

DType complex_of(DType real) { return real == DType::kF64 || real == DType::kC128 ? DType::kC128 : DType::kC64; }
DType real_of(DType complex) {
  if (complex == DType::kC128) return DType::kF64;
  return complex == DType::kC64 ? DType::kF32 : complex;
}

/// Which dimension a one-dimensional transform works on.
Result<int> dft_axis(const DftAttrs& a, int64_t given, int rank) {
  SMELT_ASSIGN(const int axis, axis_of(given, rank));
  if (!a.complex_dtype && axis == rank - 1) return InvalidModel("the last dimension holds the parts of the numbers");
  return axis;
}

/// Length of the transform when no input gives it.
int64_t own_length(const DftAttrs& a, int64_t extent) { return a.inverse && a.onesided ? 2 * (extent - 1) : extent; }

int64_t kept(const DftAttrs& a, int64_t n) { return a.onesided && !a.inverse ? n / 2 + 1 : n; }

Status infer_planes(InferContext& ctx) {
  const ValueType& x = ctx.input(0);
  const DType dtype = complex_of(x.dtype);
  if (!x.ranked) {
    ctx.set(0, ValueType::tensor(dtype));
    return Ok();
  }
  const int rank = x.shape.rank();
  if (rank < 2) return InvalidModel("rank ", rank, ", at least 2 expected");
  Shape out = x.shape;
  const auto lengths = ctx.ints(1);
  if (lengths && lengths->size() != 2) return InvalidModel(lengths->size(), " lengths, 2 expected");
  for (int i = 0; i < 2; ++i) {
    int64_t n = ctx.has(1) ? (lengths ? (*lengths)[static_cast<size_t>(i)] : -1) : x.shape[rank - 2 + i];
    if (lengths) SMELT_TRY(check_length(n));
    out[rank - 2 + i] = n >= 0 && i == 1 && ctx.attrs<DftAttrs>().onesided ? n / 2 + 1 : n;
  }
  ctx.set(0, ValueType::tensor(dtype, out));
  return Ok();
}

Status run_planes(KernelContext& ctx) {
  const auto& a = ctx.attrs<DftAttrs>();
  const Tensor& x = ctx.input(0);
  const int rank = x.rank();
  int64_t lengths[2] = {x.dim(rank - 2), x.dim(rank - 1)};
  if (ctx.has(1)) {
    const auto given = ints_of(ctx.input(1));
    if (given.size() != 2) return InvalidInput(given.size(), " lengths, 2 expected");
    lengths[0] = given[0];
    lengths[1] = given[1];
  }
  Field f = read_field(x, false);
  for (int i = 1; i >= 0; --i) {
    SMELT_TRY(check_length(lengths[i]));
    const bool half = i == 1 && a.onesided && !a.inverse;
    SMELT_TRY(transform(ctx, f, rank - 2 + i,
                        {.length = lengths[i], .keep = half ? lengths[i] / 2 + 1 : lengths[i], .inverse = a.inverse}));
  }
  const double n = static_cast<double>(lengths[0]) * static_cast<double>(lengths[1]);
  SMELT_TRY(expect_shape(ctx.output(0), f.shape));
  write_field(f, a.scale != 0 ? a.scale : (a.inverse ? 1 / n : 1), ctx.output(0));
  return Ok();
}

}  // namespace

Status infer_Dft(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& a = ctx.attrs<DftAttrs>();
  if (a.dims == 2) return infer_planes(ctx);
  const ValueType& x = ctx.input(0);
  const bool real = a.inverse && a.onesided;
  const DType dtype = !a.complex_dtype ? x.dtype : (real ? real_of(x.dtype) : complex_of(x.dtype));
  if (!x.ranked || (ctx.has(2) && !int_of(ctx, 2))) {
    ctx.set(0, x.ranked ? ValueType::tensor(dtype, Shape::of_rank(x.shape.rank(), -1)) : ValueType::tensor(dtype));
    return Ok();
  }
  const int rank = x.shape.rank();
  if (!a.complex_dtype) {
    if (rank < 2) return InvalidModel("rank ", rank, ", at least 2 expected");
    if (x.shape.back() == 0 || x.shape.back() > 2) return InvalidModel("the last dimension is ", x.shape.back());
  }
  SMELT_ASSIGN(const int axis, dft_axis(a, int_of(ctx, 2).value_or(a.axis), rank));
  Shape out = x.shape;
  int64_t n = ctx.has(1) ? int_of(ctx, 1).value_or(-1) : (x.shape[axis] < 0 ? -1 : own_length(a, x.shape[axis]));
  if (n >= 0 || (ctx.has(1) && int_of(ctx, 1))) SMELT_TRY(check_length(n));
  out[axis] = n < 0 ? -1 : kept(a, n);
  if (!a.complex_dtype) out[rank - 1] = real ? 1 : 2;
  ctx.set(0, ValueType::tensor(dtype, out));
  return Ok();
}

Status reference_Dft(KernelContext& ctx) {
  const auto& a = ctx.attrs<DftAttrs>();
  if (a.dims == 2) return run_planes(ctx);
  const Tensor& x = ctx.input(0);
  const auto number = [&](int i, int64_t fallback) {
    return ctx.has(i) && ctx.input(i).elements() > 0 ? get_int(ctx.input(i), 0) : fallback;
  };
  SMELT_ASSIGN(const int axis, dft_axis(a, number(2, a.axis), x.rank()));
  const int64_t n = number(1, own_length(a, x.dim(axis)));
  SMELT_TRY(check_length(n));
  Field f = read_field(x, !a.complex_dtype);
  SMELT_TRY(transform(ctx, f, axis,
                      {.length = n, .keep = kept(a, n), .inverse = a.inverse, .half_input = a.inverse && a.onesided}));
  const double scale = a.scale != 0 ? a.scale : (a.inverse ? 1 / static_cast<double>(n) : 1);
  write_field(f, scale, ctx.output(0));
  return Ok();
}

namespace {

struct Frames {
  int64_t length = -1, step = 0, count = -1;
};

/// Frames of a signal; -1 where not known.
Result<Frames> frames_of(int64_t signal, std::optional<int64_t> step, std::optional<int64_t> window,
                         std::optional<int64_t> length) {
  Frames f;
  f.length = length.value_or(window.value_or(-1));
  if (step && *step < 1) return InvalidModel("a frame step of ", *step);
  if (f.length >= 0 || length) SMELT_TRY(check_length(f.length));
  if (window && f.length >= 0 && *window != f.length)
    return InvalidModel("a window of ", *window, " for frames of ", f.length);
  f.step = step.value_or(0);
  if (signal >= 0 && f.length >= 0 && step) {
    if (signal < f.length) return InvalidModel("frames of ", f.length, " in a signal of ", signal);
    f.count = (signal - f.length) / *step + 1;
  }
  return f;
}

}  // namespace

Status infer_Stft(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, ValueType::tensor(x.dtype, Shape{-1, -1, -1, 2}));
    return Ok();
  }
  const int rank = x.shape.rank();
  if (rank != 2 && rank != 3) return InvalidModel("a signal of rank ", rank);
  if (rank == 3 && (x.shape[2] == 0 || x.shape[2] > 2)) return InvalidModel("the last dimension is ", x.shape[2]);
  const bool complex = rank == 3 && x.shape[2] == 2;
  if (complex && ctx.attrs<StftAttrs>().onesided) return InvalidModel("a one-sided transform of a complex signal");
  SMELT_ASSIGN(const Frames f, frames_of(x.shape[1], int_of(ctx, 1), entries_of(ctx, 2), int_of(ctx, 3)));
  const int64_t bins = f.length < 0 ? -1 : (ctx.attrs<StftAttrs>().onesided ? f.length / 2 + 1 : f.length);
  ctx.set(0, ValueType::tensor(x.dtype, Shape{x.shape[0], f.count, bins, 2}));
  return Ok();
}

Status reference_Stft(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  std::optional<int64_t> window;
  if (ctx.has(2)) window = ctx.input(2).elements();
  std::optional<int64_t> length;
  if (ctx.has(3) && ctx.input(3).elements() > 0) length = get_int(ctx.input(3), 0);
  if (ctx.input(1).elements() < 1) return InvalidInput("the frame step is empty");
  SMELT_ASSIGN(const Frames f, frames_of(x.dim(1), get_int(ctx.input(1), 0), window, length));
  if (f.length < 0) return InvalidInput("neither a window nor a frame length is given");
  const int64_t bins = y.dim(2), parts = x.rank() == 3 ? x.dim(2) : 1;
  SMELT_TRY(
      expect_shape(y, Shape{x.dim(0), f.count, ctx.attrs<StftAttrs>().onesided ? f.length / 2 + 1 : f.length, 2}));
  std::vector<Complex> line;
  int64_t to = 0;
  for (int64_t b = 0; b < x.dim(0); ++b)
    for (int64_t frame = 0; frame < f.count; ++frame) {
      SMELT_TRY(ctx.tick());
      line.assign(static_cast<size_t>(f.length), 0);
      for (int64_t k = 0; k < f.length; ++k) {
        const int64_t at = (b * x.dim(1) + frame * f.step + k) * parts;
        const double w = ctx.has(2) ? get_double(ctx.input(2), k) : 1;
        line[static_cast<size_t>(k)] = {get_double(x, at) * w, parts == 2 ? get_double(x, at + 1) * w : 0};
      }
      fft(line, false);
      for (int64_t k = 0; k < bins; ++k) {
        set_double(y, to++, line[static_cast<size_t>(k)].real());
        set_double(y, to++, line[static_cast<size_t>(k)].imag());
      }
    }
  return Ok();
}

}  // namespace smelt
