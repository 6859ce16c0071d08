#pragma once
#include <string>
#include <vector>

#include "cli/json.h"
#include "cli/parser.h"
#include "smelt/model.h"

namespace CLI {
class App;
}

namespace smelt::cli {

/// What becomes of the outputs of a run.
struct OutputOptions {
  std::vector<std::string> names;  ///< of outputs or intermediate values; empty: the model's outputs
  std::string folder, npz, print;
  bool by_name = false, json = false;
};

/// The options --output, --output-dir, --output-names, --save-npz, --print and --json; precondition: `options` outlives
/// the parsing.
void add_outputs(Command command, OutputOptions& options);

/// Writes the files that the options ask for.
Status save_outputs(const OutputOptions& options, const std::vector<Datum>& outputs, const std::vector<Port>& ports);

/// Prints a table of name, type, shape and summary, and the contents of small outputs.
void print_outputs(const OutputOptions& options, const std::vector<Datum>& outputs, const std::vector<Port>& ports);

/// The outputs as a JSON array.
Json outputs_json(const OutputOptions& options, const std::vector<Datum>& outputs, const std::vector<Port>& ports);

}  // namespace smelt::cli
