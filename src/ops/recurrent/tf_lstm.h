#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/common/fixed_point.h"
#include "ops/core/op.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/tf_cells.h"

// The three arithmetics of TFLite's LSTM operators; tf_lstm.cc chooses.
namespace smelt::tf_lstm {

/// Indices into arrays of one entry a gate.
enum Gate { kInput, kForget, kCell, kOutput };

/// Positions of one direction's operands among the node's inputs; -1 where the operator has none.
struct Inputs {
  std::array<int, 4> w;         ///< input, forget, cell, output gate
  std::array<int, 4> r;         ///< recurrent weights
  std::array<int, 3> peephole;  ///< input, forget, output gate
  std::array<int, 4> bias;
  int projection, projection_bias;
  int output_state, cell_state;
  std::array<int, 4> norm;
  std::array<int, 4> aux_w;
};
const Inputs& single_inputs();
const Inputs& forward_inputs();
const Inputs& backward_inputs();

/// Operands and outputs of one direction.
struct Stream {
  const Tensor* x = nullptr;
  const Tensor* aux = nullptr;  ///< with weights of its own
  bool backward = false;
  Tensor* y = nullptr;
  int64_t stride = 0, offset = 0;   ///< entries of y's rows, and where this direction's begin
  int out_state = 1, out_cell = 2;  ///< outputs that take the new states
};

/// Units of a direction's output.
Result<int64_t> output_units(const KernelContext& ctx, const Inputs& in, bool diagonal);

/// Float activations; weights float, or 8-bit with activations quantized row by row.
Status run_float(KernelContext& ctx, const Inputs& in, const Stream& stream);
// Factors of the 8x8_16 arithmetic, products in float32 as the format's kernel rounds them.

/// Of a product of weights and activations to a gate before its function, whose scale is 2^-12 but for layer
/// normalization.
inline FixedFactor gate_factor(float weights, float activations, float gate = 0x1p-12f) {
  return fixed_factor(weights * activations / gate);
}
/// Of the product of output gate and cell to the hidden value.
inline FixedFactor hidden_factor(float hidden) {
  return fixed_factor(static_cast<float>(0x1p-15 / static_cast<double>(hidden) * 0x1p-15));
}
/// Entries of the cell state that TfLstmAttrs::cell_clip bounds; 0: it bounds none.
int16_t quantized_cell_clip(double cell_clip, float cell_scale);
/// The cell state after a step. `input`: nullptr: what `forget` leaves (coupled gates). bound 0: none.
void update_cell(int16_t* cell, const int16_t* input, const int16_t* forget, const int16_t* update, int64_t n,
                 int32_t cell_log2, int16_t bound);
/// Exponent of a cell state's scale, which has to be a power of two from 2^-15 to 2^-9.
Result<int32_t> cell_exponent(float cell_scale);

/// int8 activations, int16 cell: five intermediates (8x8_16) or twelve (8x8_8).
Status run_integer_16(KernelContext& ctx, const Inputs& in, const Stream& stream);
Status run_integer_8(KernelContext& ctx, const Inputs& in, const Stream& stream);
/// The five-input kernel, float or uint8 with an int16 cell.
Status run_basic(KernelContext& ctx);

}  // namespace smelt::tf_lstm
