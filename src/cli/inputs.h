#pragma once
#include <string>
#include <vector>

#include "cli/dimensions.h"
#include "cli/json.h"
#include "cli/parser.h"
#include "smelt/model.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace smelt::cli {

/// Values of inputs that are made up.
struct Fill {
  enum class Kind : uint8_t { kRandom, kZeros, kOnes, kRange } kind = Kind::kRandom;
  double low = 0, high = 0;  ///< kRange: random values in [low, high), of integers in [low, high]
};

/// Where the inputs of a run come from.
struct InputOptions {
  std::vector<std::string> files;  ///< "FILE" in the model's order, or "NAME=FILE"
  DimensionOptions dimensions;
  std::string fill;       ///< "random", "zeros", "ones", "range:A,B"; "": random, if no file is given
  bool quantize = false;  ///< float arrays for quantized inputs are quantized
  bool widen = false;     ///< int32 arrays for int64 inputs are converted
  uint64_t seed = 0;
};

/// The inputs of one run.
struct Inputs {
  struct Origin {
    std::string source;      ///< "x.npy", "random", "none"
    std::string dimensions;  ///< "seq=128, batch=1 (assumed)" for dimensions that the model leaves open
  };
  std::vector<Datum> values;    ///< in the model's order
  std::vector<Origin> origins;  ///< of each value
  std::string assumed;          ///< "batch=1 of input 'x'": sizes that nobody gave; empty: none

  /// An error of a run on these inputs, which names the assumed sizes.
  Error explain(const Error& error) const;
};

/// Name, origin, type and shape of each input.
Json inputs_json(const std::vector<Port>& ports, const Inputs& inputs);

/// The options --input, --shape, --dim, --fill and --quantize; the option --input is returned. `options` outlives the
/// parsing.
Option add_inputs(Command command, InputOptions& options);

/// Inputs of a method. A file is .npy, .npz (arrays by name, or in order), raw elements of the input's type, or "-" for
/// standard input; a folder is a sequence or a map; "none" is an absent optional. Headers are checked against the model
/// before elements are read. Types that .npy lacks come as in adapt().
Result<Inputs> gather_inputs(const Model& model, const std::string& method, const InputOptions& options);

}  // namespace smelt::cli
