#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/elementwise/elementwise.h"

namespace smelt {

/// A product of real factors: coefficient * factors[0] * factors[1] * ...
struct Product {
  double coefficient = 1;
  std::vector<ValueId> factors;
};

/// Finds patterns of unquantized float32 nodes in one graph, and rewrites nodes in place while it knows who makes and
/// who reads each value. The graph must outlive it and may not be changed otherwise.
class Pattern {
 public:
  explicit Pattern(Graph& graph);

  Graph& graph() { return graph_; }
  const ValueType& type(ValueId id) const { return graph_.value(id).type; }
  const Tensor* constant(ValueId id) const { return id == kNoValue ? nullptr : graph_.value(id).constant.get(); }
  /// True for a tensor of float32 without quantization.
  bool is_f32(ValueId id) const;
  bool has_one_use(ValueId id) const { return uses_[static_cast<size_t>(id)] == 1; }
  int uses(ValueId id) const { return uses_[static_cast<size_t>(id)]; }
  /// Index of the node that makes a value; -1: an input or a constant.
  int index_of_producer(ValueId id) const;
  const Node& node(int index) const { return graph_.nodes[static_cast<size_t>(index)]; }
  /// The node of that operator that makes a value, with that value as its first output; nullptr if there is none.
  const Node* producer(ValueId id, Op op) const;
  const Node* unary(ValueId id, Unary fn) const;
  /// A binary function without activation or factor.
  const Node* binary(ValueId id, Binary fn) const;
  /// The only element of a constant; nullopt if it has several or raises the rank of `beside` in a broadcast.
  std::optional<double> scalar(ValueId id, ValueId beside) const;
  /// The addend x of id = x + c, in either order; kNoValue if the value is no such sum.
  ValueId addend_of(ValueId id, double c) const;
  /// Factors of a value. Products below it are expanded where nobody else reads them.
  Product product(ValueId id) const;
  /// The value that a value is `scale` times, which is multiplied by it; other readers of what lies between keep it.
  ValueId without_scale(ValueId id, double& scale) const;
  /// True if nothing but `read`, of which without_scale() found the value, reads the value, and only one node reads
  /// that.
  bool only_read_by(ValueId read, ValueId id) const;
  /// The permutation of a Transpose, of its attributes or a constant input; nullopt if it is computed.
  std::optional<std::vector<int64_t>> permutation(const Node& n) const;
  /// The x of id = mean(x) over the last dimension, which stays with extent 1; kNoValue if it is no such mean.
  ValueId mean_over_last(ValueId id) const;

  /// Writes a node over the one at an index and counts uses anew. It must give the same outputs, or new values.
  void replace(size_t index, Node node);
  /// Adds a value without a producer yet.
  ValueId add_value(ValueType type);

 private:
  /// What a value is of another one: `number` times it, or that divided by `number`.
  struct Scaled {
    ValueId of;
    double number;
    bool divided;
  };
  std::optional<Scaled> scaled(ValueId id) const;
  void expand(ValueId id, int depth, Product& into) const;

  Graph& graph_;
  std::vector<int> producer_, uses_;
};

/// Puts nodes in the places of those at these indices, and removes what nothing needs then.
void put_in_places(Graph& graph, std::map<size_t, std::vector<Node>> made);

/// The node `n` as another operator of the given inputs.
Node remade(const Node& n, Op op, AttrsPtr attrs, std::vector<ValueId> inputs, const char* origin);

/// True if two coefficients are the same but for the rounding of an exporter, which may be that of float16: `value` or
/// its reciprocal is one then.
bool is_near(double value, double wanted);

}  // namespace smelt
