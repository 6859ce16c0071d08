// Grouped-query attention: caches are copied row by row as they grow, fresh keys rotated on the way in.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/cpu/attention/row_attention.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/row_spacing.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "ops/attention/attention.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

enum Input : uint8_t { kQ, kK, kV, kPastK, kPastV, kLengths, kTotal, kCos, kSin, kPositions, kBias, kSinks };

class GroupQueryF32 final : public Kernel {
 public:
  explicit GroupQueryF32(const KernelSpec& spec)
      : a_(spec.attrs<GroupQueryAttrs>()),
        gemm_(gemm_f32(spec.isa)),
        vector_ops_(vector_ops(spec.isa)),
        row_ops_(row_attention(spec.isa)),
        packed_(!spec.has(kK)),
        given_(spec.has(kPastK)),
        batch_(spec.inputs[kQ].shape[0]),
        rows_(spec.inputs[kQ].shape[1]),
        width_(spec.inputs[kQ].shape[2]),
        depth_(spec.outputs[1].shape[3]),
        capacity_(spec.outputs[1].shape[2]),
        past_(given_ ? spec.inputs[kPastK].shape[2] : 0),
        half_(a_.rotary ? spec.inputs[kCos].shape[1] : 0),
        sinks_(spec.has(kSinks)),
        own_positions_(spec.has(kPositions) && spec.inputs[kPositions].shape.elements() == batch_ * rows_) {
    scale_ = a_.scale != 0 ? static_cast<float>(a_.scale) : 1.0f / std::sqrt(static_cast<float>(depth_));
    slots_ = std::min<int64_t>(std::max(spec.threads, 1), batch_ * a_.kv_heads);
    const bool joins = a_.window_cache && rows_ > 1;  // the rows of a run may be more than a window's cache holds
    joined_ = capacity_ + (a_.window_cache ? rows_ : 0);
    joined_workspace_ = joins ? padded_floats(joined_ * depth_) : 0;
    constexpr int64_t kScores = 32 * 1024;  // of a block, to stay in a near cache
    block_ = std::clamp<int64_t>(kScores / (joined_ * gemm_.mr) * gemm_.mr, std::min(gemm_.mr, rows_), rows_);
    const int64_t share = a_.num_heads / a_.kv_heads;
    score_row_ = apart<float>(padded_floats(joined_ + 1));
    q_workspace_ = padded_floats((rows_ == 1 ? share : rows_) * depth_);
    k_workspace_ = rows_ == 1 ? 0 : padded_floats(gemm_.packed_size(depth_, joined_));
    v_workspace_ = rows_ == 1 ? 0 : padded_floats(gemm_.packed_size(joined_, depth_));
    workspace_ =
        q_workspace_ + k_workspace_ + v_workspace_ + (rows_ == 1 ? share : block_) * score_row_ + 2 * joined_workspace_;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(slots_ * workspace_) * sizeof(float); }

  Status run(KernelContext& ctx) const override {
    // What does not fit is for the reference to say.
    for (int64_t b = 0; b < batch_; ++b)
      if (!fits(ctx, b)) return op_info(Op::kGroupQueryAttention).reference(ctx);
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for attention");
    in_slots(ctx.threads(), slots_, batch_ * a_.kv_heads, [&](int64_t u, int64_t slot) {
      group(ctx, u / a_.kv_heads, u % a_.kv_heads, scratch + slot * workspace_);
    });
    return Ok();
  }

 private:
  FreshRows fresh_rows(const KernelContext& ctx, int64_t b) const { return a_.fresh_rows(ctx, b, rows_, capacity_); }
  int64_t position(const KernelContext& ctx, int64_t b, int64_t i) const {
    return own_positions_ ? get_int(ctx.input(kPositions), b * rows_ + i) : fresh_rows(ctx, b).position + i;
  }
  bool fits(const KernelContext& ctx, int64_t b) const {
    const FreshRows at = fresh_rows(ctx, b);
    if (at.position < 0 || at.row > joined_ - rows_) return false;
    // A window of a prompt that is padded is for the reference, too.
    if (a_.window_cache && at.length - at.position != rows_) return false;
    for (int64_t i = 0; a_.rotary && i < rows_; ++i)
      if (const int64_t p = position(ctx, b, i); p < 0 || p >= ctx.input(kCos).dim(0)) return false;
    return true;
  }

  /// y = a head's row x as it is at row i of batch entry b.
  void rotate(const KernelContext& ctx, int64_t b, int64_t i, const float* x, float* y) const {
    const int64_t turned = a_.rotary ? 2 * half_ : 0;
    std::copy_n(x + turned, depth_ - turned, y + turned);
    if (!a_.rotary) return;
    const int64_t at = position(ctx, b, i) * half_;
    const float *cos = ctx.input(kCos).data<float>() + at, *sin = ctx.input(kSin).data<float>() + at;
    rotate_row(row_ops_, a_.interleaved, x, cos, sin, half_, y);
  }
  /// Row i of head h of the fresh keys (first = 0) or values (1).
  const float* fresh(const KernelContext& ctx, int64_t first, int64_t b, int64_t i, int64_t h) const {
    const int64_t row = b * rows_ + i;
    if (!packed_) return ctx.input(first == 0 ? kK : kV).data<float>() + (row * a_.kv_heads + h) * depth_;
    return ctx.input(kQ).data<float>() + row * width_ + (a_.num_heads + first * a_.kv_heads + h) * depth_;
  }
  /// The cache of batch entry b and head h, with the fresh rows, in `joined` where that is not null.
  const float* fill(KernelContext& ctx, int64_t first, int64_t b, int64_t h, float* joined) const {
    const int64_t head = b * a_.kv_heads + h;
    const FreshRows at = fresh_rows(ctx, b);
    const int64_t skipped = joined ? 0 : at.dropped, old = a_.window_cache ? at.row - skipped : past_;
    float* const present = ctx.output(static_cast<int>(1 + first)).data<float>() + head * capacity_ * depth_;
    float* const cache = joined ? joined : present;
    if (old > 0)
      std::copy_n(ctx.input(static_cast<int>(kPastK + first)).data<float>() + (head * past_ + skipped) * depth_,
                  old * depth_, cache);
    if (!joined) std::fill(cache + old * depth_, cache + capacity_ * depth_, 0.0f);
    for (int64_t i = 0; i < rows_; ++i) {
      float* to = cache + (at.row - skipped + i) * depth_;
      const float* from = fresh(ctx, first, b, i, h);
      if (first == 0)
        rotate(ctx, b, i, from, to);
      else
        std::copy_n(from, depth_, to);
    }
    if (joined) {
      const int64_t kept = at.row + rows_ - at.dropped;
      std::copy_n(joined + at.dropped * depth_, kept * depth_, present);
      std::fill(present + kept * depth_, present + capacity_ * depth_, 0.0f);
    }
    return cache;
  }

  /// All heads that share the cache of batch entry b and head kv.
  void group(KernelContext& ctx, int64_t b, int64_t kv, float* workspace) const {
    float* const joined = workspace + workspace_ - 2 * joined_workspace_;
    const float* const k = fill(ctx, 0, b, kv, joined_workspace_ > 0 ? joined : nullptr);
    const float* const v = fill(ctx, 1, b, kv, joined_workspace_ > 0 ? joined + joined_workspace_ : nullptr);
    if (rows_ == 1) return one_row(ctx, b, kv, k, v, workspace);
    float *const q = workspace, *const keys = workspace + q_workspace_, *const values = keys + k_workspace_;
    float* const scores = values + v_workspace_;
    const int64_t share = a_.num_heads / a_.kv_heads, before = fresh_rows(ctx, b).row, length = before + rows_;
    const int64_t q_step = packed_ ? width_ : a_.num_heads * depth_, y_step = a_.num_heads * depth_;
    const Bounds all = activation_bounds({});
    gemm_.pack(k, 1, depth_, depth_, length, nullptr, keys, scale_);
    gemm_.pack(v, depth_, 1, length, depth_, nullptr, values);
    for (int64_t h = kv * share; h < (kv + 1) * share; ++h) {
      for (int64_t i = 0; i < rows_; ++i)
        rotate(ctx, b, i, ctx.input(kQ).data<float>() + (b * rows_ + i) * q_step + h * depth_, q + i * depth_);
      for (int64_t i = 0; i < rows_; i += block_) {
        const int64_t n = std::min(block_, rows_ - i);
        // Keys that queries of the block see.
        const int64_t begin = first_key(before + i + 1), end = before + i + n;
        gemm_.run(n, length, depth_, q + i * depth_, depth_, keys, begin / gemm_.nr(), gemm_.panels(end), scores,
                  score_row_, nullptr, all.lo, all.hi);
        for (int64_t r = 0; r < n; ++r) weigh(ctx, h, before + i + r + 1, begin, end, scores + r * score_row_);
        const ptrdiff_t at = begin;
        gemm_.product(
            {scores, ctx.output(0).data<float>() + (b * rows_ + i) * y_step + h * depth_, score_row_, y_step, n},
            {&at, 1, end - begin, &at}, length, depth_, values, 0, gemm_.panels(depth_), nullptr, all.lo, all.hi);
      }
    }
  }
  /// group() for one query a head: the rows of the caches stay where they are.
  void one_row(KernelContext& ctx, int64_t b, int64_t kv, const float* k, const float* v, float* workspace) const {
    const FreshRows at = fresh_rows(ctx, b);
    const int64_t share = a_.num_heads / a_.kv_heads, length = at.row + 1 - at.dropped;
    const int64_t begin = first_key(length), n = length - begin;
    float *const q = workspace, *const scores = workspace + q_workspace_;
    const float* x = ctx.input(kQ).data<float>() + b * (packed_ ? width_ : a_.num_heads * depth_) + kv * share * depth_;
    for (int64_t h = 0; h < share; ++h) rotate(ctx, b, 0, x + h * depth_, q + h * depth_);
    row_ops_.scores(q, share, {k + begin * depth_, depth_, n, depth_}, scale_, scores, score_row_);
    for (int64_t h = 0; h < share; ++h) weigh(ctx, kv * share + h, n, 0, n, scores + h * score_row_);
    row_ops_.weigh(scores, score_row_, share, {v + begin * depth_, depth_, n, depth_},
                   ctx.output(0).data<float>() + (b * a_.num_heads + kv * share) * depth_);
  }
  /// The first of the keys before `end` that a query sees.
  int64_t first_key(int64_t end) const { return a_.window > 0 ? std::max<int64_t>(0, end - a_.window) : 0; }
  /// Scores [from, to) of a query of head h that sees the keys before `end` become weights. scores[to] is overwritten.
  void weigh(const KernelContext& ctx, int64_t h, int64_t end, int64_t from, int64_t to, float* scores) const {
    const int64_t begin = first_key(end);
    if (a_.softcap > 0) vector_ops_.softcap(scores + begin, end - begin, static_cast<float>(a_.softcap));
    // A sink is one more logit, without a value.
    const bool sink = sinks_ || a_.smooth_softmax;
    if (sink) scores[end] = sinks_ ? ctx.input(kSinks).data<float>()[h] : 0.0f;
    vector_ops_.softmax(scores + begin, 1, end - begin + (sink ? 1 : 0), 1, false, scores + begin);
    std::fill(scores + from, scores + begin, 0.0f);
    std::fill(scores + end, scores + to, 0.0f);
  }

  GroupQueryAttrs a_;
  const GemmF32& gemm_;
  const VectorOps& vector_ops_;
  const RowAttention& row_ops_;
  bool packed_, given_;
  int64_t batch_, rows_, width_, depth_, capacity_, past_, half_;
  int64_t joined_ = 0;  ///< rows of a cache that the fresh ones have joined, before the oldest leave
  bool sinks_, own_positions_;
  float scale_ = 1;
  int64_t slots_ = 1, block_ = 1, score_row_ = 0, q_workspace_ = 0, k_workspace_ = 0, v_workspace_ = 0, workspace_ = 0;
  int64_t joined_workspace_ = 0;
};

bool is_static_f32(const ValueType& t) { return is_unquantized_f32(t) && t.is_static(); }

bool caches_fit(const KernelSpec& spec, const Shape& q, int64_t depth) {
  const auto& a = spec.attrs<GroupQueryAttrs>();
  const Shape& present = spec.outputs[1].shape;
  const bool given = spec.has(kPastK);
  if (given != spec.has(kPastV) || present.rank() != 4 || present != spec.outputs[2].shape) return false;
  if (present[0] != q[0] || present[1] != a.kv_heads ||
      present[2] < (a.window_cache ? a.window : std::max<int64_t>(q[1], 1)) || present[3] != depth)
    return false;
  if (!given) return present[2] == q[1] && !a.window_cache;
  const Shape& past = spec.inputs[kPastK].shape;
  return past == spec.inputs[kPastV].shape && past.rank() == 4 && past[0] == q[0] && past[1] == a.kv_heads &&
         past[2] <= present[2] && past[3] == depth;
}

bool rotary_fits(const KernelSpec& spec, int64_t depth) {
  if (!spec.attrs<GroupQueryAttrs>().rotary) return true;
  if (!spec.has(kCos) || !spec.has(kSin) || !is_static_f32(spec.inputs[kCos]) || !is_static_f32(spec.inputs[kSin]))
    return false;
  const Shape& table = spec.inputs[kCos].shape;
  return table.rank() == 2 && table == spec.inputs[kSin].shape && table[1] <= depth / 2;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_grouped_query_attention_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<GroupQueryAttrs>();
  if (!a.causal || spec.outputs.size() > 3 || spec.has(kBias) || !spec.has(kLengths)) return nullptr;
  if (spec.has(kSinks) && (!is_static_f32(spec.inputs[kSinks]) || spec.inputs[kSinks].shape.elements() != a.num_heads))
    return nullptr;
  if (spec.outputs.size() < 3 || spec.node.outputs[0] == kNoValue || spec.node.outputs[1] == kNoValue ||
      spec.node.outputs[2] == kNoValue)
    return nullptr;
  for (size_t i = kQ; i <= kPastV; ++i)
    if (spec.has(i) && !is_static_f32(spec.inputs[i])) return nullptr;
  for (const ValueType& t : spec.outputs)
    if (!is_static_f32(t)) return nullptr;
  const Shape& q = spec.inputs[kQ].shape;
  const bool packed = !spec.has(kK);
  const int64_t heads = packed ? a.num_heads + 2 * a.kv_heads : a.num_heads;
  if (q.rank() != 3 || a.kv_heads < 1 || a.num_heads % a.kv_heads != 0 || q.elements() == 0 || q[2] % heads != 0)
    return nullptr;
  const int64_t depth = q[2] / heads;
  if (spec.outputs[0].shape != Shape{q[0], q[1], a.num_heads * depth} || !caches_fit(spec, q, depth) ||
      !rotary_fits(spec, depth) || spec.inputs[kLengths].shape.elements() != q[0])
    return nullptr;
  if (spec.has(kTotal) && spec.inputs[kTotal].shape.elements() != 1) return nullptr;
  for (size_t i = kK; !packed && i <= kV; ++i)
    if (!spec.has(i) || spec.inputs[i].shape.elements() != q[0] * q[1] * a.kv_heads * depth) return nullptr;
  return std::make_unique<GroupQueryF32>(spec);
}

}  // namespace smelt
