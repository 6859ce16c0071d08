#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "backends/cpu/conv/conv_line_buffer.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/im2col.h"
#include "backends/cpu/conv/row_stage.h"
#include "backends/cpu/copy/transpose_bytes.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/quantized_pair.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

struct ConvI8Key {
  FilterKey filter;
  const GemmI8* gemm;
  int64_t form;
  int32_t x_zero;
  bool x_signed;
  auto operator<=>(const ConvI8Key&) const = default;
};

/// Integer convolution: rows of patches times packed filters. The patches are copied together, or read where they lie:
/// in the image (pointwise), or chunk by chunk in its padded rows. Channels-first images are turned around before and
/// after.
class ConvI8 final : public Kernel, public TakesWeights, public RowStage {
 public:
  ConvI8(const ConvShape& g, const QuantizedPair& q, RequantizeParams requantize_params, const KernelSpec& spec)
      : g_(g),
        q_(q),
        requantize_params_(std::move(requantize_params)),
        rescale_(requantize_accumulators(spec.isa, requantize_params_)),
        gemm_(gemm_i8(spec.isa, filter_fits_int8(g, *spec.constant(1), q.w_zeros))),
        chunks_(g, gemm_, spec.isa),
        flipped_(chunks_.flips(q.x_signed)),
        threads_(std::max(spec.threads, 1)) {
    takes_weights_ = this;
    take_weights(spec);
    lda_ = gemm_.a_row_bytes(g.k());
    block_ = gemm_.block_rows(g.out_pixels(), g.k());
    if (threads_ > 1) {
      const int64_t share = (g.out_pixels() + threads_ - 1) / threads_;
      block_ = std::min(block_, (share + gemm_.mr - 1) / gemm_.mr * gemm_.mr);
    }
    direct_ = g.pointwise() && gemm_.bytes && !flipped_;
    by_columns_ = gemm_.bytes && g.channels_last && has_short_lines(g);
    patches_ = padded_bytes(direct_ ? lda_ : block_ * lda_ + kPatchSlack);
    workspace_ = workspace_stride(
        patches_ + (g.pointwise() || gemm_.bytes ? 0 : padded_bytes(block_ * lda_ / 2 + kPatchSlack)), threads_);
    windows_ = chunks_.apply() ? chunks_.scratch_bytes(threads_) : threads_ * workspace_;
    if (!g.channels_last) {
      turned_in_ = padded_bytes(g.in_pixels() * g.all_in());
      turned_out_ = padded_bytes(g.out_pixels() * g.all_out());
    }
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(windows_ + turned_in_ + turned_out_); }
  [[gnu::cold]] void take_weights(const KernelSpec& spec) override {
    const Tensor& filter = *spec.constant(1);
    const ConvI8Key key{{g_, filter, spec.constant(2)}, &gemm_, chunks_.form(), q_.x_zero, q_.x_signed};
    packed_ = spec.packs.get(
        key,
        [&] {
          Packed packed = pack_ordered_filter(g_, filter, q_.w_zeros, gemm_.packs_int8(),
                                              [&](const auto* weights) { return pack(weights); });
          if (chunks_.packs_from_file() && is_ordered_filter(g_, filter, q_.w_zeros))
            release_read_pages(filter);
          else
            release_pages(filter);
          return packed;
        },
        [&] {
          return spec.contents("conv_i8", key.filter.numbers(),
                               {key.form, key.x_zero, key.x_signed, gemm_.bytes, gemm_.group_bytes, gemm_.addend_rows});
        });
  }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    uint8_t* scratch = nullptr;
    if (const size_t bytes = scratch_bytes()) {
      scratch = static_cast<uint8_t*>(ctx.scratch(bytes));
      if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    }
    uint8_t* const turned_in = scratch + windows_;
    uint8_t* const turned_out = turned_in + turned_in_;
    for (int64_t image = 0; image < g_.batch; ++image) {
      const uint8_t* from = x + image * g_.in_pixels() * g_.all_in();
      uint8_t* to = y + image * g_.out_pixels() * g_.all_out();
      if (turned_in_) {
        transpose_bytes(ctx.threads(), from, g_.all_in(), g_.in_pixels(), turned_in);
        image_rows(ctx.threads(), turned_in, turned_out, scratch);
        transpose_bytes(ctx.threads(), turned_out, g_.out_pixels(), g_.all_out(), to);
      } else {
        image_rows(ctx.threads(), from, to, scratch);
      }
    }
    return Ok();
  }

  RowStage* row_stage() override {
    const bool by_pixels = direct_ && g_.groups == 1 && g_.c_in % 4 == 0;  // tiles read whole groups of 4 bytes
    return g_.channels_last && g_.planar() && (by_pixels || chunks_.has_lines()) ? this : nullptr;
  }
  Reads reads() const override { return direct_ ? Reads::kBand : Reads::kImage; }
  const ConvShape& shape() const override { return g_; }
  int64_t element_bytes() const override { return 1; }
  int64_t row_scratch() const override { return direct_ ? 0 : chunks_.line_bytes(); }
  void begin_rows(std::byte* scratch) const override {
    if (!direct_) chunks_.begin_lines(reinterpret_cast<uint8_t*>(scratch), zero());
  }
  void rows(const ImageRows& x, int64_t first, int64_t last, const EpilogueRun*, std::byte* scratch,
            std::byte* out) const override {
    const auto* image = reinterpret_cast<const uint8_t*>(x.data);
    auto* const y = reinterpret_cast<uint8_t*>(out);
    if (!direct_) {
      const auto load = chunks_.loads_of(image, flipped_);
      return chunks_.lines(std::ref(load), q_.x_signed && !flipped_, first, last, packed_->data<char>(),
                           reinterpret_cast<uint8_t*>(scratch), Rescaled{*this, y, first * g_.out[2]});
    }
    image += (first - x.first) * g_.in[2] * g_.c_in;
    const int64_t pixels = (last - first) * g_.out[2];
    for (int64_t p = 0; p < pixels; p += block_)
      multiply(image + p * g_.c_in, g_.c_in, p, std::min(block_, pixels - p), 0, y);
  }

 private:
  /// Takes the accumulators of chunks_ to the output, of which y is pixel `first`.
  struct Rescaled {
    const ConvI8& conv;
    uint8_t* y;
    int64_t first = 0;
    void operator()(const int32_t* acc, int64_t pixel, int64_t pixels, int64_t channel, int64_t n) const {
      const int64_t c = conv.g_.all_out();
      conv.rescale_(conv.requantize_params_, acc, conv.gemm_.nr(), pixels, n, channel,
                    y + (pixel - first) * c + channel, c);
    }
  };
  /// What stands in the padding of lines.
  uint8_t zero() const { return GemmI8::zero_byte(q_.x_zero, flipped_); }
  template <class W>
  Packed pack(const W* weights) const {
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(chunks_.packed_bytes()));
    chunks_.pack(weights, requantize_params_.bias.data(), GemmI8::int8_zero_point(q_.x_signed, q_.x_zero),
                 packed->data<char>());
    return packed;
  }
  void image_rows(ThreadPool& pool, const uint8_t* x, uint8_t* y, uint8_t* scratch) const {
    if (chunks_.apply()) {
      const auto load = chunks_.loads_of(x, flipped_);
      chunks_.image(pool, threads_, std::ref(load), q_.x_signed && !flipped_, zero(), packed_->data<char>(), scratch,
                    Rescaled{*this, y});
      return;
    }
    // Threads get as many pixels each, in blocks.
    const int64_t n = g_.out_pixels(), threads = std::min(threads_, ceil_div(n, gemm_.mr));
    ranges_in_slots(pool, threads, n, [&](int64_t begin, int64_t end, int64_t slot) {
      for (int64_t first = begin; first < end; first += block_)
        block(x, y, first, std::min(first + block_, end), scratch + slot * workspace_);
    });
  }
  /// Output pixels [first, last).
  void block(const uint8_t* x, uint8_t* y, int64_t first, int64_t last, uint8_t* scratch) const {
    const int64_t rows = last - first;
    if (by_columns_ && rows == g_.out_pixels()) {
      const int64_t step = column_stride(g_);
      for (int64_t ox = 0; ox < g_.out[2]; ++ox) {
        im2col_column<uint8_t>(g_, x, ox, static_cast<uint8_t>(q_.x_zero), scratch);
        if (flipped_) gemm_.flip(scratch, (g_.out[1] - 1) * step + g_.k(), scratch);
        multiply(scratch, step, ox, g_.out[1], 0, y, g_.out[2]);
      }
      return;
    }
    for (int64_t group = 0; group < g_.groups; ++group) {
      const uint8_t* from = x + group * g_.c_in;
      if (direct_) {
        // Rows of pixels as they lie in the image. The tiles read whole groups of 4 bytes: the last pixel is copied.
        const bool copies = last == g_.out_pixels() && g_.c_in % 4 != 0;
        multiply(from + first * g_.all_in(), g_.all_in(), first, rows - copies, group, y);
        if (!copies) continue;
        std::memcpy(scratch, from + (last - 1) * g_.all_in(), static_cast<size_t>(g_.c_in));
        multiply(scratch, lda_, last - 1, 1, group, y);
        continue;
      }
      if (g_.pointwise()) {
        gemm_.convert(from + first * g_.all_in(), g_.all_in(), rows, g_.c_in, q_.x_signed, q_.x_zero, scratch, lda_,
                      flipped_);
      } else {
        uint8_t* raw = gemm_.bytes ? scratch : scratch + patches_;
        const int64_t stride = gemm_.bytes ? lda_ : lda_ / 2;
        im2col_rows<uint8_t>(g_, from, first, last, static_cast<uint8_t>(q_.x_zero), raw, stride);
        if (!gemm_.bytes) gemm_.convert(raw, stride, rows, stride, q_.x_signed, q_.x_zero, scratch, lda_);
        if (flipped_) gemm_.flip(scratch, rows * lda_, scratch);
      }
      multiply(scratch, lda_, first, rows, group, y);
    }
  }
  /// So many output pixels of a group from rows of patches, from `first` on, `step` apart.
  void multiply(const uint8_t* a, int64_t lda, int64_t first, int64_t rows, int64_t group, uint8_t* y,
                int64_t step = 1) const {
    const void* packed = packed_->data<char>() + group * gemm_.packed_bytes(g_.k(), g_.c_out);
    uint8_t* to = y + first * g_.all_out() + group * g_.c_out;
    const int64_t pixel = step * g_.all_out();
    gemm_.run_inlined(rows, g_.c_out, g_.k(), a, lda, q_.x_signed && !flipped_, packed, 0, gemm_.panels(g_.c_out),
                      [&](const int32_t* acc, int64_t row, int64_t n_rows, int64_t column, int64_t n) {
                        rescale_(requantize_params_, acc, gemm_.nr(), n_rows, n, group * g_.c_out + column,
                                 to + row * pixel + column, pixel);
                      });
  }

  ConvShape g_;
  QuantizedPair q_;
  RequantizeParams requantize_params_;
  RequantizeAccumulators rescale_;
  const GemmI8& gemm_;
  ConvLineBuffer chunks_;
  bool flipped_;  ///< rows of patches have their sign bits flipped
  int64_t threads_, lda_ = 0, block_ = 1, patches_ = 0, workspace_ = 0, windows_ = 0, turned_in_ = 0, turned_out_ = 0;
  bool direct_ = false;
  bool by_columns_ = false;  ///< whole images
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  const int axis = filter_output_axis(attrs, spec.inputs[1].shape.rank());
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1], axis, g->all_out());
  if (!q) return nullptr;
  auto requantize_params = smelt::requantize_params(spec, g->all_out(), attrs.rescale_rule());
  if (!requantize_params) return nullptr;
  return std::make_unique<ConvI8>(*g, *q, std::move(*requantize_params), spec);
}

}  // namespace smelt
