#pragma once

#include <span>
#include <vector>

#include "runtime/step.h"

namespace smelt {

/// The steps of a plan that read and write variables.
class VariableSteps {
 public:
  VariableSteps() = default;
  explicit VariableSteps(std::span<const Step> steps);

  /// True if step k may write rows into a variable where it lies: nothing but its node reads the variable's content,
  /// the result is what the variable becomes, and nothing else of the plan reads or writes the variable.
  /// `last_use`: by value, the last step that uses it; a graph's output is used after the last step.
  bool may_append(std::span<const Step> steps, int k, std::span<const int> last_use) const;
  /// True if a step between `first` and `last` may write variable `state`; last: at least the number of steps for what
  /// is used after them.
  bool may_write(int state, int first, int last) const;

 private:
  struct Use {
    const Node* node;
    int step;
  };
  std::vector<Use> uses_;
  int steps_ = 0;
  std::vector<int> bodies_;  ///< steps that run graphs, which may use variables, too
};

}  // namespace smelt
