#include "ops/reduce/reduce.h"

namespace smelt {

const char* to_string(Reduction r) {
  static const char* const names[] = {"sum", "mean", "max",     "min",         "prod",       "any", "all",
                                      "l1",  "l2",   "log_sum", "log_sum_exp", "sum_square", "var", "std"};
  static_assert(std::size(names) == static_cast<size_t>(Reduction::kStd) + 1);
  return names[static_cast<size_t>(r)];
}

}  // namespace smelt
