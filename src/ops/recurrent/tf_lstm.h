#pragma once

#include <array>
#include <cstdint>
#include <vector>

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
/// int8 activations, int16 cell: five intermediates (8x8_16) or twelve (8x8_8).
Status run_integer_16(KernelContext& ctx, const Inputs& in, const Stream& stream);
Status run_integer_8(KernelContext& ctx, const Inputs& in, const Stream& stream);
/// The five-input kernel, float or uint8 with an int16 cell.
Status run_basic(KernelContext& ctx);

}  // namespace smelt::tf_lstm
