// Attention head by head: scores of a block of queries, their softmax, and the values that they weigh.
#include "backends/cpu/attention/attention_f32.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/cpu/attention/row_attention.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/row_spacing.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/vector_ops.h"
#include "ops/attention/geometry.h"

namespace smelt {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

/// [batch, heads, length, depth], or [batch, length, heads * depth], in memory.
struct Heads {
  int64_t batch_step, head_step, row_step;
  Heads(bool flat, int64_t heads, int64_t length, int64_t depth)
      : batch_step(heads * length * depth),
        head_step(flat ? depth : length * depth),
        row_step(flat ? heads * depth : depth) {}
  int64_t at(int64_t b, int64_t h) const { return b * batch_step + h * head_step; }
};

class AttentionF32 final : public Kernel {
 public:
  AttentionF32(const AttentionGeometry& g, const AttentionMask& mask, const GemmF32& gemm, const KernelSpec& spec)
      : g_(g),
        mask_(mask),
        attrs_(spec.attrs<AttentionAttrs>()),
        gemm_(gemm),
        rows_(vector_ops(spec.isa)),
        row_ops_(row_attention(spec.isa)),
        q_(g.flat_q, g.q_heads, g.rows, g.depth),
        y_(g.flat_q, g.q_heads, g.rows, g.v_depth),
        k_(g.flat_k, g.kv_heads, g.fresh, g.depth),
        v_(g.flat_v, g.kv_heads, g.fresh, g.v_depth),
        has_mask_(spec.has(3)),
        bool_mask_(has_mask_ && spec.inputs[3].dtype == DType::kBool) {
    scale_ = static_cast<float>(attrs_.scale != 0 ? attrs_.scale : 1 / std::sqrt(static_cast<double>(g.depth)));
    const int64_t threads = std::max(spec.threads, 1), heads = g.batch * g.kv_heads;
    // Threads share the queries of a head where the heads alone do not give all of them as much to do.
    parts_ = std::min(threads / std::gcd(threads, heads), (g.rows + gemm_.mr - 1) / gemm_.mr);
    slots_ = std::min(threads, heads * parts_);
    constexpr int64_t kScores = 32 * 1024;  // of a block, to stay in a near cache
    block_ = std::max<int64_t>(1, kScores / (g.keys * gemm_.mr)) * gemm_.mr;
    block_ = std::min(block_, g.rows);
    score_row_ = apart<float>(round_up(g.keys, 16));
    depth_words_ = gemm_.words(g.depth);
    one_row_ = g.rows == 1 && !gemm_.to_words;
    k_workspace_ = one_row_ ? 0 : padded_floats(gemm_.packed_size(depth_words_, g.keys));
    v_workspace_ = one_row_ ? 0 : padded_floats(gemm_.packed_size(gemm_.words(g.keys), g.v_depth));
    score_workspace_ = padded_floats((one_row_ ? g.q_heads / g.kv_heads : block_) * score_row_);
    workspace_ =
        k_workspace_ + v_workspace_ + score_workspace_ + padded_floats(one_row_ ? g.q_heads / g.kv_heads : block_);
    copies_queries_ = gemm_.to_words || (!one_row_ && rows_collide(q_.row_step * 4));
    if (copies_queries_) workspace_ += padded_floats(block_ * depth_words_);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(slots_ * workspace_) * sizeof(float) + static_cast<size_t>(g_.batch) * sizeof(KeySpan);
  }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for attention");
    auto* spans = reinterpret_cast<KeySpan*>(scratch + slots_ * workspace_);
    for (int64_t b = 0; b < g_.batch; ++b) {
      SMELT_ASSIGN(spans[b], key_span(ctx, attrs_, g_, b));
      // Queries without any key get zeros, from the reference kernel.
      if (spans[b].valid == 0) return op_info(Op::kAttention).reference(ctx);
      spans[b].valid = visible_end(ctx, b, {0, g_.q_heads}, {0, g_.rows}, spans[b].valid);
    }
    const int64_t units = g_.batch * g_.kv_heads * parts_;
    ranges_in_slots(ctx.threads(), slots_, units, [&](int64_t first, int64_t last, int64_t slot) {
      float* const workspace = scratch + slot * workspace_;
      for (int64_t u = first; u < last; ++u) {
        if (one_row_) {
          one_row(ctx, u, spans[u / g_.kv_heads], workspace);
          continue;
        }
        const KeySpan& span = spans[u / parts_ / g_.kv_heads];
        if (u == first || u % parts_ == 0) pack(ctx, u / parts_, span.valid, workspace);
        head(ctx, u / parts_, u % parts_, span, workspace);
      }
    });
    return Ok();
  }

 private:
  /// Packs the first keys and values of `kv`.
  void pack(KernelContext& ctx, int64_t kv, int64_t keys, float* workspace) const {
    const int64_t b = kv / g_.kv_heads, h = kv % g_.kv_heads;
    const float *const k = ctx.input(1).data<float>() + k_.at(b, h), *const v =
                                                                         ctx.input(2).data<float>() + v_.at(b, h);
    gemm_.pack(k, 1, k_.row_step, g_.depth, keys, nullptr, workspace, scale_);
    gemm_.pack(v, v_.row_step, 1, keys, g_.v_depth, nullptr, workspace + k_workspace_);
  }
  /// Rows of the gemm's words, one behind the other.
  void copy_queries(const float* queries, int64_t rows, float* to) const {
    for (; rows > 0; --rows, queries += q_.row_step, to += depth_words_) {
      if (gemm_.to_words)
        gemm_.to_words(queries, g_.depth, to);
      else
        std::copy_n(queries, g_.depth, to);
    }
  }
  /// Part `part` of the queries of all heads that share keys and values `kv`, which are packed.
  void head(KernelContext& ctx, int64_t kv, int64_t part, const KeySpan& span, float* workspace) const {
    const int64_t b = kv / g_.kv_heads, share = g_.q_heads / g_.kv_heads;
    float *const keys = workspace, *const values = workspace + k_workspace_, *const scores = values + v_workspace_,
                 *const factors = scores + score_workspace_;
    const float* q = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const Bounds all = activation_bounds({});
    const int64_t length = span.valid, key_words = gemm_.words(length);
    // Parts are whole tiles: which rows the remainder of a tile has does not depend on the number of threads.
    const int64_t tiles = (g_.rows + gemm_.mr - 1) / gemm_.mr;
    const int64_t first = tiles * part / parts_ * gemm_.mr;
    const int64_t last = std::min(g_.rows, tiles * (part + 1) / parts_ * gemm_.mr);
    for (int64_t h = kv % g_.kv_heads * share; h < (kv % g_.kv_heads + 1) * share; ++h)
      for (int64_t i = first; i < last; i += block_) {
        const int64_t n = std::min(block_, last - i);
        const float* queries = q + q_.at(b, h) + i * q_.row_step;
        int64_t query_step = q_.row_step;
        if (copies_queries_) {
          float* const copy = factors + padded_floats(block_);
          copy_queries(queries, n, copy);
          queries = copy;
          query_step = depth_words_;
        }
        const bool all_keys = sees_all_keys(span);
        const VisibleKeys seen = keys_of_rows(ctx, b, h, span, {i, n});
        gemm_.run(n, length, depth_words_, queries, query_step, keys, seen.begin / gemm_.nr(), gemm_.panels(seen.end),
                  scores, score_row_, nullptr, all.lo, all.hi);
        for (int64_t r = 0; attrs_.softcap > 0 && r < n; ++r)
          cap(scores + r * score_row_ + seen.begin, seen.end - seen.begin);
        if (all_keys)
          weigh_rows(ctx, b, h, i, n, seen.end, scores, factors);
        else
          for (int64_t r = 0; r < n; ++r) weigh(ctx, b, h, i + r, span, seen, scores + r * score_row_);
        for (int64_t r = 0; r < n && gemm_.to_words; ++r) {
          float* row = scores + r * score_row_;
          gemm_.to_words(row, length, row);  // words lie before the floats that they are made of
        }
        float* const to = y + y_.at(b, h) + i * y_.row_step;
        const ptrdiff_t at = seen.begin;
        if (seen.end - seen.begin == length)
          gemm_.run(n, g_.v_depth, key_words, scores, score_row_, values, 0, gemm_.panels(g_.v_depth), to, y_.row_step,
                    nullptr, all.lo, all.hi);
        else
          gemm_.product({scores, to, score_row_, y_.row_step, n}, {&at, 1, seen.end - seen.begin, &at}, key_words,
                        g_.v_depth, values, 0, gemm_.panels(g_.v_depth), nullptr, all.lo, all.hi);
        for (int64_t r = 0; all_keys && r < n; ++r)
          if (factors[r] != 1) rows_.scale_clamp(to + r * y_.row_step, g_.v_depth, factors[r], all.lo, all.hi);
      }
  }
  /// The only query of all heads that share keys and values `kv`, which stay where they lie.
  void one_row(KernelContext& ctx, int64_t kv, const KeySpan& span, float* scores) const {
    const int64_t b = kv / g_.kv_heads, h = kv % g_.kv_heads, share = g_.q_heads / g_.kv_heads;
    const float* const q = ctx.input(0).data<float>() + q_.at(b, h * share);
    float* const y = ctx.output(0).data<float>() + y_.at(b, h * share);
    row_ops_.scores(q, share, {ctx.input(1).data<float>() + k_.at(b, h), k_.row_step, span.valid, g_.depth}, scale_,
                    scores, score_row_);
    float* const factors = scores + score_workspace_;
    const bool all_keys = sees_all_keys(span);
    for (int64_t i = 0; i < share; ++i) {
      if (attrs_.softcap > 0) cap(scores + i * score_row_, span.valid);
      if (all_keys)
        weigh_rows(ctx, b, h * share + i, 0, 1, span.valid, scores + i * score_row_, factors + i);
      else
        weigh(ctx, b, h * share + i, 0, span, {0, span.valid}, scores + i * score_row_);
    }
    row_ops_.weigh(scores, score_row_, share,
                   {ctx.input(2).data<float>() + v_.at(b, h), v_.row_step, span.valid, g_.v_depth}, y);
    const Bounds all = activation_bounds({});
    for (int64_t i = 0; all_keys && i < share; ++i)
      if (factors[i] != 1) rows_.scale_clamp(y + i * g_.v_depth, g_.v_depth, factors[i], all.lo, all.hi);
  }
  struct Part {
    int64_t first, count;
  };
  /// Keys up to the last one that the mask does not hide from all these queries: a cache may have more rows than are in
  /// use. All of `keys` where a query sees none, since it may see all alike then.
  int64_t visible_end(const KernelContext& ctx, int64_t b, Part heads, Part rows, int64_t keys) const {
    if (!has_mask_) return keys;
    constexpr float kLowest = -3e38f;  // beside what is larger, the exponential of a score and this is 0
    const Tensor& mask = ctx.input(3);
    int64_t end = 0;
    for (int64_t h = 0; h < (mask_.strides[1] == 0 ? 1 : heads.count); ++h)
      for (int64_t i = mask_.strides[2] == 0 ? 1 : rows.count; i-- > 0;) {
        const int64_t row = mask_.row(b, heads.first + h, rows.first + i);
        const auto hidden = [&](int64_t j) {
          const int64_t at = row + j * mask_.strides[3];
          return bool_mask_ ? mask.data<uint8_t>()[at] == 0 : mask.data<float>()[at] <= kLowest;
        };
        int64_t last = std::min(keys, mask_.keys), first = 0;
        while (last > end && hidden(last - 1)) --last;
        end = std::max(end, last);
        while (first < end && hidden(first)) ++first;
        if (first == end) return keys;
      }
    return end;
  }
  /// True if only a mask of all keys hides valid keys from queries.
  bool sees_all_keys(const KeySpan& span) const {
    return !attrs_.causal && attrs_.window < 0 && attrs_.window_right < 0 && (!has_mask_ || span.valid <= mask_.keys);
  }
  /// Mask and softmax of the scores of n queries from i on, which see all `keys`; `factors`: what the result of each
  /// query is still to be multiplied by.
  void weigh_rows(KernelContext& ctx, int64_t b, int64_t h, int64_t i, int64_t n, int64_t keys, float* scores,
                  float* factors) const {
    const int64_t at = has_mask_ ? mask_.row(b, h, i) : 0;
    const bool adds = has_mask_ && !bool_mask_ && mask_.strides[3] == 1;
    for (int64_t r = 0; has_mask_ && !adds && r < n; ++r)
      mask(ctx.input(3), at + r * mask_.strides[2], {0, keys}, scores + r * score_row_);
    const float* const added = adds ? ctx.input(3).data<float>() + at : nullptr;
    rows_.exponentials({score_row_, n, keys, added, mask_.strides[2]}, scores, factors);
    // A query without any key gets zeros.
    for (int64_t r = 0; has_mask_ && r < n; ++r) {
      float* const row = scores + r * score_row_;
      if (!std::isnan(*row) || !hides_all(ctx.input(3), at + r * mask_.strides[2])) continue;
      std::fill_n(row, keys, 0.0f);
      factors[r] = 0;
    }
  }
  bool hides_all(const Tensor& t, int64_t at) const {
    for (int64_t j = 0; j < mask_.keys; ++j) {
      const int64_t index = at + j * mask_.strides[3];
      if (bool_mask_ ? t.data<uint8_t>()[index] != 0 : t.data<float>()[index] != kHidden) return false;
    }
    return true;
  }
  void cap(float* scores, int64_t keys) const { rows_.softcap(scores, keys, static_cast<float>(attrs_.softcap)); }
  /// Keys of whole panels that these queries of head h see, none of the others being seen by them.
  VisibleKeys keys_of_rows(const KernelContext& ctx, int64_t b, int64_t h, const KeySpan& span, Part rows) const {
    if (gemm_.to_words) return {0, span.valid};
    const int64_t begin = visible_keys(attrs_, span.offset + rows.first, span.valid).begin;
    int64_t end = visible_keys(attrs_, span.offset + rows.first + rows.count - 1, span.valid).end;
    end = visible_end(ctx, b, {h, 1}, rows, end);
    if (begin >= end) return {0, span.valid};
    return {begin / gemm_.nr() * gemm_.nr(), std::min(round_up(end, gemm_.nr()), span.valid)};
  }
  /// Mask and softmax of the scores of query i, one of a block that sees no keys but those of `of_block`; the scores of
  /// others are not used.
  void weigh(KernelContext& ctx, int64_t b, int64_t h, int64_t i, const KeySpan& span, const VisibleKeys& of_block,
             float* scores) const {
    VisibleKeys seen = visible_keys(attrs_, span.offset + i, span.valid);
    if (has_mask_) {
      seen.end = std::max(seen.begin, std::min(seen.end, mask_.keys));
      mask(ctx.input(3), mask_.row(b, h, i), seen, scores);
    }
    const int64_t n = seen.end - seen.begin;
    float* const row = scores + seen.begin;
    // A query without any key gets zeros.
    const bool any = n > 0 && (!has_mask_ || rows_.reduce_max(row, n) != kHidden);
    if (any) rows_.softmax(row, 1, n, 1, false, row);
    float* const first = scores + of_block.begin;
    std::fill(first, any ? row : first, 0.0f);
    std::fill(any ? row + n : first, scores + of_block.end, 0.0f);
  }
  void mask(const Tensor& t, int64_t at, const VisibleKeys& seen, float* scores) const {
    const int64_t step = mask_.strides[3];
    if (bool_mask_) {
      const auto* allowed = t.data<uint8_t>() + at;
      for (int64_t j = seen.begin; j < seen.end; ++j) scores[j] = allowed[j * step] ? scores[j] : kHidden;
    } else {
      const float* added = t.data<float>() + at;
      if (step == 1) return rows_.add(added + seen.begin, seen.end - seen.begin, scores + seen.begin);
      for (int64_t j = seen.begin; j < seen.end; ++j) scores[j] += added[j * step];
    }
  }

  AttentionGeometry g_;
  AttentionMask mask_;
  AttentionAttrs attrs_;
  const GemmF32& gemm_;
  const VectorOps& rows_;
  const RowAttention& row_ops_;
  Heads q_, y_, k_, v_;
  bool has_mask_, bool_mask_;
  bool one_row_ = false;         ///< a query a head: keys and values are not packed
  bool copies_queries_ = false;  ///< to rows one behind the other
  float scale_ = 1;
  int64_t score_row_ = 0;  ///< floats from one query's scores to the next's: vectors of rows do not overlap
  int64_t depth_words_ = 0;
  int64_t parts_ = 1, slots_ = 1, block_ = 1;
  int64_t k_workspace_ = 0, v_workspace_ = 0, score_workspace_ = 0, workspace_ = 0;  ///< floats
};

}  // namespace

std::unique_ptr<Kernel> make_attention_by(const GemmF32& gemm, const KernelSpec& spec) {
  const auto& attrs = spec.attrs<AttentionAttrs>();
  if (attrs.smooth_softmax || spec.has(4) || spec.has(5) || spec.has(7))
    return spec.refuse("past keys, lengths or a smooth softmax");
  for (size_t i = 1; i < spec.node.outputs.size(); ++i)
    if (spec.node.outputs[i] != kNoValue) return nullptr;
  const auto g = attention_geometry(attrs, spec.inputs[0].shape, spec.inputs[1].shape, spec.inputs[2].shape, nullptr);
  if (!g.ok() || g->output() != spec.outputs[0].shape || spec.outputs[0].shape.elements() == 0 || g->keys < 1 ||
      g->depth < 1)
    return nullptr;
  AttentionMask mask;
  if (spec.has(3)) {
    const auto made = attention_mask(*g, spec.inputs[3].shape);
    if (!made.ok() || (spec.inputs[3].dtype != DType::kBool && !is_unquantized_f32(spec.inputs[3]))) return nullptr;
    mask = *made;
  }
  return std::make_unique<AttentionF32>(*g, mask, gemm, spec);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_attention_f32(const KernelSpec& spec) {
  return make_attention_by(gemm_f32(spec.isa), spec);
}

}  // namespace smelt
