#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "smelt/model.h"

namespace smelt::cli {

/// "cpu" -> kCpu, ...; precondition: one of the three names.
BackendKind backend_of(const std::string& name);

/// "12.3 MB", "840 B".
std::string human_bytes(double bytes);

/// Random values of a port's type: reals in [-1, 1), integers small, bools; unknown dimensions take
/// their bound, or become 1.
Result<Datum> random_value(const Port& port, uint64_t seed);

/// A line on standard error that shows what goes on, only on a terminal, gone when it is over.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  void step(size_t done, size_t total);

 private:
  std::string label_;
  bool on_;
  double last_ = 0;
};

/// Prints rows as columns: the widest cell sets a column's width; cells wider than `max` are cut with "…".
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Columns whose index is in `right` are aligned to the right.
  std::string str(const std::vector<int>& right = {}, size_t max = 44) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace smelt::cli
