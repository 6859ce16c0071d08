#include "backends/cpu/gemm/pack_constant.h"

#include <algorithm>
#include <memory>

#include "base/checked.h"
#include "base/mapped_file.h"
#include "base/packing_threads.h"

namespace smelt {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kBlock = 64 * 1024;  ///< floats of a copied block, which stay in the level-2 cache

/// Aligned copies of parts of b.
class Block {
 public:
  Block(const Tensor& b, void* floats) : b_(b), floats_(static_cast<float*>(floats)) {}
  const float* data() const { return floats_; }
  void copy(int64_t from, int64_t floats, int64_t to = 0) { b_.copy_elements(from, floats, floats_ + to); }
  void copy_lines(int64_t from, int64_t lines, int64_t floats, int64_t stride) {
    if (!b_.source())
      return copy_file_lines(b_.unaligned_bytes() + from * kFloat, static_cast<size_t>(lines),
                             static_cast<size_t>(floats * kFloat), floats_, static_cast<size_t>(stride * kFloat));
    for (int64_t j = 0; j < lines; ++j) copy(from + j * floats, floats, j * stride);
  }

 private:
  const Tensor& b_;
  float* floats_;
};

struct PanelsOfConstant {
  const GemmF32& gemm;
  int64_t k, n;
  float* dst;
  float alpha;

  /// Elements [first, first + count) along K of panel p, from element (first, first column of the panel). `first`: a
  /// multiple of the word.
  void pack(int64_t p, int64_t first, int64_t count, const float* from, int64_t stride_k, int64_t stride_n) const {
    const int64_t w = gemm.width(n, p), used = std::min(w, n - p * gemm.nr());
    float* rows = dst + gemm.panel_offset(gemm.words(k), p) + w + first / gemm.word * w;
    gemm.pack_columns(from, stride_k, stride_n, count, used, alpha, rows, w);
  }
};

/// Rows of b that lie one behind the other: some rows of all panels at a time.
void pack_rows(const PanelsOfConstant& to, const Tensor& b, int64_t from, int64_t stride_k) {
  const int64_t threads = PackingThreads::count(to.k * to.n * kFloat);
  const int64_t most = std::min(kBlock / stride_k, to.k / threads);
  const int64_t rows = std::min(to.k, std::max<int64_t>(most / 2 * 2, 2));
  const auto bytes = static_cast<size_t>(rows * stride_k * kFloat);
  PackingThreads::share(ceil_div(to.k, rows), threads, bytes, [&](int64_t first, int64_t end, void* copy) {
    Block block(b, copy);
    for (int64_t i = first * rows; i < std::min(end * rows, to.k); i += rows) {
      const int64_t count = std::min(rows, to.k - i);
      block.copy(from + i * stride_k, (count - 1) * stride_k + to.n);
      for (int64_t p = 0; p < to.gemm.panels(to.n); ++p)
        to.pack(p, i, count, block.data() + p * to.gemm.nr(), stride_k, 1);
    }
  });
}

/// Columns of b that lie one behind the other: a part of each column of a panel at a time.
void pack_columns(const PanelsOfConstant& to, const Tensor& b, int64_t begin, int64_t stride_n) {
  constexpr int64_t kShort = 1024,
                    kPad = 16;  // long columns are copied apart: their elements don't meet in a cache set
  const int64_t nr = to.gemm.nr(), part = std::min(to.k, kBlock / nr * 2);
  const bool apart = to.k >= kShort || stride_n != to.k;
  const int64_t stride = apart ? part + kPad : to.k;
  const auto bytes = static_cast<size_t>(nr * stride * kFloat);
  const int64_t threads = PackingThreads::count(to.k * to.n * kFloat);
  PackingThreads::share(to.gemm.panels(to.n), threads, bytes, [&](int64_t first, int64_t end, void* copy) {
    Block block(b, copy);
    for (int64_t p = first; p < end; ++p) {
      const int64_t used = std::min(nr, to.n - p * nr);
      const int64_t from = begin + p * nr * stride_n;
      for (int64_t i = 0; i < to.k; i += part) {
        const int64_t count = std::min(part, to.k - i);
        if (count == stride_n)
          block.copy_lines(from, used, count, stride);
        else
          for (int64_t j = 0; j < used; ++j) block.copy(from + j * stride_n + i, count, j * stride);
        to.pack(p, i, count, block.data(), 1, stride);
      }
    }
  });
}

}  // namespace

void pack_constant(const GemmF32& gemm, const Tensor& constant, int64_t first, int64_t stride_k, int64_t stride_n,
                   int64_t k, int64_t n, const float* bias, float* dst, float alpha, float beta) {
  if (k == 0 || n == 0) return gemm.pack(nullptr, stride_k, stride_n, k, n, bias, dst, alpha, beta);
  if (stride_n != 1 && stride_k != 1) {
    const int64_t floats = (k - 1) * stride_k + (n - 1) * stride_n + 1;
    const std::unique_ptr<float[]> copy(new float[static_cast<size_t>(floats)]);
    constant.copy_elements(first, floats, copy.get());
    return gemm.pack(copy.get(), stride_k, stride_n, k, n, bias, dst, alpha, beta);
  }
  for (int64_t p = 0; p < gemm.panels(n); ++p) {
    float* const panel = dst + gemm.panel_offset(gemm.words(k), p);
    const int64_t w = gemm.width(n, p), used = std::min(w, n - p * gemm.nr());
    for (int64_t j = 0; j < w; ++j) panel[j] = bias && j < used ? bias[p * gemm.nr() + j] * beta : 0.0f;
    if (used < w) std::fill_n(panel + w, gemm.words(k) * w, 0.0f);
  }
  const PanelsOfConstant to{gemm, k, n, dst, alpha};
  if (stride_n == 1 && (stride_k > 1 || n == 1))
    pack_rows(to, constant, first, std::max<int64_t>(stride_k, 1));
  else
    pack_columns(to, constant, first, stride_n);
}

}  // namespace smelt
