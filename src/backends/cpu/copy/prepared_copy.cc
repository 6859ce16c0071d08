#include "backends/cpu/copy/prepared_copy.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/copy/prepared_copy.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE const T* at(const std::byte* p, int64_t bytes) {
  return reinterpret_cast<const T*>(p + bytes);
}
template <class T>
HWY_INLINE T* at(std::byte* p, int64_t bytes) {
  return reinterpret_cast<T*>(p + bytes);
}

/// Vectors of kBytes at most. Ends are done by a vector that overlaps the one before.
template <class T, size_t kBytes>
using Vectors = hn::CappedTag<T, kBytes / sizeof(T)>;

/// Elements that are neighbours in x lie kColumns apart in y: a transposition of kColumns columns.
template <class T, int kColumns, size_t kBytes>
void interleave(const std::byte* x, std::byte* y, const CopyBlock& b) {
  const Vectors<T, kBytes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* from[kColumns];
  for (int c = 0; c < kColumns; ++c) from[c] = at<T>(x, c * b.x_column);
  T* to = at<T>(y, 0);
  const auto step = [&](int64_t i) HWY_ATTR {
    const auto v0 = hn::LoadU(d, from[0] + i), v1 = hn::LoadU(d, from[1] + i);
    if constexpr (kColumns == 2) hn::StoreInterleaved2(v0, v1, d, to + 2 * i);
    if constexpr (kColumns == 3) hn::StoreInterleaved3(v0, v1, hn::LoadU(d, from[2] + i), d, to + 3 * i);
    if constexpr (kColumns == 4)
      hn::StoreInterleaved4(v0, v1, hn::LoadU(d, from[2] + i), hn::LoadU(d, from[3] + i), d, to + 4 * i);
  };
  if (b.rows < lanes) {
    for (int64_t i = 0; i < b.rows; ++i)
      for (int c = 0; c < kColumns; ++c) to[i * kColumns + c] = from[c][i];
    return;
  }
  for (int64_t i = 0; i + lanes <= b.rows; i += lanes) step(i);
  if (b.rows % lanes != 0) step(b.rows - lanes);
}

/// Elements that lie kRows apart in x are neighbours in y: a transposition of kRows rows.
template <class T, int kRows, size_t kBytes>
void deinterleave(const std::byte* x, std::byte* y, const CopyBlock& b) {
  const Vectors<T, kBytes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* from = at<T>(x, 0);
  T* to[kRows];
  for (int r = 0; r < kRows; ++r) to[r] = at<T>(y, r * b.y_row);
  const auto step = [&](int64_t i) HWY_ATTR {
    hn::Vec<decltype(d)> v[4];
    if constexpr (kRows == 2) hn::LoadInterleaved2(d, from + 2 * i, v[0], v[1]);
    if constexpr (kRows == 3) hn::LoadInterleaved3(d, from + 3 * i, v[0], v[1], v[2]);
    if constexpr (kRows == 4) hn::LoadInterleaved4(d, from + 4 * i, v[0], v[1], v[2], v[3]);
    for (int r = 0; r < kRows; ++r) hn::StoreU(v[r], d, to[r] + i);
  };
  if (b.columns < lanes) {
    for (int64_t i = 0; i < b.columns; ++i)
      for (int r = 0; r < kRows; ++r) to[r][i] = from[i * kRows + r];
    return;
  }
  for (int64_t i = 0; i + lanes <= b.columns; i += lanes) step(i);
  if (b.columns % lanes != 0) step(b.columns - lanes);
}

/// y[r][c] = x[c][r] for rows [r0, r1) and columns [c0, c1).
template <class T>
HWY_INLINE void transpose_edge(const std::byte* x, std::byte* y, const CopyBlock& b, int64_t r0, int64_t r1, int64_t c0,
                               int64_t c1) {
  constexpr int64_t kTile = 16;
  for (int64_t r = r0; r < r1; r += kTile)
    for (int64_t c = c0; c < c1; c += kTile)
      for (int64_t i = r; i < std::min(r1, r + kTile); ++i)
        for (int64_t j = c; j < std::min(c1, c + kTile); ++j)
          *at<T>(y, i * b.y_row + j * b.unit) = *at<T>(x, i * b.unit + j * b.x_column);
}

template <class T>
void transpose(const std::byte* x, std::byte* y, const CopyBlock& b) {
  transpose_edge<T>(x, y, b, 0, b.rows, 0, b.columns);
}

/// Tiles of four by four 32-bit units.
void transpose_words(const std::byte* x, std::byte* y, const CopyBlock& b) {
  const hn::CappedTag<uint32_t, 4> d;
  const hn::CappedTag<uint64_t, 2> wide;
  const int64_t rows = b.rows / 4 * 4, columns = b.columns / 4 * 4;
  const auto pair = [&](auto v) HWY_ATTR { return hn::BitCast(wide, v); };
  const auto store = [&](auto v, int64_t r, int64_t c)
                         HWY_ATTR { hn::StoreU(hn::BitCast(d, v), d, at<uint32_t>(y, r * b.y_row + c * 4)); };
  for (int64_t c = 0; c < columns; c += 4)
    for (int64_t r = 0; r < rows; r += 4) {
      const auto load = [&](int64_t j) HWY_ATTR { return hn::LoadU(d, at<uint32_t>(x, r * 4 + (c + j) * b.x_column)); };
      const auto v0 = load(0), v1 = load(1), v2 = load(2), v3 = load(3);
      const auto low01 = hn::InterleaveLower(d, v0, v1), high01 = hn::InterleaveUpper(d, v0, v1);
      const auto low23 = hn::InterleaveLower(d, v2, v3), high23 = hn::InterleaveUpper(d, v2, v3);
      store(hn::InterleaveLower(wide, pair(low01), pair(low23)), r, c);
      store(hn::InterleaveUpper(wide, pair(low01), pair(low23)), r + 1, c);
      store(hn::InterleaveLower(wide, pair(high01), pair(high23)), r + 2, c);
      store(hn::InterleaveUpper(wide, pair(high01), pair(high23)), r + 3, c);
    }
  transpose_edge<uint32_t>(x, y, b, rows, b.rows, 0, columns);
  transpose_edge<uint32_t>(x, y, b, 0, b.rows, columns, b.columns);
}

/// Rows of short runs, copied by words that may overlap; kWidth <= unit <= 8 * kWidth.
template <class T>
void copy_short_runs(const std::byte* x, std::byte* y, const CopyBlock& b) {
  constexpr int64_t kWidth = sizeof(T);
  for (int64_t r = 0; r < b.rows; ++r, x += b.x_row, y += b.y_row) {
    for (int64_t i = 0; i + kWidth <= b.unit; i += kWidth) std::memcpy(y + i, x + i, kWidth);
    std::memcpy(y + b.unit - kWidth, x + b.unit - kWidth, kWidth);
  }
}
struct Bytes16 {
  uint64_t a, b;
};
struct Bytes32 {
  Bytes16 a, b;
};
template <class T>
void copy_units(const std::byte* x, std::byte* y, const CopyBlock& b) {
  for (int64_t r = 0; r < b.rows; ++r, x += b.x_row, y += b.y_row) std::memcpy(y, x, sizeof(T));
}
void copy_long_runs(const std::byte* x, std::byte* y, const CopyBlock& b) {
  for (int64_t r = 0; r < b.rows; ++r, x += b.x_row, y += b.y_row) std::memcpy(y, x, static_cast<size_t>(b.unit));
}

template <class T>
void copy_strided(const std::byte* x, std::byte* y, const CopyBlock& b) {
  for (int64_t r = 0; r < b.rows; ++r, x += b.x_row, y += b.y_row)
    for (int64_t c = 0; c < b.columns; ++c) std::memcpy(y + c * b.y_column, x + c * b.x_column, sizeof(T));
}

template <class T>
void repeat(const std::byte* x, std::byte* y, const CopyBlock& b) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < b.rows; ++r, x += b.x_row, y += b.y_row) {
    T* to = at<T>(y, 0);
    const T value = *at<T>(x, 0);
    int64_t c = 0;
    for (; c + lanes <= b.columns; c += lanes) hn::StoreU(hn::Set(d, value), d, to + c);
    for (; c < b.columns; ++c) to[c] = value;
  }
}

template <class T, size_t kBytes>
CopyBlockFn choose_interleaving(const CopyBlock& b) {
  if (b.y_row == b.columns * b.unit) {
    if (b.columns == 2) return interleave<T, 2, kBytes>;
    if (b.columns == 3) return interleave<T, 3, kBytes>;
    if (b.columns == 4) return interleave<T, 4, kBytes>;
  }
  if (b.x_column == b.rows * b.unit) {
    if (b.rows == 2) return deinterleave<T, 2, kBytes>;
    if (b.rows == 3) return deinterleave<T, 3, kBytes>;
    if (b.rows == 4) return deinterleave<T, 4, kBytes>;
  }
  return nullptr;
}

template <class T>
CopyBlockFn choose_transpose(const CopyBlock& b) {
  const int64_t bytes = std::max(b.rows, b.columns) * b.unit;
  if (const CopyBlockFn rows = bytes >= HWY_MAX_BYTES ? choose_interleaving<T, HWY_MAX_BYTES>(b)
                               : bytes >= 32          ? choose_interleaving<T, 32>(b)
                                                      : choose_interleaving<T, 16>(b))
    return rows;
  return sizeof(T) == 4 ? transpose_words : transpose<T>;
}

CopyBlockFn choose_transpose_of(const CopyBlock& b) {
  return b.unit == 1   ? choose_transpose<uint8_t>(b)
         : b.unit == 2 ? choose_transpose<uint16_t>(b)
         : b.unit == 4 ? choose_transpose<uint32_t>(b)
         : b.unit == 8 ? transpose<uint64_t>
                       : nullptr;
}

template <class F>
CopyBlockFn by_size(int64_t unit, F&& f) {
  return unit == 1 ? f(uint8_t{}) : unit == 2 ? f(uint16_t{}) : unit == 4 ? f(uint32_t{}) : f(uint64_t{});
}

CopyBlockFn choose_strided(const CopyBlock& b) {
  if (b.unit == 16) return copy_strided<Bytes16>;
  if (b.x_column == 0 && b.y_column == b.unit) return by_size(b.unit, [](auto t) { return &repeat<decltype(t)>; });
  return by_size(b.unit, [](auto t) { return &copy_strided<decltype(t)>; });
}

CopyBlockFn choose_runs(const CopyBlock& b) {
  switch (b.unit) {
    case 1:
      return copy_units<uint8_t>;
    case 2:
      return copy_units<uint16_t>;
    case 4:
      return copy_units<uint32_t>;
    case 8:
      return copy_units<uint64_t>;
    case 16:
      return copy_units<Bytes16>;
    case 32:
      return copy_units<Bytes32>;
    default:
      return b.unit > 256  ? copy_long_runs
             : b.unit > 32 ? copy_short_runs<Bytes32>
             : b.unit > 16 ? copy_short_runs<Bytes16>
             : b.unit > 8  ? copy_short_runs<uint64_t>
             : b.unit > 4  ? copy_short_runs<uint32_t>
                           : copy_short_runs<uint8_t>;
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
int64_t whole_bytes(DType t) {
  const int bits = t == DType::kString || t == DType::kInvalid ? 0 : bit_width(t);
  return bits >= 8 ? bits / 8 : 0;
}

PreparedCopy::PreparedCopy(StridedCopy copy, int64_t unit, Isa isa) {
  copy.simplify();
  const int64_t element = unit;
  for (size_t i = 0; i < copy.dims.size(); ++i) {
    copy.in_strides[i] *= unit;
    copy.out_strides[i] *= unit;
  }
  // Dimensions that are contiguous on both sides become one larger unit.
  if (!copy.dims.empty() && copy.in_strides.back() == unit && copy.out_strides.back() == unit) {
    unit *= copy.dims.back();
    copy.erase_dim(copy.dims.size() - 1);
  }
  CopyBlock& b = block_;
  b.unit = unit;
  // The innermost dimension that is left becomes the block's rows.
  const auto take_rows = [&] {
    if (copy.dims.empty()) return false;
    b.rows = copy.dims.back();
    b.x_row = copy.in_strides.back();
    b.y_row = copy.out_strides.back();
    copy.erase_dim(copy.dims.size() - 1);
    return true;
  };
  const bool small = unit <= 16 && (unit & (unit - 1)) == 0;
  int64_t transposed = -1;
  for (size_t d = 0; small && unit <= 8 && d + 1 < copy.dims.size(); ++d)
    if (copy.in_strides[d] == unit && copy.out_strides.back() == unit) transposed = static_cast<int64_t>(d);
  if (transposed >= 0) {
    const auto d = static_cast<size_t>(transposed);
    b = {copy.dims[d], copy.dims.back(), unit, copy.out_strides[d], copy.in_strides.back(), unit, unit};
    copy_block_ = SMELT_FOR_LEVEL(isa, choose_transpose_of)(b);
    copy.erase_dim(copy.dims.size() - 1);
    copy.erase_dim(d);
  } else if (small && copy.dims.size() >= 1 && (copy.dims.size() >= 2 || copy.in_strides.back() == 0)) {
    b.columns = copy.dims.back();
    b.x_column = copy.in_strides.back();
    b.y_column = copy.out_strides.back();
    copy.erase_dim(copy.dims.size() - 1);
    // The longer of the innermost dimensions makes the inner copy.
    if (take_rows() && b.rows > 4 * b.columns) {
      std::swap(b.rows, b.columns);
      std::swap(b.x_row, b.x_column);
      std::swap(b.y_row, b.y_column);
    }
    copy_block_ = SMELT_FOR_LEVEL(isa, choose_strided)(b);
  } else {
    take_rows();
    copy_block_ = SMELT_FOR_LEVEL(isa, choose_runs)(b);
  }
  in_offset_ = copy.in_offset * element;
  out_offset_ = copy.out_offset * element;
  dims_ = std::move(copy.dims);
  in_strides_ = std::move(copy.in_strides);
  out_strides_ = std::move(copy.out_strides);
  for (int64_t d : dims_) outer_ *= d;
}

void PreparedCopy::range(const std::byte* x, std::byte* y, int64_t begin, int64_t end) const {
  constexpr size_t kMost = 2 * Shape::kMaxRank;
  int64_t index[kMost];  // of dims_.size() entries
  int64_t rest = begin;
  for (size_t d = dims_.size(); d-- > 0; rest /= dims_[d]) {
    index[d] = rest % dims_[d];
    x += index[d] * in_strides_[d];
    y += index[d] * out_strides_[d];
  }
  for (int64_t i = begin; i < end; ++i) {
    copy_block_(x, y, block_);
    for (size_t d = dims_.size(); d-- > 0;) {
      x += in_strides_[d];
      y += out_strides_[d];
      if (++index[d] < dims_[d]) break;
      x -= in_strides_[d] * dims_[d];
      y -= out_strides_[d] * dims_[d];
      index[d] = 0;
    }
  }
}

void PreparedCopy::run(ThreadPool& pool, const std::byte* x, std::byte* y) const {
  constexpr int64_t kGrain = 64 * 1024;  // bytes that a thread takes at once
  x += in_offset_;
  y += out_offset_;
  const int64_t bytes = std::max<int64_t>(1, block_.rows * block_.columns * block_.unit);
  if (outer_ * bytes <= kGrain) return range(x, y, 0, outer_);
  pool.parallel_for(outer_, std::max<int64_t>(1, kGrain / bytes),
                    [&](int64_t begin, int64_t end) { range(x, y, begin, end); });
}

}  // namespace smelt
#endif
