// Transposed convolutions of 16-bit values with 8-bit filters, channels-last (TFLite's 16x8). The products of a pixel
// with one tap have 32 bits, their sums 64.
#include <algorithm>
#include <vector>

#include "backends/cpu/conv/conv_transpose.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/rescale_i16.h"
#include "backends/cpu/gemm/gemm_i8.h"

namespace smelt {
namespace {

struct ConvTransposeI16Key {
  FilterKey filter;
  const GemmI8* gemm;
  auto operator<=>(const ConvTransposeI16Key&) const = default;
};

/// Every pixel times the filters of all taps, spread over an image of sums, which is rescaled at last.
class ConvTransposeI16 final : public Kernel {
 public:
  ConvTransposeI16(const Spread& s, const std::vector<int16_t>& weights, RescaleI16 rescale, const KernelSpec& spec)
      : s_(s),
        rescale_(std::move(rescale)),
        gemm_(gemm_i8(spec.isa, false)),
        lda_(gemm_.a_row_bytes(s.c_in)),
        group_bytes_(padded_bytes(gemm_.packed_bytes(s.c_in, s.columns()))),
        rows_bytes_(padded_bytes(kSpreadRows * lda_)),
        products_bytes_(padded_bytes(kSpreadRows * s.columns() * 8)) {
    packed_ = spec.packs.get(ConvTransposeI16Key{{s, *spec.constant(1), nullptr}, &gemm_}, [&] {
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(group_bytes_ * s.groups));
      for (int64_t g = 0; g < s.groups; ++g)
        gemm_.pack(weights.data() + g * s.columns() * s.c_in, s.c_in, s.columns(), nullptr, 0,
                   packed->data<char>() + g * group_bytes_);
      return packed;
    });
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(rows_bytes_ + products_bytes_ + s_.out_pixels() * s_.all_out() * 8);
  }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a transposed convolution");
    auto* products = reinterpret_cast<int64_t*>(scratch + rows_bytes_);
    auto* sums = reinterpret_cast<int64_t*>(scratch + rows_bytes_ + products_bytes_);
    const int64_t pixels = s_.out_pixels(), n = s_.all_out();
    for (int64_t image = 0; image < s_.batch; ++image) {
      const auto* x = ctx.input(0).data<int16_t>() + image * s_.in_pixels() * s_.all_in();
      auto* y = ctx.output(0).data<int16_t>() + image * pixels * n;
      std::fill_n(sums, pixels * n, int64_t{0});
      for (int64_t g = 0; g < s_.groups; ++g)
        for (int64_t first = 0; first < s_.in_pixels(); first += kSpreadRows) {
          const int64_t rows = std::min(kSpreadRows, s_.in_pixels() - first);
          multiply(x + first * s_.all_in() + g * s_.c_in, rows, g, scratch, products);
          s_.add(products, first, rows, sums + g * s_.c_out);
        }
      ctx.threads().parallel_for(pixels, std::max<int64_t>(1, (1 << 14) / n), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) rescale_(sums + p * n, n, 0, y + p * n);
      });
    }
    return Ok();
  }

 private:
  /// products[rows][columns] of rows of pixels with group g's filters. a: room for the rows side by side.
  void multiply(const int16_t* x, int64_t rows, int64_t g, uint8_t* a, int64_t* products) const {
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(x + r * s_.all_in(), s_.c_in, reinterpret_cast<int16_t*>(a + r * lda_));
    gemm_.run(rows, s_.columns(), s_.c_in, a, lda_, true, packed_->data<char>() + g * group_bytes_, 0,
              gemm_.panels(s_.columns()),
              [&](const int32_t* acc, int64_t row, int64_t n_rows, int64_t column, int64_t n) {
                for (int64_t r = 0; r < n_rows; ++r)
                  std::copy_n(acc + r * gemm_.nr(), n, products + (row + r) * s_.columns() + column);
              });
  }

  Spread s_;
  RescaleI16 rescale_;
  const GemmI8& gemm_;
  int64_t lda_, group_bytes_, rows_bytes_, products_bytes_;
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_transpose_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  const auto s = Spread::make(spec);
  if (!s) return spec.refuse("a geometry that no kernel takes");
  const auto q = pair_of_i16(spec, filter_output_axis(attrs, spec.inputs[1].shape.rank()), s->all_out());
  if (!q) return spec.refuse("other quantization parameters than 16-bit values by 8-bit filters have");
  auto rescale = RescaleI16::make(spec, s->all_out(), attrs.rescale_rule());
  if (!rescale) return spec.refuse("a rescaling in real numbers");
  const auto weights = filter_by_taps(*s, *q, *spec.constant(1));
  for (size_t i = 0; i < weights.size(); i += static_cast<size_t>(s->c_in))
    if (!fits_32_bits(std::span(weights).subspan(i, static_cast<size_t>(s->c_in))))
      return spec.refuse("sums over input channels beyond 32 bits");
  return std::make_unique<ConvTransposeI16>(*s, weights, std::move(*rescale), spec);
}

}  // namespace smelt
