// TFLite's LSTM operators: operands, shapes, and the choice of arithmetic.
#include "ops/recurrent/tf_lstm.h"

namespace smelt {
namespace tf_lstm {

const Inputs& single_inputs() {
  static const Inputs in{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11}, {12, 13, 14, 15}, 16,
                         17,           18,           19,          {20, 21, 22, 23}, {-1, -1, -1, -1}};
  return in;
}
const Inputs& forward_inputs() {
  static const Inputs in{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11}, {12, 13, 14, 15}, 16,
                         17,           35,           36,          {-1, -1, -1, -1}, {40, 41, 42, 43}};
  return in;
}
const Inputs& backward_inputs() {
  static const Inputs in{{18, 19, 20, 21}, {22, 23, 24, 25}, {26, 27, 28}, {29, 30, 31, 32}, 33, 34, 37, 38,
                         {-1, -1, -1, -1}, {44, 45, 46, 47}};
  return in;
}

Result<int64_t> output_units(const KernelContext& ctx, const Inputs& in, bool diagonal) {
  const Tensor& r = ctx.input(in.r[3]);
  if (diagonal && r.rank() == 1) return r.dim(0);
  if (r.rank() != 2) return InvalidModel("recurrent weights of shape ", r.shape().str(), ", rank 2 expected");
  return r.dim(1);
}

}  // namespace tf_lstm

namespace {

int64_t units_of(const InferContext& ctx, int recurrent, bool diagonal) {
  if (!ctx.has(recurrent) || !ctx.input(recurrent).ranked) return -1;
  const Shape& s = ctx.input(recurrent).shape;
  if (s.rank() == 2) return s[1];
  return diagonal && s.rank() == 1 ? s[0] : -1;
}

Status need_inputs(const InferContext& ctx, int count) {
  if (ctx.inputs() < count) return InvalidModel(ctx.inputs(), " inputs, ", count, " expected");
  return Ok();
}

/// One direction in the arithmetic that its operands ask for.
Status run_direction(KernelContext& ctx, const tf_lstm::Inputs& in, const tf_lstm::Stream& stream) {
  const auto& a = ctx.attrs<TfLstmAttrs>();
  const DType x = stream.x->dtype();
  if (x == DType::kF32) return tf_lstm::run_float(ctx, in, stream);
  if (x != DType::kI8) return Unsupported("activations of ", to_string(x));
  if (a.intermediates.size() == 5) return tf_lstm::run_integer_16(ctx, in, stream);
  if (a.intermediates.size() == 12) return tf_lstm::run_integer_8(ctx, in, stream);
  return InvalidModel(a.intermediates.size(), " intermediate tensors, the integer kernels take 5 or 12");
}

Status run_bidirectional(KernelContext& ctx, const TfLstmAttrs& a) {
  const Tensor& x = ctx.input(0);
  tf_lstm::Stream fw, bw;
  fw.x = bw.x = &x;
  if (ctx.has(39)) {
    // Without weights of its own the auxiliary input is what the backward direction reads.
    if (ctx.has(41))
      fw.aux = bw.aux = &ctx.input(39);
    else
      bw.x = &ctx.input(39);
  }
  SMELT_ASSIGN(const int64_t nf, tf_lstm::output_units(ctx, tf_lstm::forward_inputs(), false));
  SMELT_ASSIGN(const int64_t nb, tf_lstm::output_units(ctx, tf_lstm::backward_inputs(), false));
  fw.y = &ctx.output(0);
  fw.stride = a.merge_outputs ? nf + nb : nf;
  fw.out_state = 2;
  fw.out_cell = 3;
  SMELT_TRY(run_direction(ctx, tf_lstm::forward_inputs(), fw));
  bw.backward = true;
  bw.out_state = 4;
  bw.out_cell = 5;
  bw.y = a.merge_outputs ? &ctx.output(0) : ctx.wants(1) ? &ctx.output(1) : nullptr;
  bw.stride = a.merge_outputs ? nf + nb : nb;
  bw.offset = a.merge_outputs ? nf : 0;
  return run_direction(ctx, tf_lstm::backward_inputs(), bw);
}

}  // namespace

Status infer_TfLstm(InferContext& ctx) {
  const auto& a = ctx.attrs<TfLstmAttrs>();
  const ValueType& x = ctx.input(0);
  if (a.basic) {
    SMELT_TRY(need_inputs(ctx, 5));
    for (const auto& [output, input] : {std::pair{0, 1}, std::pair{1, 4}}) {
      ValueType t = ctx.input(input);
      t.quant = nullptr;
      ctx.set(output, std::move(t));
    }
    // What the format calls temporaries: the joined input, and the gates before their activations.
    const ValueType &h = ctx.input(1), &state = ctx.input(4);
    const auto width = [](const ValueType& t) { return t.ranked && t.shape.rank() == 2 ? t.shape[1] : -1; };
    ctx.set(2, tf_cells::like_input(x, width(x) < 0 || width(h) < 0 ? -1 : width(x) + width(h)));
    ValueType gates = tf_cells::like_input(x, width(h) < 0 ? -1 : 4 * width(h));
    gates.dtype = state.dtype;
    ctx.set(3, std::move(gates));
    return Ok();
  }
  if (!a.bidirectional) {
    SMELT_TRY(need_inputs(ctx, 20));
    ctx.set(0, tf_cells::like_input(x, units_of(ctx, 8, a.diagonal_recurrent)));
    if (ctx.has(18)) ctx.set(1, ctx.input(18));
    if (ctx.has(19)) ctx.set(2, ctx.input(19));
    return Ok();
  }
  SMELT_TRY(need_inputs(ctx, 48));
  const int64_t fw = units_of(ctx, 8, false), bw = units_of(ctx, 25, false);
  ctx.set(0, tf_cells::like_input(x, a.merge_outputs ? (fw < 0 || bw < 0 ? -1 : fw + bw) : fw));
  if (ctx.wants(1)) ctx.set(1, tf_cells::like_input(x, bw));
  for (int i = 0; i < 4; ++i)
    if (ctx.has(35 + i)) ctx.set(2 + i, ctx.input(35 + i));
  return Ok();
}

Status reference_TfLstm(KernelContext& ctx) {
  const auto& a = ctx.attrs<TfLstmAttrs>();
  if (a.basic) return tf_lstm::run_basic(ctx);
  if (a.bidirectional) return run_bidirectional(ctx, a);
  tf_lstm::Stream stream;
  stream.x = &ctx.input(0);
  stream.y = &ctx.output(0);
  SMELT_ASSIGN(stream.stride, tf_lstm::output_units(ctx, tf_lstm::single_inputs(), a.diagonal_recurrent));
  return run_direction(ctx, tf_lstm::single_inputs(), stream);
}

}  // namespace smelt
