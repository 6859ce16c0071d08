#include "backends/cpu/copy/prepared_copy.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/core/row_spacing.h"
#include "backends/cpu/core/targets.h"
#include "base/checked.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/copy/prepared_copy.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#ifndef SMELT_CPU_PREPARED_COPY
#define SMELT_CPU_PREPARED_COPY
namespace smelt {

constexpr int64_t kLine = 64, kPanelLines = 256;  // bytes of a cache line, and of the columns of a panel of rows of y

/// A transposition whose columns collide, by `tiles`, of lines that are copied first: they would leave the nearest
/// cache before they are used up. Precondition: a column of x has a line at least.
[[gnu::noinline]] inline void transpose_by_lines(const std::byte* x, std::byte* y, const CopyBlock& b,
                                                 CopyBlockFn tiles) {
  alignas(kLine) std::byte lines[kPanelLines * kLine];
  CopyBlock part = b;
  part.rows = kLine / b.unit;
  part.columns = std::min(kPanelLines / b.unit, b.columns);
  part.x_column = kLine;
  for (int64_t c0 = 0; c0 < b.columns; c0 += part.columns) {
    const int64_t c = std::min(c0, b.columns - part.columns);
    for (int64_t r0 = 0; r0 < b.rows; r0 += part.rows) {
      const int64_t r = std::min(r0, b.rows - part.rows);
      const std::byte* from = x + r * b.unit + c * b.x_column;
      for (int64_t i = 0; i < part.columns; ++i, from += b.x_column) {
        __builtin_prefetch(from + kLine, 0, 2);  // of the next rows
        std::memcpy(lines + i * kLine, from, kLine);
      }
      tiles(lines, y + r * b.y_row + c * b.unit, part);
    }
  }
}

}  // namespace smelt
#endif

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

// An element may be several of the tensor's: its address is a multiple of theirs, perhaps not of its own size.
template <class T>
HWY_INLINE T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}
template <class T>
HWY_INLINE void write(T v, void* p) {
  std::memcpy(p, &v, sizeof(T));
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
      for (int c = 0; c < kColumns; ++c) write(read<T>(from[c] + i), to + i * kColumns + c);
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
      for (int r = 0; r < kRows; ++r) write(read<T>(from + i * kRows + r), to[r] + i);
    return;
  }
  for (int64_t i = 0; i + lanes <= b.columns; i += lanes) step(i);
  if (b.columns % lanes != 0) step(b.columns - lanes);
}

/// y[r][c] = x[c][r], element by element.
template <class T>
void transpose_elements(const std::byte* x, std::byte* y, const CopyBlock& b) {
  constexpr int64_t kTile = 16;
  for (int64_t r = 0; r < b.rows; r += kTile)
    for (int64_t c = 0; c < b.columns; c += kTile)
      for (int64_t i = r; i < std::min(b.rows, r + kTile); ++i)
        for (int64_t j = c; j < std::min(b.columns, c + kTile); ++j)
          write(read<T>(x + i * b.unit + j * b.x_column), y + i * b.y_row + j * b.unit);
}

/// kLanes elements whose blocks of 16 bytes come from x, x + stride and so on.
template <class T, size_t kLanes>
HWY_INLINE auto load_blocks(const std::byte* x, int64_t stride) {
  const hn::CappedTag<T, kLanes> d;
  if constexpr (kLanes * sizeof(T) <= 16) {
    return hn::LoadU(d, at<T>(x, 0));
  } else {
    const auto low = load_blocks<T, kLanes / 2>(x, stride);
    const int64_t half = static_cast<int64_t>(kLanes / 2 * sizeof(T) / 16) * stride;
    return hn::Combine(d, load_blocks<T, kLanes / 2>(x + half, stride), low);
  }
}

/// v[r][c] = v[c][r] for kSide rows, in each block of as many elements.
/// Interleaving row i with row i + kSide / 2 rotates the bits of an element's index, row before column, by one: as many
/// rounds as a row has bits exchange row and column.
template <int kSide, class D, class V = hn::Vec<D>>
HWY_INLINE void transpose_vectors(D d, V (&v)[kSide]) {
  V w[kSide];
#pragma GCC unroll 4
  for (int round = 1; round < kSide; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kSide / 2; ++i) {
      w[2 * i] = hn::InterleaveLower(d, v[i], v[i + kSide / 2]);
      w[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + kSide / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) v[i] = w[i];
  }
}

/// y[r][c] = x[c][r] for kSide rows of 16 / sizeof(T) elements in each block of a vector of columns. Of bytes, `rows`
/// rows are written.
template <class T, size_t kBytes>
HWY_INLINE void transpose_tile(const std::byte* x, std::byte* y, int64_t x_column, int64_t y_row, int64_t rows) {
  constexpr size_t kLanes = kBytes / sizeof(T);
  constexpr int kSide = 16 / sizeof(T);
  const hn::CappedTag<T, kLanes> d;
  hn::Vec<decltype(d)> v[kSide];
#pragma GCC unroll 16
  for (int i = 0; i < kSide; ++i) v[i] = load_blocks<T, kLanes>(x + i * x_column, kSide * x_column);
  transpose_vectors<kSide>(d, v);
#pragma GCC unroll 16
  for (int i = 0; i < kSide; ++i)
    if (sizeof(T) > 1 || i < rows) hn::StoreU(v[i], d, at<T>(y, i * y_row));
}

/// Transposition by tiles of a vector of kBytes by 16 / sizeof(T) rows; b has a tile at least, but may have fewer rows
/// of bytes. Ends are done by tiles that overlap those before. Lines of y are written whole before the next ones: rows
/// of y that lie a multiple of a page apart share few places in a cache.
template <class T, size_t kBytes>
void transpose_tiles(const std::byte* x, std::byte* y, const CopyBlock& b) {
  constexpr int64_t kColumns = kBytes / sizeof(T), kRows = 16 / sizeof(T);
  constexpr int64_t kPanel = kPanelLines / sizeof(T), kUnit = sizeof(T);
  const int64_t rows = b.rows, x_column = b.x_column, y_row = b.y_row;
  int64_t columns = b.columns;
  if (sizeof(T) == 1 && rows < kRows) {
    // Tiles read what lies behind a column: those that it may not be read behind are left.
    const int64_t rest = std::min(columns, ceil_div(kRows - rows, x_column));
    columns -= rest;
    CopyBlock last = b;
    last.columns = rest;
    transpose_elements<T>(x + columns * x_column, y + columns * kUnit, last);
  }
  constexpr int64_t kFewColumns = 16;
  if (columns > kFewColumns && many_rows_collide(x_column) && rows * kUnit >= kLine)
    return transpose_by_lines(x, y, b, transpose_tiles<T, kBytes>);
  for (int64_t c0 = 0; c0 < columns; c0 += kPanel) {
    const int64_t c1 = std::min(columns, c0 + kPanel);
    for (int64_t r0 = 0; r0 < rows; r0 += kRows) {
      const int64_t r = std::min(r0, std::max<int64_t>(rows - kRows, 0));
      for (int64_t i = c0; i < c1; i += kColumns) {
        const int64_t c = std::min(i, columns - kColumns);
        transpose_tile<T, kBytes>(x + r * kUnit + c * x_column, y + r * y_row + c * kUnit, x_column, y_row, rows);
      }
    }
  }
}

/// Transposition of bytes to rows of fewer than 16 that lie side by side: each is written with what is the next ones',
/// which these write again.
void transpose_to_short_rows(const std::byte* x, std::byte* y, const CopyBlock& b) {
  constexpr int kSide = 16;
  const hn::CappedTag<uint8_t, kSide> d;
  const int64_t whole = std::max<int64_t>(0, (b.rows * b.columns - kSide) / b.columns + 1) / kSide * kSide;
  for (int64_t r = 0; r < whole; r += kSide) {
    hn::Vec<decltype(d)> v[kSide];
#pragma GCC unroll 16
    for (int64_t c = 0; c < kSide; ++c)
      v[c] = hn::LoadU(d, at<uint8_t>(x, r + std::min(c, b.columns - 1) * b.x_column));
    transpose_vectors<kSide>(d, v);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kSide; ++i) hn::StoreU(v[i], d, at<uint8_t>(y, (r + i) * b.columns));
  }
  CopyBlock rest = b;
  rest.rows = b.rows - whole;
  transpose_elements<uint8_t>(x + whole, y + whole * b.columns, rest);
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
    const T value = read<T>(x);
    int64_t c = 0;
    for (; c + lanes <= b.columns; c += lanes) hn::StoreU(hn::Set(d, value), d, to + c);
    for (; c < b.columns; ++c) write(value, to + c);
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

template <class F>
CopyBlockFn by_size(int64_t unit, F&& f) {
  return unit == 1 ? f(uint8_t{}) : unit == 2 ? f(uint16_t{}) : unit == 4 ? f(uint32_t{}) : f(uint64_t{});
}

template <class T>
CopyBlockFn choose_transpose(const CopyBlock& b) {
  const int64_t bytes = std::max(b.rows, b.columns) * b.unit;
  if constexpr (sizeof(T) <= 4) {
    if (const CopyBlockFn rows = bytes >= HWY_MAX_BYTES ? choose_interleaving<T, HWY_MAX_BYTES>(b)
                                 : bytes >= 32          ? choose_interleaving<T, 32>(b)
                                                        : choose_interleaving<T, 16>(b))
      return rows;
  }
  const int64_t vector = b.columns * b.unit;
  if (b.unit == 1 && b.columns < 16 && b.y_row == b.columns && b.rows > b.columns) return transpose_to_short_rows;
  // Columns enough for a tile even where some are left.
  const bool few_rows = b.unit == 1 && b.rows > 4 && b.x_column >= b.rows && b.columns >= HWY_MAX_BYTES + 4;
  if ((b.rows * b.unit < 16 && !few_rows) || vector < 16) return transpose_elements<T>;
  return vector >= HWY_MAX_BYTES ? transpose_tiles<T, HWY_MAX_BYTES>
         : vector >= 32          ? transpose_tiles<T, std::min<size_t>(32, HWY_MAX_BYTES)>
                                 : transpose_tiles<T, 16>;
}

CopyBlockFn choose_transpose_of(const CopyBlock& b) {
  return by_size(b.unit, [&](auto t) { return choose_transpose<decltype(t)>(b); });
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
namespace {
constexpr int64_t kGrain = 64 * 1024;  // bytes, at most, that one thread copies alone
constexpr int64_t kPart = 128;         // elements of a transposition's longer side, at least, that a thread takes
}  // namespace

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
    shortest_ = kPart;
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

void PreparedCopy::cut(const std::byte* x, std::byte* y, int64_t outer, int64_t begin, int64_t end) const {
  for (size_t d = dims_.size(); d-- > 0; outer /= dims_[d]) {
    x += outer % dims_[d] * in_strides_[d];
    y += outer % dims_[d] * out_strides_[d];
  }
  CopyBlock b = block_;
  (by_rows() ? b.rows : b.columns) = end - begin;
  copy_block_(x + begin * (by_rows() ? b.x_row : b.x_column), y + begin * (by_rows() ? b.y_row : b.y_column), b);
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

void PreparedCopy::run_part(const std::byte* x, std::byte* y, int64_t i, int64_t parts) const {
  x += in_offset_;
  y += out_offset_;
  // Few blocks are cut, so that parts are about as large each.
  const int64_t side = by_rows() ? block_.rows : block_.columns, most = std::max<int64_t>(1, side / shortest_);
  const int64_t cuts = outer_ < 4 * parts ? std::min(ceil_div(4 * parts, outer_), most) : 1, n = outer_ * cuts;
  const int64_t first = n * i / parts, last = n * (i + 1) / parts;
  if (cuts == 1) return range(x, y, first, last);
  for (int64_t at = first; at < last;) {
    const int64_t outer = at / cuts, end = std::min(last, (outer + 1) * cuts);
    cut(x, y, outer, side * (at - outer * cuts) / cuts, side * (end - outer * cuts) / cuts);
    at = end;
  }
}

int64_t PreparedCopy::parts(int64_t bytes, int threads) {
  return threads <= 1 || bytes <= kGrain ? 1 : round_up(ceil_div(bytes, kGrain), int64_t{threads});
}

void PreparedCopy::run(ThreadPool& pool, const std::byte* x, std::byte* y) const {
  const int64_t n = parts(bytes(), pool.threads());
  if (n == 1) return range(x + in_offset_, y + out_offset_, 0, outer_);
  pool.parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_part(x, y, i, n);
  });
}

}  // namespace smelt
#endif
