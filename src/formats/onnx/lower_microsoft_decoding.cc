// com.microsoft: attention of one token against a cache, block-sparse attention, rotary embedding of images and videos.
#include "formats/onnx/microsoft.h"
#include "formats/onnx/ops.h"
#include "ops/attention/attention.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"

namespace smelt::onnx {
namespace {

ValueId gather(NodeContext& n, ValueId x, ValueId positions, int64_t axis) {
  GatherAttrs a;
  a.axis = axis;
  return n.add(Op::kGather, a, {x, positions});
}

/// Entries [begin, end) of x [B, H, T, D] along T; scalars of int64.
ValueId rows(NodeContext& n, ValueId x, ValueId begin, ValueId end) {
  return n.add(Op::kSlice, {x, n.unsqueeze(begin, {0}), n.unsqueeze(end, {0}), n.i64({2})});
}

/// One token: keys and values of the tokens before it lie in the past, or in key and value themselves (cross
/// attention). With a shared buffer the past may hold more than its first past_sequence_length rows.
void lower_decoder_masked_attention(NodeContext& n) {
  const int64_t heads = n.i("num_heads", 0);
  if (heads < 1) return n.fail("num_heads is ", heads);
  if (n.has(9)) return n.unsupported("cache_indirection (beam search)");
  n.ignore(8);
  AttentionAttrs a;
  a.scale = n.f("scale", 0);
  const bool shared = n.flag("past_present_share_buffer");
  ValueId q = n.in(0), k = n.opt(1), v = n.opt(2);
  const ValueId past_k = n.opt(5), past_v = n.opt(6), length = n.opt(7);
  SplitAttrs three;
  three.axis = 2;
  three.count = 3;
  if (k == kNoValue) {
    const auto parts = n.add_n(Op::kSplit, three, {q}, 3);
    q = parts[0], k = parts[1], v = parts[2];
  }
  if (v == kNoValue) return n.fail("the value is missing");
  const bool cross = n.rank_or_fail(k) == 4;
  if (n.has(10)) {
    three.axis = 0;
    const auto bias = n.add_n(Op::kSplit, three, {n.in(10)}, 3);
    q = n.binary(Binary::kAdd, q, bias[0]);
    if (!cross) k = n.binary(Binary::kAdd, k, bias[1]), v = n.binary(Binary::kAdd, v, bias[2]);
  }
  std::vector<ValueId> args{split_heads(n, q, heads), cross ? k : split_heads(n, k, heads),
                            cross ? v : split_heads(n, v, heads), kNoValue};
  ValueId keys = dimension(n, args[1], 2);
  if (!cross) {
    if (past_k == kNoValue || past_v == kNoValue) return n.fail("past_key or past_value is missing");
    if (shared && length == kNoValue) return n.fail("past_sequence_length is missing");
    const ValueId zero = n.scalar(DType::kI64, 0);
    const ValueId used = shared ? n.reshape(n.cast(length, DType::kI64), {}) : dimension(n, past_k, 2);
    args.push_back(shared ? rows(n, past_k, zero, used) : past_k);
    args.push_back(shared ? rows(n, past_v, zero, used) : past_v);
    keys = n.binary(Binary::kAdd, keys, used);
  }
  const DType dtype = n.dtype(q) == DType::kInvalid ? DType::kF32 : n.dtype(q);
  if (n.has(3)) args[3] = additive_mask(n, n.in(3), q, keys, n.f("mask_filter_value", -10000), dtype);
  args[3] = joined(n, args[3], n.opt(4));
  while (args.back() == kNoValue) args.pop_back();
  const bool scores = n.flag("output_qk") && n.wants(3);
  if (scores) a.qk_output = 2;
  const bool present = !cross && (n.wants(1) || n.wants(2));
  const auto out = n.add_n(Op::kAttention, a, args, scores ? 4 : present ? 3 : 1);
  n.bind(0, merge_heads(n, out[0]));
  if (scores) n.bind(3, out[3]);
  for (size_t i = 1; i < 3 && present; ++i) {
    const ValueId buffer = i == 1 ? past_k : past_v;
    n.bind(static_cast<int>(i),
           shared ? n.concat({out[i], rows(n, buffer, keys, n.builder().i64_scalar(INT64_MAX))}, 2) : out[i]);
  }
}

/// Block masks in rows of compressed columns as bool [layouts, blocks, blocks]; kNoValue after an error.
ValueId block_mask(NodeContext& n, int row_input, int column_input) {
  const auto ends = n.const_ints(row_input), columns = n.const_ints(column_input);
  const ValueType rt = n.type(n.in(row_input)), ct = n.type(n.in(column_input));
  if (!ends || !columns || rt.shape.rank() != 2 || ct.shape.rank() != 2 || rt.shape[0] != ct.shape[0] ||
      rt.shape[1] < 2 || rt.shape[1] > 4097) {
    n.unsupported("a block mask that is not constant: [layouts, blocks + 1] row ends, [layouts, entries] columns");
    return kNoValue;
  }
  const int64_t layouts = rt.shape[0], blocks = rt.shape[1] - 1, width = ct.shape[1];
  auto mask = Tensor::allocate(DType::kBool, Shape{layouts, blocks, blocks});
  if (!mask.ok()) {
    n.fail(mask.error());
    return kNoValue;
  }
  for (int64_t l = 0; l < layouts; ++l)
    for (int64_t r = 0; r < blocks; ++r) {
      const int64_t begin = (*ends)[static_cast<size_t>(l * (blocks + 1) + r)];
      const int64_t end = (*ends)[static_cast<size_t>(l * (blocks + 1) + r + 1)];
      if (begin < 0 || end < begin || end > width) {
        n.fail("row ", r, " of the block mask has entries ", begin, " to ", end, " of ", width);
        return kNoValue;
      }
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = (*columns)[static_cast<size_t>(l * width + i)];
        if (c < 0 || c >= blocks) {
          n.fail("column ", c, " of the block mask is not in [0, ", blocks, ")");
          return kNoValue;
        }
        mask->data<uint8_t>()[(l * blocks + r) * blocks + c] = 1;
      }
    }
  return n.constant(std::move(*mask));
}

/// Grouped-query attention with a cache, whose mask allows blocks of keys to blocks of queries.
void lower_sparse_attention(NodeContext& n) {
  GroupQueryAttrs a;
  a.num_heads = n.i("num_heads", 0);
  a.kv_heads = n.i("kv_num_heads", 0);
  const int64_t block = n.i("sparse_block_size", 0);
  if (a.num_heads < 1 || a.kv_heads < 1 || block < 1)
    return n.fail("num_heads ", a.num_heads, ", kv_num_heads ", a.kv_heads, ", sparse_block_size ", block);
  a.scale = n.f("scale", 0);
  a.rotary = n.flag("do_rotary");
  a.interleaved = n.flag("rotary_interleaved");
  const ValueId q = n.in(0), masks = block_mask(n, 5, 6);
  if (!n.ok()) return;
  const int64_t layouts = n.type(masks).shape[0];
  const ValueId total = n.reshape(n.cast(n.in(7), DType::kI64), {}), lengths = n.cast(n.in(8), DType::kI64);
  const ValueId count = dimension(n, q, 1);
  // Positions [B, S] of the queries: from 0 in a prompt, at the end of the keys else.
  const ValueId prompt = n.binary(Binary::kEqual, total, count);
  const ValueId first = n.where(prompt, n.scalar(DType::kI64, 0), n.binary(Binary::kSub, lengths, count));
  const ValueId positions = n.binary(Binary::kAdd, n.unsqueeze(first, {1}), n.unsqueeze(range(n, count), {0}));
  const auto block_of = [&](ValueId p) { return n.binary(Binary::kFloorDiv, p, n.scalar(DType::kI64, block)); };
  std::vector<int64_t> layout_of_head;
  for (int64_t h = 0; h < a.num_heads; ++h) layout_of_head.push_back(h % layouts);
  // [heads, B, S, T], then [B, heads, S, T].
  const ValueId by_head = gather(n, masks, n.i64(layout_of_head), 0);
  const ValueId seen = gather(n, gather(n, by_head, block_of(positions), 1), block_of(range(n, total)), 3);
  const DType dtype = n.dtype(q) == DType::kInvalid ? DType::kF32 : n.dtype(q);
  const ValueId bias = n.where(n.transpose(seen, {1, 0, 2, 3}), n.scalar(dtype, 0), n.scalar(dtype, -30000));
  const ValueId last = n.cast(n.binary(Binary::kSub, lengths, n.scalar(DType::kI64, 1)), DType::kI32);
  n.emit(
      Op::kGroupQueryAttention, a,
      {q, n.opt(1), n.opt(2), n.in(3), n.in(4), last, n.cast(total, DType::kI32), n.opt(9), n.opt(10), kNoValue, bias});
}

/// Positions in time, height and width, each for its share of the rotary dimensions.
void lower_multi_rotary(NodeContext& n) {
  RotaryAttrs a;
  a.interleaved = n.flag("interleaved");
  a.rotary_dim = n.i("rotary_embedding_dim", 0);
  a.num_heads = n.i("num_heads", 0);
  a.scale = n.f("scale", 1);
  if (n.flag("is_packed_batching")) return n.unsupported("packed batches");
  const auto sections = n.ints("mrope_section");
  if (sections.size() != 3) return n.fail("mrope_section has ", sections.size(), " entries, 3 expected");
  int64_t half = 0;
  for (const int64_t s : sections) {
    if (s < 0 || s > 65536) return n.fail("mrope_section has an entry ", s);
    half += s;
  }
  if (half == 0) return n.fail("mrope_section is empty");
  // Which of the three positions each of the cosines comes from.
  std::vector<int64_t> stream(static_cast<size_t>(half), 0);
  if (n.i("mrope_layout", 0) == 1) {
    for (size_t axis = 1; axis < 3; ++axis)
      for (auto c = static_cast<int64_t>(axis); c < std::min(3 * sections[axis], half); c += 3)
        stream[static_cast<size_t>(c)] = static_cast<int64_t>(axis);
  } else {
    for (int64_t c = sections[0]; c < half; ++c) stream[static_cast<size_t>(c)] = c < sections[0] + sections[1] ? 1 : 2;
  }
  const auto from = [&](int64_t axis) {
    Tensor mask(DType::kBool, Shape{half});
    for (int64_t c = 0; c < half; ++c) mask.data<uint8_t>()[c] = stream[static_cast<size_t>(c)] == axis;
    return n.constant(std::move(mask));
  };
  const ValueId x = n.in(0), height = from(1), width = from(2);
  const auto ids = n.add_n(Op::kUnstack, AxisAttrs(0), {n.in(1)}, 3);
  const auto mixed = [&](ValueId table) {
    const ValueId t = gather(n, table, ids[0], 0), h = gather(n, table, ids[1], 0), w = gather(n, table, ids[2], 0);
    return n.where(height, h, n.where(width, w, t));
  };
  const ValueId cos = mixed(n.in(2)), sin = mixed(n.in(3));
  if (n.rank_or_fail(x) == 4 || a.num_heads > 0) return n.emit(Op::kRotary, a, {x, cos, sin});
  a.batch_seq_heads = true;
  n.bind(0, n.reshape(n.add(Op::kRotary, a, {n.reshape(x, {0, 0, -1, 2 * half}), cos, sin}), {0, 0, -1}));
}

constexpr OpEntry kOps[] = {
    {"DecoderMaskedMultiHeadAttention", 1, lower_decoder_masked_attention},
    {"SparseAttention", 1, lower_sparse_attention},
    {"MRotaryEmbedding", 1, lower_multi_rotary},
};

}  // namespace

std::span<const OpEntry> microsoft_decoding_ops() { return kOps; }

}  // namespace smelt::onnx
