#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/common/broadcast.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "passes/canonicalize/extents.h"
#include "passes/fuse/attention_heads.h"
#include "passes/fuse/guarded_softmax.h"
#include "passes/fuse/pattern.h"
#include "passes/fuse/weighted.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

const std::vector<int64_t> kSwapHeads = {0, 2, 1, 3};  ///< [B, S, H, D] <-> [B, H, S, D]
const std::vector<int64_t> kTurn = {0, 1, 3, 2};       ///< [B, H, D, S] <-> [B, H, S, D]
const std::vector<int64_t> kTurnRows = {0, 2, 1};      ///< [B, H * D, S] <-> [B, S, H * D]

class AttentionFuser {
 public:
  explicit AttentionFuser(Graph& graph) : in_(graph), graph_(graph) {}
  void run() {
    for (size_t k = 0; k < graph_.nodes.size(); ++k)
      if (graph_.nodes[k].op == Op::kMatMul) fuse(k);
    remove_dead_nodes(graph_);
  }

 private:
  /// q, k and v as the pattern multiplies them: [B, H, S, D] but for the scale.
  struct Heads {
    ValueId q = kNoValue, k = kNoValue, v = kNoValue, mask = kNoValue;
    double scale = 1;
    int hiding = -1;              ///< Where that hides scores, in place of a mask; -1: none
    ValueId bias = kNoValue;      ///< added before the mask
    int adding = -1;              ///< then the node that adds the mask
    int k_transpose = -1;         ///< node that gives k [B, H, T, D] once its permutation is kSwapHeads; -1: none
    ValueId k_turned = kNoValue;  ///< what that node transposes, without its scale
    int k_split = -1;             ///< Reshape that gives k [B, H, T, D] once it reads h.k, [B * H, T, D]; -1: none
    int k_channels = -1;          ///< Reshape of [B, H * D, T] that gives k as [B, H, D, T]; -1: none
    ValueId read_q = kNoValue, read_k = kNoValue;  ///< what the first product reads: q and k with their scales
    double softcap = 0;                            ///< see AttentionAttrs
    std::vector<int> splits;  ///< of scores that have not four dimensions: the Reshapes of split_of() of q, k and v
  };

  struct MaskSum {
    ValueId bias, mask, sum;
  };

  /// A product of two float32 values as they are.
  const Node* product(ValueId id) const {
    const Node* n = in_.producer(id, Op::kMatMul);
    if (!n || n->inputs.size() != 2 || !in_.is_f32(n->inputs[0]) || !in_.is_f32(n->inputs[1])) return nullptr;
    const auto& a = static_cast<const MatMulAttrs&>(*n->attrs);
    return a.transpose_a || a.trans_batch_a || a.trans_batch_b || a.act.kind != ActKind::kNone || a.row_block != 0
               ? nullptr
               : n;
  }
  const Node* transpose(ValueId id, const std::vector<int64_t>& perm) const {
    const Node* n = in_.producer(id, Op::kTranspose);
    return n && in_.permutation(*n) == perm ? n : nullptr;
  }
  /// The probabilities of softmax over the last dimension; a guard that makes NaN zero may stand behind it.
  const Node* softmax(ValueId id) const {
    const Node* n = in_.producer(id, Op::kSoftmax);
    int uses = 1;
    if (const Node* guard = in_.producer(id, Op::kWhere); guard && in_.has_one_use(id)) {
      const Node* nan = in_.unary(guard->inputs[0], Unary::kIsNan);
      if (!nan || nan->inputs[0] != guard->inputs[2] || in_.scalar(guard->inputs[1], id) != 0) return nullptr;
      id = guard->inputs[2];
      n = in_.producer(id, Op::kSoftmax);
      uses = 2;
    }
    const int rank = in_.is_f32(id) ? in_.type(id).shape.rank() : 0;
    if (!n || in_.uses(id) != uses || rank < 3 || rank > 5) return nullptr;
    const auto& a = static_cast<const SoftmaxAttrs&>(*n->attrs);
    const bool last = a.axis == -1 || a.axis == rank - 1;
    return last && a.kind == SoftmaxAttrs::Kind::kSoftmax && a.beta == 1 && in_.has_one_use(n->inputs[0]) ? n : nullptr;
  }
  /// True if a mask broadcasts to scores [..., H, S, T] without making them larger, and is the same for all batches of
  /// scores of five dimensions.
  bool fits(ValueId mask, ValueId scores) const {
    const ValueType &m = in_.type(mask), &s = in_.type(scores);
    const int rank = s.shape.rank();
    if (!m.ranked || m.quant || (m.dtype != DType::kF32 && m.dtype != DType::kBool) ||
        m.shape.rank() > std::min(rank, 4) || (rank == 5 && m.shape.rank() == 4 && m.shape[0] != 1))
      return false;
    for (int i = 1; i <= m.shape.rank(); ++i) {
      const int64_t from = m.shape[m.shape.rank() - i], to = s.shape[rank - i];
      // A mask of unknown extent can't make more than one row, head or batch larger: it is 1 or fits.
      if (from != 1 && to >= 0 && from != to && !(from < 0 && to > 1)) return false;
    }
    return true;
  }
  /// scale * q k' + mask, and v.
  bool match(const Node& weighted, Heads& h) {
    const auto& last = static_cast<const MatMulAttrs&>(*weighted.attrs);
    const Node* probabilities = last.transpose_b || last.alpha != 1 ? nullptr : softmax(weighted.inputs[0]);
    if (!probabilities) return false;
    h.v = unrepeated_heads(in_, flow(), weighted.inputs[1]);
    ValueId scores = probabilities->inputs[0];
    const Node* scored = scaled_scores(scores, h);
    if (!scored) {
      const Node* sum = in_.binary(scores, Binary::kAdd);
      for (size_t i = 0; sum && !scored && i < 2; ++i) {
        if (!in_.has_one_use(sum->inputs[i]) || !fits(sum->inputs[1 - i], sum->inputs[i])) continue;
        scored = scaled_scores(sum->inputs[i], h);
        if (!scored) scored = biased_scores(sum->inputs[i], sum->inputs[1 - i], h);
        h.adding = in_.index_of_producer(scores);
        h.mask = sum->inputs[1 - i];
      }
    }
    if (!scored) scored = windowed_scores(scores, h);
    if (!scored) scored = hidden_scores(scores, h);
    const int rank = in_.type(probabilities->outputs[0]).shape.rank();
    if (!scored || in_.type(scored->outputs[0]).shape.rank() != rank) return false;
    const auto& a = static_cast<const MatMulAttrs&>(*scored->attrs);
    h.scale *= a.alpha;
    if (rank != 4) return match_splits(*scored, weighted.inputs[1], h);
    h.read_q = scored->inputs[0];
    h.read_k = scored->inputs[1];
    h.q = in_.without_scale(h.read_q, h.scale);
    h.k = in_.without_scale(h.read_k, h.scale);
    if (!a.transpose_b && !turn_keys(h)) return false;
    h.k = unrepeated_heads(in_, flow(), h.k);
    return std::isfinite(h.scale) && h.scale != 0 && same_heads(h);
  }
  /// The product of scale * q k', or of c * tanh(scale / c * q k').
  [[gnu::noinline]] const Node* scaled_scores(ValueId id, Heads& h) const {
    double scale = 1, cap = 0;
    ValueId scores = in_.without_scale(id, scale);
    const Node* bounded = in_.has_one_use(scores) ? in_.unary(scores, Unary::kTanh) : nullptr;
    if (bounded && scale > 0) {
      cap = scale;
      scores = in_.without_scale(bounded->inputs[0], scale);
    }
    const Node* n = in_.has_one_use(scores) ? product(scores) : nullptr;
    if (!n) return nullptr;
    h.scale = scale;
    h.softcap = cap;
    return n;
  }
  /// q, k and v of scores [B0, B1, H, S, T] or [H, S, T], each a split_of().
  bool match_splits(const Node& scored, ValueId weighted, Heads& h) const {
    double one = 1;
    const bool turned = !static_cast<const MatMulAttrs&>(*scored.attrs).transpose_b;
    h.splits = {split_of(in_, scored.inputs[0], false, h.scale), split_of(in_, scored.inputs[1], turned, h.scale),
                split_of(in_, weighted, false, one)};
    for (const int split : h.splits)
      if (split < 0) return false;
    const Shape &q = split_shape(in_, h.splits[0]), &k = split_shape(in_, h.splits[1]),
                &v = split_shape(in_, h.splits[2]);
    const int rank = q.rank();
    if (k != v || one != 1 || k[rank - 1] != q[rank - 1] || !std::isfinite(h.scale) || h.scale == 0) return false;
    for (int i = 0; i < rank; ++i)
      if (i != rank - 3 && k[i] != q[i]) return false;
    h.q = in_.node(h.splits[0]).inputs[0];
    return true;
  }
  /// The scores in scores + bias, which `mask` is added to.
  const Node* biased_scores(ValueId id, ValueId mask, Heads& h) const {
    const Node* sum = in_.is_f32(mask) ? in_.binary(id, Binary::kAdd) : nullptr;
    for (size_t i = 0; sum && i < 2; ++i) {
      const ValueId bias = sum->inputs[1 - i];
      if (!in_.is_f32(bias) || !in_.has_one_use(sum->inputs[i]) || !fits(bias, sum->inputs[i]) ||
          !broadcast_shapes(in_.type(bias).shape, in_.type(mask).shape).ok())
        continue;
      const Node* scored = scaled_scores(sum->inputs[i], h);
      if (!scored) continue;
      h.bias = bias;
      return scored;
    }
    return nullptr;
  }
  /// The scores [B, H, S, T] that a constant mask [W, 1, S, T] is added to by way of [B / W, W, H, S, T]: W windows of
  /// one picture have masks of their own, as in Swin transformers.
  const Node* windowed_scores(ValueId id, Heads& h) {
    const Node* join = in_.type(id).shape.rank() == 4 ? in_.producer(id, Op::kReshape) : nullptr;
    const Node* sum = join && in_.has_one_use(join->inputs[0]) ? in_.binary(join->inputs[0], Binary::kAdd) : nullptr;
    for (size_t i = 0; sum && i < 2; ++i) {
      const Tensor* mask = in_.constant(sum->inputs[1 - i]);
      const Node* parts = in_.producer(sum->inputs[i], Op::kReshape);
      if (!mask || !in_.is_f32(sum->inputs[1 - i]) || !parts || !in_.has_one_use(sum->inputs[i])) continue;
      const Shape &s = in_.type(id).shape, &wide = in_.type(sum->inputs[i]).shape;
      const Shape& m = mask->shape();
      if (!s.is_static() || in_.type(parts->inputs[0]).shape != s || m.rank() != 5 || m[0] != 1 || m[1] < 1 ||
          m != Shape{1, m[1], 1, s[2], s[3]} || wide != Shape{s[0] / m[1], m[1], s[1], s[2], s[3]})
        continue;
      const ValueId repeated = repeated_batch(mask->reshaped({m[1], 1, s[2], s[3]}), s[0] / m[1]);
      const Node* scored = scaled_scores(parts->inputs[0], h);
      if (!scored) scored = biased_scores(parts->inputs[0], repeated, h);
      h.adding = in_.index_of_producer(join->inputs[0]);
      h.mask = repeated;
      return scored;
    }
    return nullptr;
  }
  /// A constant: `count` copies of `t` of float32 along the first dimension.
  ValueId repeated_batch(Tensor t, int64_t count) {
    const int64_t batch = t.shape()[0];
    if (count > 1) {
      Shape shape = t.shape();
      shape[0] = batch * count;
      Tensor all(DType::kF32, shape);
      for (int64_t k = 0; k < count; ++k) std::memcpy(all.data<float>() + k * t.elements(), t.data<float>(), t.bytes());
      t = std::move(all);
    }
    return add_constant(in_, std::move(t));
  }
  /// Makes the sum of bias and mask the mask: in place of `adding`, or that of heads before.
  void join_masks(Heads& h) {
    const auto made =
        std::ranges::find_if(sums_, [&](const MaskSum& x) { return x.bias == h.bias && x.mask == h.mask; });
    if (made != sums_.end()) {
      h.mask = made->sum;
      return;
    }
    const auto index = static_cast<size_t>(h.adding);
    const auto shape = broadcast_shapes(in_.type(h.bias).shape, in_.type(h.mask).shape);
    const ValueId sum = in_.add_value(ValueType::tensor(DType::kF32, *shape));
    Node n = graph_.nodes[index];
    n.inputs = {h.bias, h.mask};
    n.outputs = {sum};
    in_.replace(index, std::move(n));
    sums_.push_back({h.bias, h.mask, sum});
    h.mask = sum;
  }
  /// The scores in where(hidden, lowest, scores) or where(seen, scores, lowest). `lowest` is a number beside which any
  /// score is nothing, so that it may be added to the scores as well.
  const Node* hidden_scores(ValueId id, Heads& h) const {
    constexpr double kNothingBeside = -1e9;
    const Node* n = in_.producer(id, Op::kWhere);
    for (size_t i = 1; n && i < 3; ++i) {
      const auto lowest = in_.scalar(n->inputs[i], n->inputs[3 - i]);
      if (!lowest || *lowest > kNothingBeside || in_.type(n->inputs[0]).dtype != DType::kBool ||
          !in_.has_one_use(n->inputs[3 - i]) || !fits(n->inputs[0], n->inputs[3 - i]))
        continue;
      h.hiding = in_.index_of_producer(id);
      return scaled_scores(n->inputs[3 - i], h);
    }
    return nullptr;
  }
  /// Makes a Where over scores one over zeros: a mask.
  void make_mask(Heads& h) {
    const auto index = static_cast<size_t>(h.hiding);
    Node n = graph_.nodes[index];
    const size_t scores = in_.scalar(n.inputs[1], n.inputs[2]) ? 2 : 1;
    n.inputs[scores] = add_constant(in_, Tensor(DType::kF32, Shape{}));
    const ValueId lowest = n.inputs[3 - scores];
    if (in_.type(lowest).shape.rank() > 0) {
      Tensor number(DType::kF32, Shape{});
      set_double(number, 0, get_double(*in_.constant(lowest), 0));
      n.inputs[3 - scores] = add_constant(in_, std::move(number));
    }
    h.mask = in_.add_value(ValueType::tensor(DType::kF32, in_.type(n.inputs[0]).shape));
    n.outputs = {h.mask};
    in_.replace(index, std::move(n));
  }
  /// From keys [B, H, D, T] to what they were made of.
  bool turn_keys(Heads& h) const {
    if (const Node* n = transpose(h.k, kTurn)) {
      h.k = in_.without_scale(n->inputs[0], h.scale);
      return true;
    }
    if (transpose(h.k, {0, 2, 3, 1}) && in_.has_one_use(h.k)) {
      h.k_transpose = in_.index_of_producer(h.k);
      h.k_turned = in_.without_scale(in_.node(h.k_transpose).inputs[0], h.scale);
      return true;
    }
    if (is_channels(in_, h.k) && in_.only_read_by(h.read_k, h.k)) {
      h.k_channels = in_.index_of_producer(h.k);
      return true;
    }
    // torch's decomposition: [B, H, T, D] -> [B * H, T, D] -> [B * H, D, T] -> [B, H, D, T].
    const Node* outer = in_.producer(h.k, Op::kReshape);
    const Node* turned = outer ? transpose(outer->inputs[0], {0, 2, 1}) : nullptr;
    if (!turned || !in_.is_f32(turned->inputs[0])) return false;
    const Shape& to = in_.type(h.k).shape;
    if (to.rank() != 4 || !to.is_static() || in_.type(turned->inputs[0]).shape != Shape{to[0] * to[1], to[3], to[2]})
      return false;
    const Node* inner = in_.producer(turned->inputs[0], Op::kReshape);
    if (inner && in_.is_f32(inner->inputs[0]) && in_.type(inner->inputs[0]).shape == turned_keys(to)) {
      h.k = in_.without_scale(inner->inputs[0], h.scale);
      return true;
    }
    if (!in_.only_read_by(h.read_k, h.k)) return false;
    h.k_split = in_.index_of_producer(h.k);
    h.k = turned->inputs[0];
    return true;
  }
  /// [B, H, D, T] as [B, H, T, D].
  static Shape turned_keys(const Shape& s) { return {s[0], s[1], s[3], s[2]}; }
  Shape key_shape(const Heads& h) const {
    const int turned = std::max(h.k_split, h.k_channels);
    return turned < 0 ? in_.type(h.k).shape : turned_keys(in_.type(in_.node(turned).outputs[0]).shape);
  }
  /// True if the batch is not broadcast, and heads of queries share those of keys and values evenly.
  bool same_heads(const Heads& h) {
    const auto shape = [&](ValueId id) -> const Shape& { return in_.type(id).shape; };
    const Shape k = key_shape(h);
    if (!in_.is_f32(h.q) || !in_.is_f32(h.k) || !in_.is_f32(h.v) || shape(h.q).rank() != 4 || k.rank() != 4 ||
        shape(h.v).rank() != 4)
      return false;
    const Shape &q = shape(h.q), &v = shape(h.v);
    const int64_t k_heads = h.k_transpose < 0 ? k[1] : shape(h.k_turned)[2];
    if (q[1] < 0 || k_heads < 1 || q[1] % k_heads != 0 || k_heads != v[1] || q[3] < 0) return false;
    if (q[0] >= 0 && q[0] == k[0] && q[0] == v[0]) return true;
    const Extent batch = flow().dims(h.q)[0];
    const ValueId keys = h.k_transpose < 0 ? h.k : h.k_turned;
    return batch == flow().dims(keys)[0] && batch == flow().dims(h.v)[0];
  }
  const ExtentFlow& flow() {
    if (!flow_) {
      flow_.emplace(graph_, false);
      flow_->trust_names();  // an Attention checks that batches are the same
      for (const Node& n : graph_.nodes) flow_->add(n);
    }
    return *flow_;
  }
  /// x [B, S, H*D] of a value that is x as [B, S, H, D], transposed to [B, H, S, D]; kNoValue if it is none.
  /// read: what a product reads of it.
  ValueId flat(ValueId id, ValueId read) {
    if (in_.only_read_by(read, id)) {
      if (const ValueId one = flat_of_one(in_, id); one != kNoValue) return one;
      if (const Node* turn = transpose(id, kTurn); turn && is_channels(in_, turn->inputs[0]))
        return rows_of_channels(in_, static_cast<size_t>(in_.index_of_producer(id)), turn->inputs[0]);
    }
    const Node* swap = transpose(id, kSwapHeads);
    const Node* split = swap ? in_.producer(swap->inputs[0], Op::kReshape) : nullptr;
    if (!swap) return kNoValue;
    if (!split || !in_.is_f32(split->inputs[0])) return flat_of_heads(in_, id, read);
    const Shape &x = in_.type(split->inputs[0]).shape, &y = in_.type(split->outputs[0]).shape;
    if (x.rank() != 3 || y.rank() != 4 || y[2] < 0 || y[3] < 0 || x[2] != y[2] * y[3])
      return flat_of_heads(in_, id, read);
    const Tensor* target = in_.constant(split->inputs[1]);
    const bool copies = target && target->elements() == 4 && (get_int(*target, 0) == 0 || get_int(*target, 1) == 0) &&
                        !static_cast<const ReshapeAttrs&>(*split->attrs).allow_zero;
    return copies || (x[0] > 0 && x[0] == y[0]) || (x[1] > 0 && x[1] == y[1]) ? split->inputs[0] : kNoValue;
  }
  /// True for a value [B, H, S, D] as [B, S, H, D] or [B, H, D, S], or of a batch of one as [S, 1, H, D];
  /// [B0, B1, H, S, D] as [B0, B1, S, H, D], or [H, S, D] as [S, H, D].
  bool swaps_heads(ValueId id) const {
    const int rank = in_.type(id).shape.rank();
    if (rank != 4) return transpose(id, {1, 0, 2}) || transpose(id, {0, 1, 3, 2, 4});
    return transpose(id, kSwapHeads) || transpose(id, kTurn) ||
           (in_.type(id).shape[1] == 1 && transpose(id, {2, 0, 1, 3}));
  }
  /// True if a Reshape joins the heads of `swapped`, a value of swaps_heads().
  bool joins_heads(const Node& n, ValueId swapped) const {
    if (n.op != Op::kReshape) return false;
    if (transpose(swapped, kSwapHeads)) return true;
    const Shape &s = in_.type(swapped).shape, &y = in_.type(n.outputs[0]).shape;
    return y.is_static() && (!transpose(swapped, kTurn) || y == Shape{s[0], s[1] * s[2], s[3]});
  }
  /// Index of the Reshape that joins the heads of a result [B, H, S, D] after their transpose; -1: there is none.
  int joining_reshape(ValueId result) const {
    if (!in_.has_one_use(result)) return -1;
    ValueId swapped = kNoValue;
    for (size_t k = static_cast<size_t>(in_.index_of_producer(result)) + 1; k < graph_.nodes.size(); ++k) {
      const Node& n = graph_.nodes[k];
      if (n.inputs.empty()) continue;
      if (n.inputs[0] == result && swaps_heads(n.outputs[0]) && in_.has_one_use(n.outputs[0]))
        swapped = n.outputs[0];
      else if (swapped != kNoValue && n.inputs[0] == swapped)
        return joins_heads(n, swapped) ? static_cast<int>(k) : -1;
    }
    return -1;
  }
  /// Makes the transpose of keys give [B, H, T, D].
  void swap_key_heads(Heads& h) {
    const auto index = static_cast<size_t>(h.k_transpose);
    Node n = graph_.nodes[index];
    n.inputs[0] = h.k_turned;
    const Shape s = in_.type(h.k_turned).shape;
    n.attrs = make_attrs<TransposeAttrs>(kSwapHeads);
    n.inputs.resize(1);
    h.k = in_.add_value(ValueType::tensor(DType::kF32, Shape{s[0], s[2], s[1], s[3]}));
    n.outputs = {h.k};
    in_.replace(index, std::move(n));
  }
  void fuse(size_t index) {
    Heads h;
    const ValueId result = graph_.nodes[index].outputs[0];
    const Node* weighted = product(result);
    if (!weighted || !in_.is_f32(result) || !match(*weighted, h)) return;
    const Shape y = in_.type(result).shape;
    const int join = y.rank() < 3 || y.back() < 0 ? -1 : joining_reshape(result);
    if (!h.splits.empty() && join < 0) return;
    if (h.k_transpose >= 0) swap_key_heads(h);
    if (h.k_split >= 0) h.k = h.read_k = reshape_by(in_, static_cast<size_t>(h.k_split), h.k, key_shape(h));
    if (h.hiding >= 0) make_mask(h);
    if (h.bias != kNoValue) join_masks(h);
    AttentionAttrs a;
    a.scale = h.scale;
    a.softcap = h.softcap;
    Node n = graph_.nodes[index];
    n.op = Op::kAttention;
    n.origin = "MatMul+Softmax+MatMul";
    n.inputs = h.splits.empty() ? operands(h, index, join, a) : flat_operands(h, a);
    n.attrs = make_attrs<AttentionAttrs>(a);
    if (h.mask != kNoValue) n.inputs.push_back(h.mask);
    if (in_.type(n.inputs[0]).shape.rank() == 3) join_result(n, static_cast<size_t>(join), y);
    in_.replace(index, std::move(n));
  }
  /// q, k and v for the Attention at an index. q is [B, S, H * D] only if the Reshape `join` joins the heads.
  std::vector<ValueId> operands(const Heads& h, size_t index, int join, AttentionAttrs& a) {
    a.num_heads = in_.type(h.q).shape[1];
    a.kv_heads = in_.type(h.v).shape[1];
    const ValueId q = join < 0 ? kNoValue : flat(h.q, h.read_q);
    const ValueId k =
        h.k_channels >= 0 ? rows_of_channels(in_, static_cast<size_t>(h.k_channels), h.k) : flat(h.k, h.read_k);
    const ValueId v = flat(h.v, graph_.nodes[index].inputs[1]);
    return {q != kNoValue ? q : h.q, k != kNoValue ? k : h.k, v != kNoValue ? v : h.v};
  }
  /// The same from the Reshapes of Heads::splits.
  std::vector<ValueId> flat_operands(const Heads& h, AttentionAttrs& a) {
    const Shape s = split_shape(in_, h.splits[0]);
    a.num_heads = a.kv_heads = s[s.rank() - 2];
    std::vector<ValueId> out;
    for (const int split : h.splits) out.push_back(flatten_split(in_, split));
    return out;
  }
  /// Makes an Attention give [B, S, H * D], which the node at `join` reads; y: what its product gave.
  void join_result(Node& n, size_t join, const Shape& y) {
    const int rank = y.rank();
    const Shape q = in_.type(n.inputs[0]).shape;
    const int64_t heads = static_cast<const AttentionAttrs&>(*n.attrs).num_heads;
    n.outputs = {
        in_.add_value(ValueType::tensor(DType::kF32, Shape{rank == 4 ? y[0] : q[0], y[rank - 2], heads * y.back()}))};
    Node reshape = graph_.nodes[join];
    if (transpose(reshape.inputs[0], kTurn)) {
      reshape = remade(reshape, Op::kTranspose, make_attrs<TransposeAttrs>(kTurnRows), {n.outputs[0]}, "Transpose");
    } else {
      reshape.inputs[0] = n.outputs[0];
      if (const Shape& s = in_.type(reshape.outputs[0]).shape; s.is_static()) reshape.inputs[1] = dims_of(in_, s);
    }
    in_.replace(join, std::move(reshape));
  }

  Pattern in_;
  Graph& graph_;
  std::vector<MaskSum> sums_;       ///< of join_masks()
  std::optional<ExtentFlow> flow_;  ///< of the graph before fusion, once it is asked for
};

}  // namespace

void fuse_attention(Graph& graph) {
  if (!has_guarded_softmax(graph)) return AttentionFuser(graph).run();
  std::vector<ValueId> guarded;  // results of softmaxes that no Attention takes with their guards
  for (;;) {
    Graph fused = graph;
    const std::vector<GuardedSoftmax> dropped = drop_softmax_guards(fused, guarded);
    remove_dead_nodes(fused);
    AttentionFuser(fused).run();
    const std::vector<int> uses = count_uses(fused);
    const size_t before = guarded.size();
    for (const auto& [result, zeros] : dropped) {
      if (uses[static_cast<size_t>(result)] > 0) guarded.push_back(result);
      if (uses[static_cast<size_t>(zeros)] == 0) fused.value(zeros).constant = nullptr;
    }
    if (guarded.size() > before) continue;
    graph = std::move(fused);
    return;
  }
}

}  // namespace smelt
