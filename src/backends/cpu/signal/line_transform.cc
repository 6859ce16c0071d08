#include "backends/cpu/signal/line_transform.h"
#include "backends/cpu/core/slots.h"

#include <algorithm>

namespace smelt {
namespace {

/// Lines that are transformed side by side.
constexpr int64_t kSideBySide = 4;

bool takes_half(const LineTransformShape& s) {
  return !s.in.complex && !s.inverse && !s.half_input && s.length % 2 == 0;
}

}  // namespace

LineTransform::LineTransform(const LineTransformShape& shape, Isa isa, int threads)
    : s_(shape), real_(takes_half(shape)), fft_(real_ ? shape.length / 2 : shape.length, isa) {
  if (real_) tail_.emplace(shape.length, isa);
  const int64_t blocks = (s_.lines + kSideBySide - 1) / kSideBySide;
  threads_ = std::clamp<int64_t>(blocks, 1, std::max(threads, 1));
  // Real and imaginary parts, those of the tail's result, and 8 numbers between threads.
  slot_ = 2 * (fft_.length() + (real_ ? fft_.length() + 1 : 0)) * kSideBySide + fft_.work_size(kSideBySide) + 8;
}

size_t LineTransform::workspace_bytes() const { return static_cast<size_t>(threads_ * slot_) * sizeof(double); }

template <class In>
void LineTransform::load(const In* x, const float* window, int64_t first, int64_t lines, double* re, double* im) const {
  if (s_.used < s_.length) {
    std::fill_n(re, fft_.length() * lines, 0.0);
    std::fill_n(im, fft_.length() * lines, 0.0);
  }
  const int64_t parts = s_.in.complex ? 2 : 1, step = s_.in.entry_stride * parts;
  for (int64_t l = 0; l < lines; ++l) {
    const In* from = x + s_.in.start(first + l) * parts;
    for (int64_t k = 0; k < s_.used; ++k, from += step) {
      const double factor = window ? static_cast<double>(window[k]) : 1;
      const double a = static_cast<double>(from[0]) * factor;
      if (real_) {
        (k % 2 == 0 ? re : im)[k / 2 * lines + l] = a;
        continue;
      }
      const double b = parts == 2 ? static_cast<double>(from[1]) * factor : 0;
      re[k * lines + l] = a;
      im[k * lines + l] = b;
      if (s_.half_input && k > 0 && s_.length - k > k) {
        re[(s_.length - k) * lines + l] = a;
        im[(s_.length - k) * lines + l] = -b;
      }
    }
  }
}

template <class Out>
void LineTransform::store(const double* re, const double* im, int64_t first, int64_t lines, Out* y) const {
  const int64_t parts = s_.out.complex ? 2 : 1, step = s_.out.entry_stride * parts;
  for (int64_t l = 0; l < lines; ++l) {
    Out* to = y + s_.out.start(first + l) * parts;
    for (int64_t k = 0; k < s_.kept; ++k, to += step) {
      // The second half of a real line's transform mirrors the first.
      const bool mirrored = real_ && k > s_.length / 2;
      const int64_t at = (mirrored ? s_.length - k : k) * lines + l;
      to[0] = static_cast<Out>(re[at] * s_.scale);
      if (parts == 2) to[1] = static_cast<Out>((mirrored ? -im[at] : im[at]) * s_.scale);
    }
  }
}

template <class In, class Out>
void LineTransform::run(const In* x, const float* window, Out* y, void* workspace, ThreadPool& threads) const {
  const int64_t blocks = (s_.lines + kSideBySide - 1) / kSideBySide;
  in_slots(threads, threads_, blocks, [&](int64_t b, int64_t slot) {
    double* re = static_cast<double*>(workspace) + slot * slot_;
    double* im = re + fft_.length() * kSideBySide;
    double* to_re = im + fft_.length() * kSideBySide;
    double* to_im = to_re + (real_ ? (fft_.length() + 1) * kSideBySide : 0);
    double* work = to_im + (real_ ? (fft_.length() + 1) * kSideBySide : 0);
    const int64_t first = b * kSideBySide, lines = std::min(kSideBySide, s_.lines - first);
    load(x, window, first, lines, re, im);
    if (s_.inverse)
      fft_.forward(im, re, lines, work);
    else
      fft_.forward(re, im, lines, work);
    if (tail_) tail_->apply(re, im, lines, to_re, to_im);
    store(tail_ ? to_re : re, tail_ ? to_im : im, first, lines, y);
  });
}

template void LineTransform::run(const float*, const float*, float*, void*, ThreadPool&) const;
template void LineTransform::run(const float*, const float*, double*, void*, ThreadPool&) const;
template void LineTransform::run(const double*, const float*, float*, void*, ThreadPool&) const;

}  // namespace smelt
