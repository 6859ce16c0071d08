#include "ops/shape/element_copy.h"

#include <algorithm>

#include "tensor/numeric.h"

namespace smelt {
namespace {

size_t unit_of(DType dtype) {
  if (dtype == DType::kString) return 0;
  return static_cast<size_t>(std::max(bit_width(dtype), 8)) / 8;
}

bool packed(DType dtype) {
  const int bits = bit_width(dtype);
  return bits > 0 && bits < 8;
}

/// The dimension along which x is contiguous where y's innermost one crosses it: a transposition, which goes by tiles;
/// -1: none.
int64_t crossing_dim(const StridedCopy& l) {
  constexpr int64_t kWorthwhile = 4;
  if (l.out_strides.back() != 1 || l.in_strides.back() <= 1 || l.dims.back() < kWorthwhile) return -1;
  for (size_t d = 0; d + 1 < l.dims.size(); ++d)
    if (l.in_strides[d] == 1 && l.dims[d] >= kWorthwhile) return static_cast<int64_t>(d);
  return -1;
}

/// [rows][columns], the columns `stride` apart in x, to rows `to_stride` apart in y.
template <class T>
void copy_crossed(const T* x, T* y, int64_t rows, int64_t to_stride, int64_t columns, int64_t stride) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r)
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) y[r * to_stride + c] = x[r + c * stride];
}

/// A short innermost dimension changes places with the longest one.
void lengthen_rows(StridedCopy& l) {
  constexpr int64_t kShort = 8, kGain = 4;
  const auto longest = static_cast<size_t>(std::max_element(l.dims.begin(), l.dims.end()) - l.dims.begin());
  if (l.dims.back() >= kShort || l.dims[longest] < kGain * l.dims.back()) return;
  std::swap(l.dims.back(), l.dims[longest]);
  std::swap(l.in_strides.back(), l.in_strides[longest]);
  std::swap(l.out_strides.back(), l.out_strides[longest]);
}

template <class T>
void copy_units(const T* x, T* y, StridedCopy l) {
  const int64_t crossing = crossing_dim(l);
  if (crossing < 0) lengthen_rows(l);
  const int64_t n = l.dims.back(), fs = l.in_strides.back(), ts = l.out_strides.back();
  l.erase_dim(l.dims.size() - 1);
  if (crossing >= 0) {
    const auto d = static_cast<size_t>(crossing);
    const int64_t rows = l.dims[d], row_stride = l.out_strides[d];
    l.erase_dim(d);
    for_each_element(l, [&](int64_t from, int64_t to) { copy_crossed(x + from, y + to, rows, row_stride, n, fs); });
    return;
  }
  for_each_element(l, [&](int64_t from, int64_t to) {
    const T* f = x + from;
    T* t = y + to;
    if (fs == 1 && ts == 1)
      std::copy_n(f, n, t);
    else if (fs == 0 && ts == 1)
      std::fill_n(t, n, *f);
    else
      for (int64_t i = 0; i < n; ++i) t[i * ts] = f[i * fs];
  });
}

}  // namespace

CopySource::CopySource(const Tensor& t) : tensor_(t), data_(t.data<std::byte>()), unit_(unit_of(t.dtype())) {
  if (!packed(t.dtype())) return;
  const int bits = bit_width(t.dtype()), per_byte = 8 / bits;
  unpacked_.resize(static_cast<size_t>(t.elements()));
  for (int64_t i = 0; i < t.elements(); ++i)
    unpacked_[static_cast<size_t>(i)] =
        static_cast<uint8_t>(t.data<uint8_t>()[i / per_byte] >> (i % per_byte * bits) & ((1 << bits) - 1));
  data_ = reinterpret_cast<const std::byte*>(unpacked_.data());
}

CopyTarget::CopyTarget(Tensor& t) : tensor_(t), data_(t.data<std::byte>()), unit_(unit_of(t.dtype())) {
  if (!packed(t.dtype())) return;
  unpacked_.assign(static_cast<size_t>(t.elements()), 0);
  data_ = reinterpret_cast<std::byte*>(unpacked_.data());
}

CopyTarget::~CopyTarget() {
  if (!packed(tensor_.dtype())) return;
  const int bits = bit_width(tensor_.dtype()), per_byte = 8 / bits;
  uint8_t* out = tensor_.data<uint8_t>();
  if (tensor_.bytes() > 0) std::memset(out, 0, tensor_.bytes());
  for (int64_t i = 0; i < tensor_.elements(); ++i)
    out[i / per_byte] =
        static_cast<uint8_t>(out[i / per_byte] | unpacked_[static_cast<size_t>(i)] << (i % per_byte * bits));
}

void copy(const CopySource& x, CopyTarget& y, StridedCopy loop) {
  if (loop.dims.empty()) loop.dim(1, 1, 1);
  by_unit(x.unit(), [&](auto u) {
    using T = decltype(u);
    copy_units(reinterpret_cast<const T*>(x.data()), reinterpret_cast<T*>(y.data()), std::move(loop));
  });
}

void copy_run(const CopySource& x, int64_t from, CopyTarget& y, int64_t to, int64_t n) {
  if (n <= 0) return;
  if (x.unit() == 0) {
    std::copy_n(reinterpret_cast<const std::string*>(x.data()) + from, n,
                reinterpret_cast<std::string*>(y.data()) + to);
    return;
  }
  const auto unit = static_cast<int64_t>(x.unit());
  std::memcpy(y.data() + to * unit, x.data() + from * unit, static_cast<size_t>(n * unit));
}

void fill_run(const CopySource& x, int64_t from, CopyTarget& y, int64_t to, int64_t n) {
  if (n <= 0) return;
  by_unit(x.unit(), [&](auto u) {
    using T = decltype(u);
    std::fill_n(reinterpret_cast<T*>(y.data()) + to, n, reinterpret_cast<const T*>(x.data())[from]);
  });
}

Tensor zero_element(DType dtype) { return Tensor(dtype, Shape{}); }

Tensor zero_like(const Tensor& x) {
  Tensor zero = zero_element(x.dtype());
  if (x.quant() && is_integer(x.dtype())) set_int(zero, 0, x.quant()->zero_point());
  return zero;
}

void copy_all(const Tensor& x, Tensor& y) {
  if (x.raw() == y.raw()) return;
  if (x.dtype() == DType::kString) {
    std::copy_n(x.data<std::string>(), x.elements(), y.data<std::string>());
  } else if (x.bytes() > 0) {
    std::memcpy(y.raw(), x.raw(), x.bytes());
  }
}

}  // namespace smelt
