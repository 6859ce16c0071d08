#include "backends/cpu/conv/conv_transpose_f32.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cpu/conv/conv_transpose.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/activation.h"
#include "base/checked.h"

namespace smelt {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct ConvTransposeF32Key {
  FilterKey filter;
  const GemmF32* gemm;
  auto operator<=>(const ConvTransposeF32Key&) const = default;
};

class ConvTransposeF32 final : public Kernel {
 public:
  ConvTransposeF32(const Spread& s, const KernelSpec& spec)
      : s_(s), gemm_(gemm_f32(spec.isa)), act_(spec.attrs<ConvTransposeAttrs>().act), has_bias_(spec.has(2)) {
    packed_ = spec.packs.get(ConvTransposeF32Key{{s, *spec.constant(1), nullptr}, &gemm_}, [&] {
      const Tensor weights = spec.constant(1)->read_once();
      const float* filter = weights.data<float>();
      const int64_t group = gemm_.packed_size(s.c_in, s.columns());
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(group * s.groups) * sizeof(float));
      for (int64_t g = 0; g < s.groups; ++g) pack_by_taps(s, gemm_, filter, g, packed->data<float>() + g * group);
      release_pages(*spec.constant(1));
      return packed;
    });
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(kSpreadRows * s_.columns() + 16) * sizeof(float); }
  Status run(KernelContext& ctx) const override {
    auto* products = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!products) return Error(ErrorCode::kLimit, "no memory for a transposed convolution");
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t pixels = s_.batch * s_.out_pixels(), n = s_.all_out();
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t o = 0; o < n; ++o) y[p * n + o] = bias ? bias[o] : 0.0f;
    for (int64_t image = 0; image < s_.batch; ++image)
      for (int64_t g = 0; g < s_.groups; ++g)
        for (int64_t first = 0; first < s_.in_pixels(); first += kSpreadRows) {
          const int64_t rows = std::min(kSpreadRows, s_.in_pixels() - first);
          gemm_.run(rows, s_.columns(), s_.c_in, x + (image * s_.in_pixels() + first) * s_.all_in() + g * s_.c_in,
                    s_.all_in(), packed_->data<float>() + g * gemm_.packed_size(s_.c_in, s_.columns()), 0,
                    gemm_.panels(s_.columns()), products, s_.columns(), nullptr, -kInf, kInf);
          s_.add(products, first, rows, y + image * s_.out_pixels() * n + g * s_.c_out);
        }
    if (clamps(act_) && act_.kind != ActKind::kNone) {
      const Bounds b = activation_bounds(act_);
      for (int64_t i = 0; i < pixels * n; ++i) y[i] = std::min(b.hi, std::max(b.lo, y[i]));
    }
    apply_activation(act_, y, pixels, n, n);
    return Ok();
  }

 private:
  Spread s_;
  const GemmF32& gemm_;
  Activation act_;
  bool has_bias_;
  Packed packed_;
};

/// Filters that do not overlap: a line of input pixels times the filters' taps of one line is a line of the output.
class ConvTransposeTilesF32 final : public Kernel {
 public:
  static bool applies(const Spread& s, const KernelSpec& spec) {
    for (int d = 0; d < 3; ++d)
      if (s.kernel[d] != s.stride[d] || s.pad[d] != 0 || s.dilation[d] != 1 || s.out[d] != s.in[d] * s.stride[d])
        return false;
    return s.groups == 1 && (!spec.has(2) || spec.constant(2));
  }
  [[gnu::cold]] ConvTransposeTilesF32(const Spread& s, const GemmF32& gemm, const KernelSpec& spec)
      : s_(s), gemm_(gemm), act_(spec.attrs<ConvTransposeAttrs>().act), words_(gemm.words(s.c_in)) {
    const Tensor* bias = spec.constant(2);
    packed_ = spec.packs.get(TilesKey{{s, *spec.constant(1), bias}, &gemm_, s.kernel[2]}, [&] {
      const Tensor weights = spec.constant(1)->read_once();
      const float* filter = weights.data<float>();
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(filter_lines() * line_size()) * sizeof(float));
      std::vector<float> ordered(static_cast<size_t>(s.c_in * columns())), addends;
      for (int64_t kx = 0; bias && kx < s.kernel[2]; ++kx)
        addends.insert(addends.end(), bias->data<float>(), bias->data<float>() + s.c_out);
      for (int64_t ky = 0; ky < filter_lines(); ++ky) {
        float* to = ordered.data();
        for (int64_t i = 0; i < s.c_in; ++i)
          for (int64_t kx = 0; kx < s.kernel[2]; ++kx)
            for (int64_t o = 0; o < s.c_out; ++o) *to++ = filter[s.at(0, o, i, ky * s.kernel[2] + kx)];
        gemm_.pack(ordered.data(), columns(), 1, s.c_in, columns(), bias ? addends.data() : nullptr,
                   packed->data<float>() + ky * line_size());
      }
      return packed;
    });
  }
  size_t scratch_bytes() const override {
    return gemm_.to_words ? static_cast<size_t>(s_.batch * s_.in_pixels() * words_) * sizeof(float) : 0;
  }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    if (const size_t bytes = scratch_bytes()) {
      auto* words = static_cast<float*>(ctx.scratch(bytes));
      if (!words) return Error(ErrorCode::kLimit, "no memory for a transposed convolution");
      ctx.threads().parallel_for(s_.batch * s_.in_pixels(), 64, [&](int64_t begin, int64_t end) {
        gemm_.rows_to_words(x + begin * s_.c_in, end - begin, s_.c_in, words + begin * words_);
      });
      x = words;
    }
    float* y = ctx.output(0).data<float>();
    constexpr int64_t kFloats = 96 * 1024;  // input lines that stay in the level-2 cache
    const int64_t grain = std::max<int64_t>(1, kFloats / (s_.in[2] * words_));
    // Input lines whose output lines follow each other.
    const int64_t all = s_.batch * s_.in[0] * s_.in[1], slice = s_.kernel[0] == 1 ? all : s_.in[1];
    const int64_t threads = ctx.threads().threads();
    // Threads share the pixels of a line where lines are fewer.
    const int64_t part = all >= threads ? s_.in[2] : round_up(ceil_div(s_.in[2], ceil_div(threads, all)), gemm_.mr);
    const int64_t parts = ceil_div(s_.in[2], part);
    ctx.threads().parallel_for(all * parts, std::min(grain, ceil_div(all, threads)), [&](int64_t first, int64_t last) {
      for (int64_t n = 0; first < last; first += n) {
        const int64_t line = first / parts;
        const Pixels of{first % parts * part, std::min(part, s_.in[2] - first % parts * part)};
        n = parts > 1 ? 1 : std::min({grain, last - first, slice - line % slice});
        for (int64_t kz = 0; kz < s_.kernel[0]; ++kz)
          lines(x, y, of, line, n, line + (line / slice * (s_.kernel[0] - 1) + kz) * slice, kz);
      }
    });
    return Ok();
  }

 private:
  struct TilesKey {
    FilterKey filter;
    const GemmF32* gemm;
    int64_t width;
    auto operator<=>(const TilesKey&) const = default;
  };
  /// Of input lines.
  struct Pixels {
    int64_t first, count;
  };
  int64_t columns() const { return s_.kernel[2] * s_.c_out; }
  int64_t filter_lines() const { return s_.kernel[0] * s_.kernel[1]; }
  int64_t line_size() const { return gemm_.packed_size(words_, columns()); }
  /// Those pixels of so many input lines of all images from `first` on times slice kz of the filter. at: `first` if
  /// depth were as that of the output.
  void lines(const float* x, float* y, Pixels of, int64_t first, int64_t count, int64_t at, int64_t kz) const {
    const int64_t in_line = s_.in[2] * words_, out_line = s_.out[2] * s_.c_out;
    const ptrdiff_t start = 0;
    const Bounds bounds = activation_bounds(act_);
    float* to = y + at * s_.kernel[1] * out_line + of.first * columns();
    const float* filter = packed_->data<float>() + kz * s_.kernel[1] * line_size();
    for (int64_t ky = 0; ky < s_.kernel[1]; ++ky, filter += line_size())
      gemm_.product({x + first * in_line + of.first * words_, to + ky * out_line, words_, columns(), of.count, count,
                     in_line, s_.kernel[1] * out_line},
                    {&start, 1, words_}, words_, columns(), filter, 0, gemm_.panels(columns()), nullptr, bounds.lo,
                    bounds.hi);
    apply_activation(act_, to, count * s_.kernel[1], of.count * columns(), out_line);
  }

  Spread s_;
  const GemmF32& gemm_;
  Activation act_;
  int64_t words_;  ///< of a pixel
  Packed packed_;
};

}  // namespace

void pack_by_taps(const Spread& s, const GemmF32& gemm, const float* filter, int64_t g, float* packed) {
  const int64_t n = s.columns();
  if (s.filter_i != 1) {
    std::vector<float> rows(static_cast<size_t>(s.c_in * n));
    float* to = rows.data();
    for (int64_t i = 0; i < s.c_in; ++i)
      for (int64_t t = 0; t < s.taps(); ++t)
        for (int64_t o = 0; o < s.c_out; ++o) *to++ = filter[s.at(g, o, i, t)];
    return gemm.pack(rows.data(), n, 1, s.c_in, n, nullptr, packed);
  }
  // A panel at a time: no copy of all stands beside the packed form.
  std::vector<float> columns(static_cast<size_t>(std::min(n, gemm.nr()) * s.c_in));
  for (int64_t p = 0; p < gemm.panels(n); ++p) {
    const int64_t first = p * gemm.nr(), count = std::min(gemm.nr(), n - first);
    for (int64_t j = 0; j < count; ++j)
      std::copy_n(filter + s.at(g, (first + j) % s.c_out, 0, (first + j) / s.c_out), s.c_in,
                  columns.data() + j * s.c_in);
    gemm.pack(columns.data(), 1, s.c_in, s.c_in, count, nullptr, packed + gemm.panel_offset(s.c_in, p));
  }
}

std::unique_ptr<Kernel> make_conv_transpose_tiles_by(const GemmF32& gemm, const KernelSpec& spec) {
  const auto s = Spread::make(spec);
  if (!s || !ConvTransposeTilesF32::applies(*s, spec)) return nullptr;
  return std::make_unique<ConvTransposeTilesF32>(*s, gemm, spec);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_transpose_f32(const KernelSpec& spec) {
  if (auto tiles = make_conv_transpose_tiles_by(gemm_f32(spec.isa), spec)) return tiles;
  const auto s = Spread::make(spec);
  if (!s) return nullptr;
  if (auto lines = make_conv_transpose_lines(*s, spec)) return lines;
  return std::make_unique<ConvTransposeF32>(*s, spec);
}

}  // namespace smelt
