#pragma once

#include <vector>

#include "formats/tflite/writer/op_writer.h"
#include "ops/recurrent/gates.h"

namespace smelt::tflite {

/// One direction of an ONNX RNN, GRU or LSTM, a step at a time, on float32 tensors of the writer's subgraph.
class RecurrentCell {
 public:
  /// `gates`: activations of all directions. Weights become constants of the subgraph, or slices of its tensors.
  RecurrentCell(OpWriter& w, const std::vector<RecurrentGate>& gates, int direction);
  /// The products of x [steps, batch, input] with the input's weights: [steps, batch, gates * hidden].
  int projected(int x);
  /// Moves h and c [batch, hidden] on by a row [batch, gates * hidden] of projected().
  void step(int x);
  int64_t gates() const { return count_; }

  int h = -1, c = -1;  ///< c: of an LSTM, else -1

 private:
  int part(int input, int64_t begin, int64_t rows, int64_t columns);
  int bias(int64_t begin, int64_t rows);
  int dense(int x, int weights, int bias);
  std::vector<int> split(int x);
  int gate(size_t which, int x);
  int activated(const RecurrentGate& g, int x);
  int peeped(int x, int64_t which, int cell);
  void lstm(int x);
  void gru(int x);

  OpWriter& w_;
  SubgraphWriter& s_;
  const RecurrentAttrs& a_;
  const RecurrentGate* gates_;
  int d_;
  int64_t count_ = 0, hidden_ = 0;
  int recurrent_ = -1, recurrent_bias_ = -1;  ///< of all gates, or of a GRU's update and reset
  int candidate_ = -1, candidate_bias_ = -1;  ///< of a GRU that resets before its product
};

/// x behind 8-bit quantization with one scale and zero point for all, chosen at run time.
int requantized(OpWriter& w, int x, int rank);
/// `count` parts of x along its first dimension, which they lack.
std::vector<int> unpacked(SubgraphWriter& s, int x, int64_t count);

}  // namespace smelt::tflite
