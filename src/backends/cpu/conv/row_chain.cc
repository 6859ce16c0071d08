#include "backends/cpu/conv/row_chain.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "backends/cpu/conv/row_stage.h"
#include "backends/cpu/core/slots.h"
#include "base/checked.h"
#include "ops/common/quantized_pair.h"

namespace smelt {
namespace {

constexpr int64_t kRowsElements = 96 * 1024;  ///< of the rows between stages, which stay in the level-2 cache
constexpr size_t kMostStages = 8;

int64_t row_elements_of(const ConvShape& g) { return g.out[2] * g.all_out(); }

double products_of_row(const ConvShape& g) {
  return static_cast<double>(row_elements_of(g)) * static_cast<double>(g.k());
}

/// Convolutions, each of the output of the one before, by bands of rows of the last one's output. Threads share these
/// rows. What a stage makes lies in a ring of rows, whose rows the next stage reads until it needs them no more.
class RowChain final : public Kernel {
 public:
  RowChain(std::unique_ptr<Kernel> first, int threads) : threads_(std::max(threads, 1)) { add(std::move(first)); }
  /// The only kernel. Precondition: none was taken.
  std::unique_ptr<Kernel> release() { return std::move(links_[0].kernel); }

  bool take_epilogue(const EpilogueF32& epilogue) override { return links_.back().kernel->take_epilogue(epilogue); }
  bool take_next(std::unique_ptr<Kernel>& next) override {
    RowStage* const stage = next->row_stage();
    if (!stage || stage->reads() == RowStage::Reads::kImage || links_.size() == kMostStages) return false;
    if (stage->element_bytes() != last().element_bytes()) return false;
    const EpilogueF32& epilogue = last().row_epilogue();
    if (epilogue.block && epilogue.other == EpilogueF32::Other::kEverywhere) return false;
    const ConvShape& made = last().shape();
    if (made.out[1] != stage->shape().in[1] || made.out[2] != stage->shape().in[2]) return false;  // one is turned
    const double value = static_cast<double>(made.batch * made.out[1]) * static_cast<double>(row_elements_of(made));
    const double before = repeated_products();
    links_.back().words = last().can_make_words() && stage->can_take_words();
    add(std::move(next));
    // In the time in which an element is written to and read from an outer cache.
    constexpr double kProducts = 5;
    if (choose_band() && repeated_products() - before < kProducts * value) {
      pass_words();
      return true;
    }
    next = std::move(links_.back().kernel);
    links_.pop_back();
    links_.back().words = false;
    if (links_.size() > 1) choose_band();
    return false;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_bytes_); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<std::byte*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for rows of convolutions");
    const ConvShape& g = last().shape();
    ranges_in_slots(ctx.threads(), threads_, g.batch * g.out[1], [&](int64_t first, int64_t last, int64_t slot) {
      for (int64_t r = first, n = 0; r < last; r += n) {
        n = std::min(last - r, g.out[1] - r % g.out[1]);
        of_image(ctx, r / g.out[1], r % g.out[1], r % g.out[1] + n, scratch + slot * slot_bytes_);
      }
    });
    return Ok();
  }

 private:
  struct Link {
    std::unique_ptr<Kernel> kernel;
    RowStage* stage;
    int64_t held = 0;     ///< rows of its output that a thread holds
    int64_t at = 0;       ///< where they lie in a thread's memory
    int64_t scratch = 0;  ///< of the stage, in a thread's memory
    bool words = false;   ///< of two bfloat16, not floats
    int64_t row() const { return row_elements_of(stage->shape()) / (words ? 2 : 1) * stage->element_bytes(); }
  };
  using PerStage = std::array<int64_t, kMostStages>;

  void add(std::unique_ptr<Kernel> kernel) {
    RowStage* const stage = kernel->row_stage();
    links_.push_back({std::move(kernel), stage});
  }
  /// The last stage takes the rows of the one before as that one makes them.
  void pass_words() {
    if (!links_[links_.size() - 2].words) return;
    links_[links_.size() - 2].stage->make_words();
    links_.back().stage->take_words();
  }
  const RowStage& last() const { return *links_.back().stage; }

  /// Products of rows that two threads make.
  double repeated_products() const {
    double sum = 0;
    int64_t rows = 0;  // of a stage's output, that both make
    for (size_t i = links_.size(); i-- > 0;) {
      const ConvShape& g = links_[i].stage->shape();
      sum += static_cast<double>(rows) * products_of_row(g);
      rows = std::max<int64_t>(0, (rows - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1);
    }
    return sum * static_cast<double>(threads_ - 1);
  }

  /// The rows of a band, and the memory that it takes. False: bands that stay in the level-2 cache are too low.
  bool choose_band() {
    const int64_t share = ceil_div(last().shape().batch * last().shape().out[1], threads_);
    const int64_t most = std::min(share, last().shape().out[1]);
    band_ = 0;
    while (band_ < most && lay_out(band_ + 1)) ++band_;
    return band_ > 0 && lay_out(band_) && makes_whole_tiles();
  }
  /// False: products of a band have so few rows that their tiles are low.
  bool makes_whole_tiles() const {
    constexpr int64_t kPixels = 40;
    int64_t rows = band_;  // that a band adds
    for (size_t i = links_.size(); i-- > 0; rows *= links_[i].stage->shape().stride[1]) {
      const ConvShape& g = links_[i].stage->shape();
      if (g.groups == 1 && rows * g.out[2] < kPixels) return false;
    }
    return true;
  }
  bool lay_out(int64_t band) {
    const int64_t most = kRowsElements * last().element_bytes();
    int64_t rows = band, bytes = 0;
    for (size_t i = links_.size() - 1; i > 0; --i) {
      const ConvShape& g = links_[i].stage->shape();
      rows = std::min(g.in[1], (rows - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1);
      links_[i - 1].held = rows;
      links_[i - 1].at = bytes;
      if (rows > most / links_[i - 1].row()) return false;
      bytes += padded_bytes(rows * links_[i - 1].row());
    }
    const bool fits = bytes <= most;
    for (Link& link : links_) {
      link.scratch = bytes;
      bytes += padded_bytes(link.stage->row_scratch());
    }
    slot_bytes_ = bytes;
    return fits;
  }

  /// Rows [first, last) of the output of one image.
  void of_image(KernelContext& ctx, int64_t image, int64_t first, int64_t last, std::byte* memory) const {
    const size_t n = links_.size();
    PerStage begin, end, origin;  // rows of a stage's output that the band makes; the row that its ring begins with
    PerStage made{};              // rows up to which they were made
    for (const Link& link : links_) link.stage->begin_rows(memory + link.scratch);
    for (int64_t y = first; y < last; y = end[n - 1]) {
      begin[n - 1] = y;
      end[n - 1] = y + ceil_div(last - y, ceil_div(last - y, band_));
      for (size_t i = n - 1; i > 0; --i) {
        const auto [from, to] = links_[i].stage->under(begin[i], end[i]);
        begin[i - 1] = y == first ? from : std::max(from, made[i - 1]);
        end[i - 1] = std::max(begin[i - 1], to);
        if (y == first || links_[i].stage->reads() == RowStage::Reads::kBand) origin[i - 1] = begin[i - 1];
      }
      for (size_t i = 0; i < n; ++i) {
        stage_rows(ctx, image, i, begin[i], end[i], origin, memory);
        made[i] = end[i];
      }
    }
  }
  void stage_rows(KernelContext& ctx, int64_t image, size_t i, int64_t first, int64_t last, const PerStage& origin,
                  std::byte* memory) const {
    const Link& link = links_[i];
    const ConvShape& g = link.stage->shape();
    const EpilogueF32& epilogue = link.stage->row_epilogue();
    const int64_t row = link.row(), image_bytes = g.in_pixels() * g.all_in() * link.stage->element_bytes();
    const ImageRows x = i > 0
                            ? ImageRows{memory + links_[i - 1].at, origin[i - 1], links_[i - 1].held}
                            : ImageRows::of(static_cast<const std::byte*>(ctx.input(0).raw()) + image * image_bytes, g);
    std::byte* const scratch = memory + link.scratch;
    if (i + 1 == links_.size()) {
      const EpilogueRun run(epilogue, ctx);
      std::byte* const y = static_cast<std::byte*>(ctx.output(0).raw()) + (image * g.out[1] + first) * row;
      return link.stage->rows(x, first, last, run ? &run : nullptr, scratch, y);
    }
    std::byte* const ring = memory + link.at;
    const EpilogueRun run(epilogue, ctx, reinterpret_cast<float*>(ring));
    for (int64_t y = first, n = 0; y < last; y += n) {
      const int64_t at = (y - origin[i]) % link.held;
      n = std::min(last - y, link.held - at);
      link.stage->rows(x, y, y + n, run ? &run : nullptr, scratch, ring + at * row);
    }
  }

  std::vector<Link> links_;
  int64_t threads_, band_ = 1;  ///< rows of the last stage's output that are made at once
  int64_t slot_bytes_ = 0;      ///< of a thread's memory
};

}  // namespace

bool may_chain_rows(const KernelSpec& conv) {
  constexpr double kNear = 256 * 1024;  // bytes that stay in the level-2 cache
  const ValueType& x = conv.inputs[0];
  const bool chains = is_unquantized_f32(x) || is_8bit(x.dtype);
  return chains && static_cast<double>(x.shape.elements()) * (is_unquantized_f32(x) ? sizeof(float) : 1) >
                       kNear * std::max(1, conv.threads);
}

bool chain_rows(std::unique_ptr<Kernel>& kernel, std::unique_ptr<Kernel>& next, int threads) {
  if (kernel->take_next(next)) return true;
  if (!kernel->row_stage()) return false;
  auto chain = std::make_unique<RowChain>(std::move(kernel), threads);
  const bool taken = chain->take_next(next);
  kernel = taken ? std::move(chain) : chain->release();
  return taken;
}

}  // namespace smelt
