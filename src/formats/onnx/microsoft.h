#pragma once

#include "formats/onnx/lower.h"
#include "formats/onnx/quant_helpers.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::onnx {

// What the forms of attention share.
/// Dimension `axis` of x as a scalar int64.
ValueId dimension(NodeContext& n, ValueId x, int64_t axis);
/// 0, 1, ... up to a scalar int64, which is left out.
ValueId range(NodeContext& n, ValueId end);
/// The mask input of BERT attention as an additive mask that broadcasts to [batch, heads, rows, keys].
/// Forms: [B] valid keys; [2B] ends then starts; [3B + 2], of which the first B count; [B, T] and [B, S, T] of 0 and 1;
/// [B, 1, M, M].
ValueId additive_mask(NodeContext& n, ValueId mask, ValueId x, ValueId keys, double filter, DType dtype);
/// The sum of two masks, either of which may be kNoValue.
ValueId joined(NodeContext& n, ValueId a, ValueId b);
/// [B, S, H * D] as [B, H, S, D], and back.
ValueId split_heads(NodeContext& n, ValueId x, int64_t heads);
ValueId merge_heads(NodeContext& n, ValueId x);

// What packed integer weights share.
/// Weights [n, blocks, bytes]: rows of k codes of 2, 4 or 8 bits, the lowest bits first, in blocks.
struct Blocks {
  int64_t n = 0, k = 0, bits = 0, block = 0, blocks = 0;
};
/// Code i of a row of packed ones.
inline int64_t packed_code(const uint8_t* bytes, int64_t i, int64_t bits) {
  const int64_t per = 8 / bits;
  return bytes[i / per] >> (i % per * bits) & ((1 << bits) - 1);
}
/// The typed form: per-block quantized weights [n, k], a view of b's bytes where rows are not padded.
ValueId typed_weights(NodeContext& n, const Blocks& s, const Tensor& b, const std::vector<float>& scales,
                      const std::vector<double>& zeros);

}  // namespace smelt::onnx
