#include "backends/cpu/conv/conv_nhwc_f32.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/conv/conv_segments.h"
#include "backends/cpu/conv/im2col.h"
#include "backends/cpu/conv/packed_filter.h"
#include "backends/cpu/conv/row_stage.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/row_spacing.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/strassen_f32.h"

namespace smelt {
namespace {

/// Where the rows of a product with filters begin in an image that stays as it is, or in slices of it with padding
/// around: a line of output pixels is one matrix whose rows overlap.
struct LineShape {
  bool use = false;
  bool copied = false;     ///< slices are copied: there is padding, or the image's elements are no words of the gemm
  int64_t lines = 1;       ///< of output pixels, that share one slice
  int64_t slice_rows = 0;  ///< lines of input pixels under them
  int64_t width = 0;       ///< pixels of a slice's lines
  int64_t line = 0;        ///< floats from one line of a slice, or of the image, to the next
  int64_t stretch = 1;     ///< output pixels of a line that are worked on at once; less than a line: `lines` is 1
  std::vector<ptrdiff_t> at;
  int64_t length = 0;

  GemmRuns runs() const { return {at.data(), static_cast<ptrdiff_t>(at.size()), length}; }
  int64_t slice_floats(const ConvShape& g) const { return copied ? g.kernel[0] * slice_rows * line : 0; }

  static LineShape make(const ConvShape& g, const GemmF32& gemm) {
    LineShape s;
    s.copied = gemm.to_words != nullptr;
    s.use = !g.pointwise() && g.out[2] >= kNarrowest;
    if (!s.use) return s;
    const auto reach = [&](int d) { return (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1; };
    for (int d = 0; d < 3; ++d) s.copied = s.copied || g.pad[d] != 0 || reach(d) > g.in[d];
    s.width = s.copied ? reach(2) : g.in[2];
    const auto rows = [&](int64_t n) { return (n - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1; };
    constexpr double kMaxFloats = 1 << 22;  // wide filters over little: their patches are smaller
    s.use = static_cast<double>(g.kernel[0]) * static_cast<double>(rows(1)) * static_cast<double>(s.width) *
                static_cast<double>(g.all_in()) <=
            kMaxFloats;
    if (!s.use) return s;
    s.line = s.width * g.all_in();
    constexpr int64_t kFloats = 96 * 1024;  // slices stay in the level-2 cache
    while (s.lines < g.out[1] && g.kernel[0] * rows(s.lines + 1) * s.line <= kFloats) ++s.lines;
    s.slice_rows = rows(s.lines);
    const int64_t floats = g.kernel[0] * rows(1) * s.line;
    const int64_t stretches = floats > 2 * kFloats ? ceil_div(floats, kFloats) : 1;
    s.stretch = stretches > 1 ? round_up(ceil_div(g.out[2], stretches), gemm.mr) : g.out[2];
    const bool joined = g.dilation[2] == 1 && g.groups == 1;  // the taps of a line lie side by side
    s.length = joined ? g.kernel[2] * g.c_in : g.c_in;
    const int64_t plane = s.copied ? s.slice_rows : g.in[1] * g.dilation[0];
    for (int64_t z = 0; z < g.kernel[0]; ++z)
      for (int64_t y = 0; y < g.kernel[1]; ++y)
        for (int64_t x = 0; x < (joined ? 1 : g.kernel[2]); ++x)
          s.at.push_back((z * plane + y * g.dilation[1]) * s.line + x * g.dilation[2] * g.all_in());
    return s;
  }
  /// Fills the slice under so many pixels, from `begin` on, of the output lines [first, last) of depth oz.
  /// copy(pixel, n, to): n neighbours of the image.
  template <class F>
  void fill(const ConvShape& g, const F& copy, int64_t oz, int64_t first, int64_t last, int64_t begin, int64_t pixels,
            float* slice) const {
    const int64_t pixel = g.all_in(), pad = g.pad[2] - begin * g.stride[2];
    const int64_t wide = (pixels - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1;
    const int64_t left = std::clamp<int64_t>(pad, 0, wide), skipped = std::max<int64_t>(-pad, 0);
    const int64_t inside = std::clamp<int64_t>(g.in[2] - skipped, 0, wide - left);
    const int64_t rows = (last - first - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1;
    for (int64_t kz = 0; kz < g.kernel[0]; ++kz) {
      const int64_t z = oz * g.stride[0] - g.pad[0] + kz * g.dilation[0];
      float* to = slice + kz * slice_rows * line;
      for (int64_t r = 0; r < rows; ++r, to += line) {
        const int64_t y = first * g.stride[1] - g.pad[1] + r;
        if (z < 0 || z >= g.in[0] || y < 0 || y >= g.in[1]) {
          std::fill_n(to, wide * pixel, 0.0f);
          continue;
        }
        std::fill_n(to, left * pixel, 0.0f);
        copy((z * g.in[1] + y) * g.in[2] + skipped, inside, to + left * pixel);
        std::fill_n(to + (left + inside) * pixel, (wide - left - inside) * pixel, 0.0f);
      }
    }
  }
  static constexpr int64_t kNarrowest = 4;  ///< shorter lines make low tiles
};

/// The convolution of an image whose channels are words of the gemm.
ConvShape in_words(ConvShape g, const GemmF32& gemm) {
  g.c_in = gemm.words(g.c_in);
  return g;
}

/// The pointwise convolution that takes the patches for pixels; nullopt: a patch does not lie in one piece, as those of
/// one group on a line without padding do.
std::optional<ConvShape> rows_of(const ConvShape& g) {
  const bool line = g.planar() && g.in[1] == 1 && g.out[1] == 1 && g.kernel[1] == 1 && g.pad[1] == 0;
  const bool dense = g.kernel[2] == 1 || g.dilation[2] == 1;
  const bool padded = g.pad[2] != 0 || (g.out[2] - 1) * g.stride[2] + g.kernel[2] > g.in[2];
  if (g.groups != 1 || (!g.pointwise() && (!line || !dense || padded))) return std::nullopt;
  ConvShape rows = g;
  rows.c_in = g.k();
  std::copy_n(g.out, 3, rows.in);
  for (int64_t* const ones : {rows.kernel, rows.stride, rows.dilation}) std::fill_n(ones, 3, int64_t{1});
  return rows;
}

/// Channels-last: rows of patches times packed filters. Where words of the gemm are no floats, the images are copied
/// first.
class ConvNhwcF32 final : public Kernel, public RowStage {
 public:
  /// rows: the pointwise convolution whose pixels are the patches, as rows_of() finds it; null: the operands as they
  /// are.
  ConvNhwcF32(const ConvShape& shape, const GemmF32& gemm, const KernelSpec& spec, const ConvShape* rows = nullptr)
      : shape_(shape),
        g_(rows ? *rows : in_words(shape, gemm)),
        gemm_(gemm),
        act_(spec.attrs<ConvAttrs>().act),
        threads_(std::max(spec.threads, 1)) {
    const ConvShape& g = g_;
    packed_ = packed_filter_f32(shape, gemm, spec);
    // Blocks of whole tiles: patches that fit the level-2 cache.
    block_ = std::max<int64_t>(1, 48 * 1024 / std::max<int64_t>(1, g.k() * gemm.mr));
    if (g.pointwise()) block_ = std::max<int64_t>(block_, pointwise_block() / gemm.mr + 1);
    lines_ = LineShape::make(g, gemm);
    lda_ = g.k();
    const bool copies = collides();
    if (copies) {
      constexpr int64_t kFloats = 128 * 1024;  // that stay in the level-2 cache beside a panel and results
      copies_rows_ = g.pointwise();
      lines_.use = false;
      lda_ = apart<float>(g.k());
      block_ = std::max<int64_t>(1, kFloats / (lda_ * gemm.mr));
    }
    if (!copies || g.in[1] > 1) segments_ = segments_of(g, gemm.mr);
    part_ = g.out[2];
    if (lines_.use || !segments_.empty()) {
      // Threads share the pixels of a line where lines are fewer.
      part_ = round_up(ceil_div(g.out[2], ceil_div(threads_, g.batch * g.out[0] * g.out[1])), gemm.mr);
      parts_ = ceil_div(g.out[2], part_);
    }
    if (!segments_.empty()) {
      if (parts_ > 1) segments_ = cut_lines(segments_, g, parts_, part_);
      lines_ = {.use = true, .lines = g.out[1] * parts_};
    } else if (parts_ > 1) {
      lines_.lines = 1;
    }
    by_columns_ = !lines_.use && has_short_lines(g);
    tile_ = gemm.mr;
    if (const int64_t tiles = ceil_div(g.out_pixels(), tile_); threads_ > 1 && tiles < 8 * threads_)
      tile_ = ceil_div(g.out_pixels(), round_up(tiles, threads_));  // as many for each thread, of one size
    plane_ = lines_.use ? g.out[1] * parts_ : ceil_div(g.out_pixels(), tile_);
    units_ = g.batch * plane_ * (lines_.use ? g.out[0] : 1);
    by_panels_ = shares_panels();
    image_in_words_ = gemm.to_words && (by_panels_ || !segments_.empty() || (!lines_.use && !g.pointwise()));
    const int64_t pixel = image_in_words_ ? g.all_in() : shape.all_in();
    image_step_ = shape.in_pixels() * pixel;
    pixel_ = rows ? shape.stride[2] * pixel : pixel;
  }
  /// Multiplies by Strassen's algorithm from now on. False: it does not apply, or does not pay.
  bool take_strassen(StrassenSetting setting, Isa isa) {
    const int64_t pairs = ceil_div(gemm_.panels(g_.c_out), 2), columns = 2 * ceil_div(pairs, threads_) * gemm_.nr();
    const int64_t rows = ceil_div(units_, threads_) * tile_;
    const StrassenF32::Task task{by_panels_ ? g_.out_pixels() : std::min(rows, g_.out_pixels()),
                                 by_panels_ ? std::min(columns, g_.c_out) : g_.c_out};
    strassen_ = StrassenF32::make(setting, gemm_, isa, task, g_.c_out, g_.k());
    if (!strassen_) return false;
    copies_rows_ = false;  // its operands lie in memory of their own
    lda_ = g_.k();
    block_ = pointwise_block() / gemm_.mr + 1;
    return true;
  }
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(image_floats() + threads_ * slot_floats()) * sizeof(float);
  }
  Status run(KernelContext& ctx) const override {
    const EpilogueRun epilogue(epilogue_, ctx);
    Run run{ctx.input(0).data<float>(), ctx.output(0).data<float>(), epilogue ? &epilogue : nullptr};
    float* scratch = nullptr;
    if (const size_t bytes = scratch_bytes()) {
      scratch = static_cast<float*>(ctx.scratch(bytes));
      if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    }
    if (image_in_words_) {
      ctx.threads().parallel_for(
          g_.batch * g_.in_pixels(), std::max<int64_t>(1, 4096 / g_.all_in()),
          [&](int64_t begin, int64_t end) { to_words(run.x, begin, end - begin, scratch + begin * g_.all_in()); });
      run.x = scratch;
      scratch += image_floats();
    }
    // Threads share panels, or pairs of them.
    const int64_t panels = gemm_.panels(g_.c_out), together = strassen_ ? 2 : 1;
    const int64_t shared = by_panels_ ? ceil_div(panels, together) : units_;
    ranges_in_slots(ctx.threads(), threads_, shared, [&](int64_t first, int64_t last, int64_t slot) {
      float* workspace = slot_floats() > 0 ? scratch + slot * slot_floats() : nullptr;
      if (by_panels_)
        units(run, 0, units_, {first * together, std::min(last * together, panels)}, workspace);
      else
        units(run, first, last, {0, panels}, workspace);
    });
    return Ok();
  }

  RowStage* row_stage() override {
    const bool by_lines = lines_.use && segments_.empty() && parts_ == 1 && g_.planar();
    const bool by_pixels = g_.pointwise() && !copies_rows_;
    if (image_in_words_ || g_.groups != 1 || strassen_) return nullptr;
    return g_.out[2] >= kRowPixels && (by_lines || by_pixels) ? this : nullptr;
  }
  Reads reads() const override { return lines_.use ? Reads::kImage : Reads::kBand; }
  const ConvShape& shape() const override { return shape_; }
  const EpilogueF32& row_epilogue() const override { return epilogue_; }
  bool can_take_words() const override {
    return g_.pointwise() && makes_words() && shape_.c_in % gemm_.word == 0 && g_.stride[1] == 1 && g_.stride[2] == 1;
  }
  void take_words() override {
    takes_words_ = true;
    pixel_ = g_.all_in();
  }
  int64_t row_scratch() const override { return slot_floats() * static_cast<int64_t>(sizeof(float)); }
  void rows(const ImageRows& x, int64_t first, int64_t last, const EpilogueRun* epilogue, std::byte* memory,
            std::byte* out) const override {
    const int64_t panels = gemm_.panels(g_.c_out), row = g_.out[2] * g_.c_out;
    auto* const scratch = reinterpret_cast<float*>(memory);
    auto* y = reinterpret_cast<float*>(out);
    if (lines_.use) {
      for (int64_t n = 0; first < last; first += n, y += n * row) {
        n = std::min(last - first, lines_.lines);
        lines({x.floats(), y, epilogue}, 0, first, n, {0, panels}, scratch);
      }
      return;
    }
    const Bounds bounds = activation_bounds(act_);
    const float* from = x.floats() + (first - x.first) * g_.in[2] * pixel_;
    const int64_t pixels = (last - first) * g_.out[2], most = gemm_.to_words ? block_ * tile_ : pixels;
    for (int64_t p = 0, n = 0; p < pixels; p += n) {
      n = std::min(most, pixels - p);
      float* const to = y + p * g_.c_out;
      gemm_.run(n, g_.c_out, g_.c_in, multiplied(from, p, n, scratch), g_.c_in, packed_->data<float>(), 0, panels, to,
                g_.c_out, nullptr, bounds.lo, bounds.hi, epilogue);
      activate(to, n, {0, panels});
    }
  }

 private:
  /// Pixels of a row from which on the tiles of any rows add up as those of the whole image do.
  static constexpr int64_t kRowPixels = 16;
  /// The operands of a run.
  struct Run {
    const float* x;
    float* y;
    const EpilogueRun* epilogue;
  };
  /// Of a group's filters: [first, last).
  struct Panels {
    int64_t first, last;
  };
  /// Scratch of the images in words.
  int64_t image_floats() const { return image_in_words_ ? round_up(g_.batch * g_.in_pixels() * g_.all_in(), 16) : 0; }
  /// So many pixels of an image, from `first` on, as a pointwise convolution multiplies them: where they lie, or as
  /// words in `scratch`.
  const float* multiplied(const float* image, int64_t first, int64_t pixels, float* scratch) const {
    if (!makes_words()) return image + first * pixel_;
    to_words(image, first, pixels, scratch);
    return scratch;
  }
  /// True if parts of an image are made words before they are multiplied.
  bool makes_words() const { return gemm_.to_words && !image_in_words_ && !takes_words_; }
  /// So many pixels of the images x, from `first` on, as words.
  void to_words(const float* x, int64_t first, int64_t pixels, float* words) const {
    const int64_t pixel = shape_.all_in();
    x += first * pixel;
    // Channels that fill their words lie side by side.
    if (shape_.c_in % gemm_.word == 0) return gemm_.to_words(x, pixels * pixel, words);
    gemm_.rows_to_words(x, pixels * g_.groups, shape_.c_in, words);
  }
  /// True if the rows of a tile collide where they lie in the image, and copying them pays.
  bool collides() const {
    constexpr int64_t kShallow = 256;
    return !gemm_.to_words && g_.k() >= kShallow && (g_.pointwise() || lines_.use) &&
           pays_to_space(g_.stride[2] * g_.all_in() * 4, g_.out_pixels(), gemm_.panels(g_.c_out));
  }
  /// Pixels of a pointwise convolution that are worked on at once.
  int64_t pointwise_block() const {
    return gemm_.to_words ? gemm_.words_block(g_.all_in(), g_.all_out()) : g_.out_pixels();
  }
  /// Scratch of a thread.
  int64_t slot_floats() const {
    if (!segments_.empty()) return 0;
    if (strassen_) return round_up(strassen_->scratch_floats(), 16);
    if (g_.pointwise() && !copies_rows_) return makes_words() ? round_up(block_ * tile_ * g_.all_in(), 16) : 0;
    const int64_t floats = lines_.use ? lines_.slice_floats(g_) : block_ * gemm_.mr * lda_ + kPatchSlack;
    return round_up(floats, 16);
  }
  /// Threads share the filters and all see the whole image: there are more filters than image, and more than stay in a
  /// thread's level-2 cache, or too few pixels to share. Where they share pixels, what the next node reads is near.
  bool shares_panels() const {
    const int64_t panels = gemm_.panels(g_.c_out);
    if (threads_ <= 1 || g_.groups > 1 || panels < threads_) return false;
    const auto largest = [&](int64_t n) {
      return static_cast<double>((n + threads_ - 1) / threads_) / static_cast<double>(n);
    };
    constexpr int64_t kNear = 64 * 1024;  // floats
    const bool larger = g_.c_out * g_.k() > std::max(kNear, g_.batch * g_.in_pixels() * g_.c_in);
    return largest(panels) < largest(units_) * (larger ? 1.1 : 0.8);
  }
  /// Lines, parts of lines, or tiles of pixels, [first, last) of those of all images, in chunks that stay in the
  /// level-2 cache.
  void units(const Run& run, int64_t first, int64_t last, Panels panels, float* workspace) const {
    for (int64_t n = 0; first < last; first += n) {
      const int64_t at = first % plane_, left = std::min(last - first, plane_ - at);
      const int64_t most = lines_.use ? lines_.lines : block_, chunks = (left + most - 1) / most;
      n = (left + chunks - 1) / chunks;
      const int64_t plane = first / plane_;
      if (lines_.use) {
        const int64_t image = plane / g_.out[0], oz = plane % g_.out[0];
        const float* const x = run.x + image * image_step_;
        float* const y = run.y + image * g_.out_pixels() * g_.all_out();
        if (!segments_.empty())
          segments({x, y, run.epilogue}, at, n, panels);
        else
          lines({x, y + (oz * g_.out[1] * g_.out[2] + first_pixel(at)) * g_.all_out(), run.epilogue}, oz, at, n, panels,
                workspace);
      } else {
        block(run, plane, at, n, panels, workspace);
      }
    }
  }
  void activate(float* y, int64_t pixels, Panels panels) const {
    const int64_t column = panels.first * gemm_.nr(), end = std::min(g_.c_out, panels.last * gemm_.nr());
    apply_activation(act_, y + column, pixels, g_.groups > 1 ? g_.all_out() : end - column, g_.all_out());
  }
  /// The activation, or the epilogue, of so many output pixels from y on.
  void finish(const Run& run, float* y, int64_t pixels, Panels panels) const {
    if (!run.epilogue) return activate(y, pixels, panels);
    const int64_t column = panels.first * gemm_.nr(), end = std::min(g_.c_out, panels.last * gemm_.nr());
    (*run.epilogue)(y + column, pixels, g_.groups > 1 ? g_.all_out() : end - column, g_.all_out());
  }
  void block(const Run& run, int64_t image, int64_t tile, int64_t tiles, Panels panels, float* scratch) const {
    const int64_t first = tile * tile_, last = std::min(first + tiles * tile_, g_.out_pixels());
    const int64_t packed_group = gemm_.packed_size(g_.k(), g_.c_out);
    const Bounds bounds = activation_bounds(act_);
    const float* from = run.x + image * image_step_;
    float* to = run.y + (image * g_.out_pixels() + first) * g_.all_out();
    const float* const pixels = g_.pointwise() ? multiplied(from, first, last - first, scratch) : from;
    if (strassen_) {
      strassen_->run(last - first, pixels, pixel_, packed_->data<float>(), panels.first, panels.last, to, g_.all_out(),
                     bounds.lo, bounds.hi, run.epilogue, scratch);
      activate(to, last - first, panels);
      return;
    }
    if (by_columns_ && last - first == g_.out_pixels()) {
      const int64_t lda = column_stride(g_);
      for (int64_t ox = 0; ox < g_.out[2]; ++ox) {
        im2col_column<float>(g_, from, ox, 0.0f, scratch);
        gemm_.run(g_.out[1], g_.c_out, g_.k(), scratch, lda, packed_->data<float>(), panels.first, panels.last,
                  to + ox * g_.c_out, g_.out[2] * g_.c_out, nullptr, bounds.lo, bounds.hi, run.epilogue);
      }
      activate(to, last - first, panels);
      return;
    }
    for (int64_t group = 0; group < g_.groups; ++group) {
      const float* rows = pixels + group * g_.c_in;
      const bool patches = copies_rows_ || !g_.pointwise();
      for (int64_t r = 0; copies_rows_ && r < last - first; ++r)
        std::copy_n(rows + r * g_.all_in(), g_.c_in, scratch + r * lda_);
      if (!g_.pointwise()) im2col_rows<float>(g_, from + group * g_.c_in, first, last, 0.0f, scratch, lda_);
      if (patches) rows = scratch;
      gemm_.run(last - first, g_.c_out, g_.k(), rows, patches ? lda_ : g_.all_in(),
                packed_->data<float>() + group * packed_group, panels.first, panels.last, to + group * g_.c_out,
                g_.all_out(), nullptr, bounds.lo, bounds.hi, run.epilogue);
    }
    activate(to, last - first, panels);
  }

  /// So many output lines, or parts of one, from `first` on, of those of depth oz. run: of the image, y of the first
  /// pixel.
  void lines(const Run& run, int64_t oz, int64_t first, int64_t count, Panels panels, float* slice) const {
    const float* from = run.x;
    const int64_t line = first / parts_, begin = first % parts_ * part_, pixels = std::min(part_, g_.out[2] - begin);
    const int64_t pixel_step = g_.stride[2] * g_.all_in();
    if (lines_.copied) {
      const auto copy = [&](int64_t pixel, int64_t n, float* to) {
        if (makes_words()) return to_words(from, pixel, n, to);
        std::copy_n(from + pixel * pixel_, n * pixel_, to);
      };
      lines_.fill(g_, copy, oz, line, line + count, begin, pixels, slice);
      from = slice;
    } else {
      from += (oz * g_.stride[0] * g_.in[1] + line * g_.stride[1]) * lines_.line + begin * pixel_step;
    }
    float* to = run.y;
    const Bounds bounds = activation_bounds(act_);
    const int64_t packed_group = gemm_.packed_size(g_.k(), g_.c_out);
    for (int64_t group = 0; group < g_.groups; ++group)
      for (int64_t at = 0; at < pixels; at += lines_.stretch)
        gemm_.product({from + at * pixel_step + group * g_.c_in, to + at * g_.all_out() + group * g_.c_out, pixel_step,
                       g_.all_out(), std::min(lines_.stretch, pixels - at), count, g_.stride[1] * lines_.line,
                       g_.out[2] * g_.all_out()},
                      lines_.runs(), g_.k(), g_.c_out, packed_->data<float>() + group * packed_group, panels.first,
                      panels.last, nullptr, bounds.lo, bounds.hi);
    finish(run, to, count * pixels, panels);
  }

  /// So many parts of output lines of an image from `first` on; run: of the image.
  void segments(const Run& run, int64_t first, int64_t count, Panels panels) const {
    const Bounds bounds = activation_bounds(act_);
    const int64_t packed_group = gemm_.packed_size(g_.k(), g_.c_out);
    for (int64_t group = 0; group < g_.groups; ++group)
      for (int64_t p = panels.first; p < panels.last; ++p)
        for (const Segment& s : segments_) {
          if (s.line < first || s.line >= first + count) continue;
          float* to = run.y + (s.line / parts_ * g_.out[2] + s.first) * g_.all_out() + group * g_.c_out;
          gemm_.product({run.x + group * g_.c_in, to, g_.stride[2] * g_.all_in(), g_.all_out(), s.count}, s.runs(g_),
                        g_.k(), g_.c_out, packed_->data<float>() + group * packed_group, p, p + 1, nullptr, bounds.lo,
                        bounds.hi);
        }
    const int64_t begin = first_pixel(first);
    finish(run, run.y + begin * g_.all_out(), first_pixel(first + count) - begin, panels);
  }
  /// Of a part of an output line.
  int64_t first_pixel(int64_t part) const { return part / parts_ * g_.out[2] + part % parts_ * part_; }

  ConvShape shape_, g_;  ///< with channels of float32, and in words
  LineShape lines_;
  std::vector<Segment> segments_;  ///< empty: lines_, or patches
  const GemmF32& gemm_;
  Activation act_;
  EpilogueF32 epilogue_;
  int64_t threads_, block_ = 1;    ///< tiles that are worked on at once
  int64_t tile_ = 1;               ///< pixels of a tile
  int64_t lda_ = 1;                ///< floats from one row of patches to the next
  bool by_columns_ = false;        ///< whole images
  bool copies_rows_ = false;       ///< pixels of a pointwise convolution are copied before they are multiplied
  int64_t parts_ = 1, part_ = 1;   ///< of an output line by segments; the pixels of all but the last
  int64_t plane_ = 1, units_ = 1;  ///< lines, their parts or tiles of a plane, or of an image; of all
  bool by_panels_ = false;
  bool image_in_words_ = false;  ///< before they are multiplied; else a part at a time, where words are no floats
  bool takes_words_ = false;     ///< the image is words
  int64_t pixel_ = 1;            ///< elements from one pixel of what is multiplied, or made words, to the next
  int64_t image_step_ = 1;       ///< and from image to image
  Packed packed_;
  std::unique_ptr<StrassenF32> strassen_;  ///< null: products as they are defined
};

}  // namespace

std::unique_ptr<Kernel> make_conv_by(const GemmF32& gemm, const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  return std::make_unique<ConvNhwcF32>(*g, gemm, spec);
}

std::unique_ptr<Kernel> make_conv_nhwc_strassen_f32(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  const auto setting = strassen_setting();
  if (!g || !setting.ok() || spec.outputs[0].shape.elements() == 0) return nullptr;
  const auto rows = rows_of(*g);
  if (!rows) return spec.refuse("patches are no rows of a matrix product");
  const GemmF32& gemm = gemm_f32(spec.isa);
  // What threads share may pay less than the whole.
  if (StrassenF32::make(*setting, gemm, spec.isa, {g->out_pixels(), g->c_out}, g->c_out, g->k())) {
    auto kernel = std::make_unique<ConvNhwcF32>(*g, gemm, spec, &*rows);
    if (kernel->take_strassen(*setting, spec.isa)) return kernel;
  }
  return spec.refuse("seven products in place of eight take no less time");
}

std::unique_ptr<Kernel> make_conv_nhwc_f32(const KernelSpec& spec) { return make_conv_by(gemm_f32(spec.isa), spec); }

}  // namespace smelt
