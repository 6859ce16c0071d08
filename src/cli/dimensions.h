#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/parser.h"
#include "smelt/model.h"

namespace CLI {
class App;
}

namespace smelt::cli {

/// Dimensions that the model leaves open, as the caller gives them.
struct DimensionOptions {
  std::vector<std::string> shapes;  ///< "NAME=1x128", or "1x128" for the only input
  std::vector<std::string> named;   ///< "seq=128"
  bool empty() const { return shapes.empty() && named.empty(); }
};

/// The options --shape and --dim; precondition: `options` outlives the parsing.
void add_dimensions(Command command, DimensionOptions& options);

/// Gives every unknown dimension of a method's inputs a size: from --shape, --dim, another input with the same symbolic
/// dimension, the input's bound, or 1 as an assumption.
class Dimensions {
 public:
  static Result<Dimensions> parse(const DimensionOptions& options, const std::vector<Port>& ports);

  /// An input has this shape: its symbolic dimensions have these sizes.
  void learn(const Port& port, const Shape& shape);
  /// The shape of an input, without unknown dimensions. `assumed`: is given "batch=1, dimension 2=1" where sizes are
  /// assumptions.
  Shape shape(const Port& port, std::string* assumed = nullptr) const;
  /// The shape of an input with -1 where nothing but an assumption gives a size.
  Shape given_shape(const Port& port) const;

 private:
  std::map<std::string, Shape> shapes_;   ///< by input
  std::map<std::string, int64_t> named_;  ///< by symbolic dimension
};

/// "seq=128, batch=1 (assumed)": sizes of the unknown dimensions of a port in `shape`; empty if it has none.
std::string dimension_sizes(const Port& port, const Shape& shape, const std::string& assumed);

}  // namespace smelt::cli
