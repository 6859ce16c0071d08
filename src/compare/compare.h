#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/blame.h"
#include "compare/discrepancy.h"
#include "compare/match.h"
#include "compare/side.h"

namespace smelt {

/// Inputs of one run of both sides.
struct Draw {
  std::string name;           ///< "random", "large", "given"
  std::vector<Datum> inputs;  ///< in the order of the first side's graph
};

/// A value of the second side and what it has in common with the first side's, in the draw that is worst.
struct ValueComparison {
  ValueId second = kNoValue;
  Pair pair;
  Discrepancy total;        ///< of the whole runs
  double total_excess = 0;  ///< as excess() says; above 1: too much
  std::string total_draw;
  bool has_own = false;  ///< the layers before were given the first side's values
  Discrepancy own;       ///< of what makes this value, from the first side's operands
  double own_excess = 0;
  std::string own_draw;
  Histogram first_histogram, second_histogram, error_histogram;  ///< if CompareOptions::histograms
};

struct CompareOptions {
  Tolerance tolerance;
  bool histograms = false;
  /// Inputs of the second graph to those of the first; empty: by name, else by position.
  std::vector<int> inputs;
};

struct Comparison {
  bool swapped = false;                 ///< "first" and "second" stand for the sides the other way round
  std::vector<ValueComparison> values;  ///< in the order of the second side's run
  size_t unpaired_first = 0, unpaired_second = 0;
  std::vector<std::string> draws;    ///< that both sides ran
  std::vector<std::string> remarks;  ///< draws that failed on both sides alike, and what could not be measured
  /// A draw that one side alone refuses, and its message: they differ.
  std::vector<std::string> failures;
  /// Of values: the first whose own error is too much; -1: none.
  int departs = -1;
  std::optional<Blame> blame;
  bool outputs_differ = false;

  bool differ() const { return departs >= 0 || outputs_differ || !failures.empty(); }
};

/// Runs both sides on the draws. The second side runs up to three times a draw: as it is, and with every paired value
/// replaced by the first side's as soon as it is made, which tells each layer's own error from what it inherits. If the
/// second side's values can't be replaced, but the first's can, the sides swap roles. Intermediate values of one side
/// lie in a file; of the other, one at a time is in memory.
Result<Comparison> compare(Side& first, Side& second, const std::vector<Draw>& draws, const CompareOptions& options);

/// The inputs of one graph as another one takes them: layout, element type, quantization. `from`: by input of
/// `to_graph` that of `from_graph`.
Result<std::vector<Datum>> convert_inputs(const Graph& from_graph, const std::vector<Datum>& inputs,
                                          const Graph& to_graph, const std::vector<int>& from);
/// Inputs of `to` to those of `from`: by name, else by position. An error where their number differs.
Result<std::vector<int>> pair_inputs(const Graph& from, const Graph& to);

/// Draws the indices that a Gather looks up in a constant from its whole table, of one above 8 MB from 256 rows here
/// and there, since each row that is read brings pages of the file with it: inputs that are always 0 or 1 would show
/// little of it.
void spread_indices(const Graph& graph, std::vector<Datum>& inputs, uint64_t seed);

/// Writes real values into a tensor: quantized, rounded or as they are.
void write_reals(const std::vector<float>& values, Tensor& to);

}  // namespace smelt
