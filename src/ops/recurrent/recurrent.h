#pragma once

#include "graph/graph.h"
#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

/// ONNX RNN, GRU and LSTM. Gate orders are ONNX's: GRU z r h, LSTM i o f c.
struct RecurrentAttrs : Attrs {
  enum class Cell : uint8_t { kRnn, kGru, kLstm } cell = Cell::kLstm;
  friend SMELT_ENUM_NAMES(Cell, "rnn", "gru", "lstm");
  int64_t hidden = 0;
  bool forward = true, backward = false;  ///< both: bidirectional
  bool batch_first = false;               ///< layout = 1
  bool linear_before_reset = false;       ///< GRU
  bool input_forget = false;              ///< LSTM: f = 1 - i
  double clip = 0;                        ///< 0: none
  std::vector<std::string> activations;   ///< ONNX names; empty: the defaults
  std::vector<double> alpha, beta;        ///< of the activations, aligned with `activations`; NaN: the default
  /// LSTM: products see x, and each step's states of the whole batch, through dynamic 8-bit quantization.
  bool dynamic_quantization = false;
  SMELT_FIELDS(cell, hidden, forward, backward, batch_first, linear_before_reset, input_forget, clip, activations,
               alpha, beta, dynamic_quantization)
};

/// TFLite's LSTM family: optional input gate (CIFG), peephole, projection, layer normalization; float, hybrid,
/// int8x8_16.
struct TfLstmAttrs : Attrs {
  bool basic = false;     ///< the 5-input, 4-output "basic" kernel
  bool sequence = false;  ///< x [batch, time, in] or [time, batch, in]; else one step [batch, in]
  bool time_major = false;
  bool bidirectional = false, merge_outputs = false;
  bool asymmetric_inputs = false;
  double cell_clip = 0, proj_clip = 0;
  Activation act;                        ///< of the cell
  bool diagonal_recurrent = false;       ///< recurrent weights are vectors: element-wise products
  std::vector<ValueType> intermediates;  ///< quantization of the integer kernel's inner tensors
  SMELT_FIELDS(basic, sequence, time_major, bidirectional, merge_outputs, asymmetric_inputs, diagonal_recurrent,
               cell_clip, proj_clip, act)
};

/// TFLite RNN, UNIDIRECTIONAL_SEQUENCE_RNN, BIDIRECTIONAL_SEQUENCE_RNN.
struct TfRnnAttrs : Attrs {
  bool sequence = false, time_major = false, bidirectional = false, merge_outputs = false, asymmetric_inputs = false;
  Activation act;
  SMELT_FIELDS(sequence, time_major, bidirectional, merge_outputs, asymmetric_inputs, act)
};

struct TfSvdfAttrs : Attrs {
  int64_t rank = 1;
  bool asymmetric_inputs = false;
  Activation act;
  std::vector<ValueType> intermediates;
  SMELT_FIELDS(rank, asymmetric_inputs, act)
};

}  // namespace smelt
