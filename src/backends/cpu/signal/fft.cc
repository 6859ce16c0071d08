#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/signal/fft.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/signal/fft.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A vector of complex numbers.
template <class D>
struct Complexes {
  hn::Vec<D> re, im;
};
template <class D>
HWY_INLINE Complexes<D> operator+(Complexes<D> a, Complexes<D> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D>
HWY_INLINE Complexes<D> operator-(Complexes<D> a, Complexes<D> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
/// a + s * b.
template <class D>
HWY_INLINE Complexes<D> add_scaled(D d, Complexes<D> a, double s, Complexes<D> b) {
  const auto v = hn::Set(d, s);
  return {hn::MulAdd(v, b.re, a.re), hn::MulAdd(v, b.im, a.im)};
}
/// a - i b.
template <class D>
HWY_INLINE Complexes<D> minus_i(Complexes<D> a, Complexes<D> b) {
  return {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
}
/// a + i b.
template <class D>
HWY_INLINE Complexes<D> plus_i(Complexes<D> a, Complexes<D> b) {
  return {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
}
template <class D>
HWY_INLINE Complexes<D> times(D d, Complexes<D> a, double re, double im) {
  const auto r = hn::Set(d, re), i = hn::Set(d, im);
  return {hn::MulSub(a.re, r, hn::Mul(a.im, i)), hn::MulAdd(a.re, i, hn::Mul(a.im, r))};
}

/// The entries of one butterfly: `in` of them `in_step` numbers apart, out of them one behind the other.
struct Butterfly {
  const double *xr, *xi;
  double *yr, *yi;
  int64_t in_step, size;
  const double* twiddles;  ///< nullptr: all 1
  template <class D>
  HWY_INLINE Complexes<D> load(D d, int64_t k, int64_t i) const {
    return {hn::LoadU(d, xr + k * in_step + i), hn::LoadU(d, xi + k * in_step + i)};
  }
  template <class D>
  HWY_INLINE void store(D d, int64_t k, int64_t i, Complexes<D> v) const {
    if (twiddles && k > 0) v = times(d, v, twiddles[2 * k - 2], twiddles[2 * k - 1]);
    hn::StoreU(v.re, d, yr + k * size + i);
    hn::StoreU(v.im, d, yi + k * size + i);
  }
};

HWY_INLINE void butterfly2(const Butterfly& b) {
  for_lanes<double>(b.size, [&](auto d, int64_t i) HWY_ATTR {
    const auto x0 = b.load(d, 0, i), x1 = b.load(d, 1, i);
    b.store(d, 0, i, x0 + x1);
    b.store(d, 1, i, x0 - x1);
  });
}

HWY_INLINE void butterfly3(const Butterfly& b) {
  for_lanes<double>(b.size, [&](auto d, int64_t i) HWY_ATTR {
    const auto x0 = b.load(d, 0, i), x1 = b.load(d, 1, i), x2 = b.load(d, 2, i);
    const auto sum = x1 + x2, middle = add_scaled(d, x0, -0.5, sum);
    const auto turned = times(d, x1 - x2, 0.86602540378443864676, 0);
    b.store(d, 0, i, x0 + sum);
    b.store(d, 1, i, minus_i(middle, turned));
    b.store(d, 2, i, plus_i(middle, turned));
  });
}

HWY_INLINE void butterfly4(const Butterfly& b) {
  for_lanes<double>(b.size, [&](auto d, int64_t i) HWY_ATTR {
    const auto x0 = b.load(d, 0, i), x1 = b.load(d, 1, i), x2 = b.load(d, 2, i), x3 = b.load(d, 3, i);
    const auto even = x0 + x2, odd = x1 + x3, even_difference = x0 - x2, odd_difference = x1 - x3;
    b.store(d, 0, i, even + odd);
    b.store(d, 1, i, minus_i(even_difference, odd_difference));
    b.store(d, 2, i, even - odd);
    b.store(d, 3, i, plus_i(even_difference, odd_difference));
  });
}

HWY_INLINE void butterfly5(const Butterfly& b) {
  constexpr double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410;  // cosines of 72 and 144 degrees
  constexpr double s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;   // sines
  for_lanes<double>(b.size, [&](auto d, int64_t i) HWY_ATTR {
    const auto x0 = b.load(d, 0, i), x1 = b.load(d, 1, i), x2 = b.load(d, 2, i), x3 = b.load(d, 3, i),
               x4 = b.load(d, 4, i);
    const auto outer = x1 + x4, inner = x2 + x3, outer_difference = x1 - x4, inner_difference = x2 - x3;
    const auto near = add_scaled(d, add_scaled(d, x0, c1, outer), c2, inner);
    const auto far = add_scaled(d, add_scaled(d, x0, c2, outer), c1, inner);
    const auto near_turn = add_scaled(d, times(d, outer_difference, s1, 0), s2, inner_difference);
    const auto far_turn = add_scaled(d, times(d, outer_difference, s2, 0), -s1, inner_difference);
    b.store(d, 0, i, x0 + outer + inner);
    b.store(d, 1, i, minus_i(near, near_turn));
    b.store(d, 2, i, minus_i(far, far_turn));
    b.store(d, 3, i, plus_i(far, far_turn));
    b.store(d, 4, i, plus_i(near, near_turn));
  });
}

/// Any radix; `roots`: [radix] pairs.
HWY_INLINE void butterfly_any(const Butterfly& b, int64_t radix, const double* roots) {
  for (int64_t k = 0; k < radix; ++k)
    for_lanes<double>(b.size, [&](auto d, int64_t i) HWY_ATTR {
      auto sum = b.load(d, 0, i);
      for (int64_t j = 1; j < radix; ++j) {
        const double* root = roots + 2 * (j * k % radix);
        sum = sum + times(d, b.load(d, j, i), root[0], root[1]);
      }
      b.store(d, k, i, sum);
    });
}

void fft_stage(const FftStage& s, const double* xr, const double* xi, double* yr, double* yi, int64_t lines) {
  const int64_t size = s.stride * lines;
  // The roots of the radix stand behind the twiddles.
  const double* roots = s.twiddles.data() + 2 * s.blocks * (s.radix - 1);
  for (int64_t p = 0; p < s.blocks; ++p) {
    const int64_t from = p * size, to = p * s.radix * size;
    const Butterfly b{xr + from,
                      xi + from,
                      yr + to,
                      yi + to,
                      s.blocks * size,
                      size,
                      p == 0 ? nullptr : s.twiddles.data() + 2 * p * (s.radix - 1)};
    switch (s.radix) {
      case 2:
        butterfly2(b);
        break;
      case 3:
        butterfly3(b);
        break;
      case 4:
        butterfly4(b);
        break;
      case 5:
        butterfly5(b);
        break;
      default:
        butterfly_any(b, s.radix, roots);
    }
  }
}

void fft_multiply(const double* factors, int64_t entries, int64_t lines, double* re, double* im) {
  for (int64_t k = 0; k < entries; ++k)
    for_lanes<double>(lines, [&](auto d, int64_t i) HWY_ATTR {
      double *r = re + k * lines + i, *m = im + k * lines + i;
      const Complexes<decltype(d)> x{hn::LoadU(d, r), hn::LoadU(d, m)};
      const auto y = times(d, x, factors[2 * k], factors[2 * k + 1]);
      hn::StoreU(y.re, d, r);
      hn::StoreU(y.im, d, m);
    });
}

void fft_real_tail(const double* twiddles, const double* re, const double* im, int64_t half, int64_t lines,
                   double* to_re, double* to_im) {
  for (int64_t k = 0; k <= half; ++k) {
    const int64_t a = k == half ? 0 : k, b = k == 0 ? 0 : half - k;
    for_lanes<double>(lines, [&](auto d, int64_t i) HWY_ATTR {
      const auto scale = hn::Set(d, 0.5);
      const auto ar = hn::LoadU(d, re + a * lines + i), ai = hn::LoadU(d, im + a * lines + i);
      const auto br = hn::LoadU(d, re + b * lines + i), bi = hn::LoadU(d, im + b * lines + i);
      // The transforms of the even and of the odd entries: Z_k + conj Z_-k and -i (Z_k - conj Z_-k), halved.
      const Complexes<decltype(d)> even{hn::Mul(scale, hn::Add(ar, br)), hn::Mul(scale, hn::Sub(ai, bi))};
      const Complexes<decltype(d)> odd{hn::Mul(scale, hn::Add(ai, bi)), hn::Mul(scale, hn::Sub(br, ar))};
      const auto y = even + times(d, odd, twiddles[2 * k], twiddles[2 * k + 1]);
      hn::StoreU(y.re, d, to_re + k * lines + i);
      hn::StoreU(y.im, d, to_im + k * lines + i);
    });
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// Appends exp(-2 pi i k / n).
void add_root(std::vector<double>& roots, int64_t k, int64_t n) {
  const double angle = -2 * M_PI * static_cast<double>(k % n) / static_cast<double>(n);
  roots.push_back(std::cos(angle));
  roots.push_back(std::sin(angle));
}

/// The largest radix of a stage that divides n; 0: its prime factors are too large.
int64_t radix_of(int64_t n) {
  for (const int64_t r : {4, 2, 3, 5, 7, 11, 13})
    if (n % r == 0) return r;
  return 0;
}

bool is_smooth(int64_t n) {
  while (n > 1) {
    const int64_t r = radix_of(n);
    if (r == 0) return false;
    n /= r;
  }
  return true;
}

}  // namespace

Fft::Fft(int64_t length, Isa isa)
    : length_(length), stage_(SMELT_FOR_LEVEL(isa, fft_stage)), multiply_(SMELT_FOR_LEVEL(isa, fft_multiply)) {
  if (!is_smooth(length)) {
    set_up_chirp(isa);
    return;
  }
  for (int64_t n = length, stride = 1; n > 1;) {
    const int64_t radix = radix_of(n), blocks = n / radix;
    FftStage s{radix, blocks, stride, {}};
    s.twiddles.reserve(static_cast<size_t>(2 * (blocks * (radix - 1) + radix)));
    for (int64_t p = 0; p < blocks; ++p)
      for (int64_t k = 1; k < radix; ++k) add_root(s.twiddles, p * k, n);
    for (int64_t k = 0; k < radix; ++k) add_root(s.twiddles, k, radix);
    stages_.push_back(std::move(s));
    n = blocks;
    stride *= radix;
  }
}

void Fft::set_up_chirp(Isa isa) {
  int64_t size = 2 * length_ - 1;
  while (radix_of(size) == 0 || radix_of(size) > 5 || !is_smooth(size)) ++size;
  convolution_ = std::make_unique<Fft>(size, isa);
  std::vector<double> re(static_cast<size_t>(size)), im(re.size());
  for (int64_t k = 0; k < length_; ++k) {
    const auto square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k) %
                                             static_cast<uint64_t>(2 * length_));
    add_root(chirp_, square, 2 * length_);
    const auto at = static_cast<size_t>(k), mirrored = static_cast<size_t>((size - k) % size);
    re[at] = re[mirrored] = chirp_[2 * at] / static_cast<double>(size);
    im[at] = im[mirrored] = -chirp_[2 * at + 1] / static_cast<double>(size);
  }
  std::vector<double> work(static_cast<size_t>(convolution_->work_size(1)));
  convolution_->forward(re.data(), im.data(), 1, work.data());
  for (size_t k = 0; k < re.size(); ++k) filter_.insert(filter_.end(), {re[k], im[k]});
}

int64_t Fft::work_size(int64_t lines) const {
  if (convolution_) return 2 * convolution_->length() * lines + convolution_->work_size(lines);
  return 2 * length_ * lines;
}

void Fft::forward(double* re, double* im, int64_t lines, double* work) const {
  if (convolution_) return by_chirp(re, im, lines, work);
  double *from_re = re, *from_im = im, *to_re = work, *to_im = work + length_ * lines;
  for (const FftStage& s : stages_) {
    stage_(s, from_re, from_im, to_re, to_im, lines);
    std::swap(from_re, to_re);
    std::swap(from_im, to_im);
  }
  if (from_re == re) return;
  std::copy_n(from_re, length_ * lines, re);
  std::copy_n(from_im, length_ * lines, im);
}

void Fft::by_chirp(double* re, double* im, int64_t lines, double* work) const {
  const int64_t n = length_ * lines, size = convolution_->length() * lines;
  double *a_re = work, *a_im = work + size;
  multiply_(chirp_.data(), length_, lines, re, im);
  std::copy_n(re, n, a_re);
  std::copy_n(im, n, a_im);
  std::fill(a_re + n, a_re + size, 0.0);
  std::fill(a_im + n, a_im + size, 0.0);
  convolution_->forward(a_re, a_im, lines, work + 2 * size);
  multiply_(filter_.data(), convolution_->length(), lines, a_re, a_im);
  convolution_->forward(a_im, a_re, lines, work + 2 * size);
  std::copy_n(a_re, n, re);
  std::copy_n(a_im, n, im);
  multiply_(chirp_.data(), length_, lines, re, im);
}

RealFftTail::RealFftTail(int64_t length, Isa isa) : half_(length / 2), tail_(SMELT_FOR_LEVEL(isa, fft_real_tail)) {
  for (int64_t k = 0; k <= half_; ++k) add_root(twiddles_, k, length);
}

void RealFftTail::apply(const double* re, const double* im, int64_t lines, double* to_re, double* to_im) const {
  tail_(twiddles_.data(), re, im, half_, lines, to_re, to_im);
}

}  // namespace smelt
#endif
