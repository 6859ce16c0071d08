#pragma once

#include <fmt/core.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/json.h"
#include "smelt/result.h"

namespace smelt::cli {

/// Writes text on standard output. What cannot be written is lost here and told by finish_output().
void put(std::string_view text);
/// Writes to standard error; a failure to write there is ignored.
void put_error(std::string_view text);

/// fmt::vformat(): the one place that compiles it.
std::string formatted_of(fmt::string_view format, fmt::format_args args);
template <class... A>
std::string formatted(fmt::format_string<A...> format, A&&... args) {
  return formatted_of(format, fmt::make_format_args(args...));
}
template <class... A>
void say(fmt::format_string<A...> format, A&&... args) {
  put(formatted_of(format, fmt::make_format_args(args...)));
}
template <class... A>
void warn(fmt::format_string<A...> format, A&&... args) {
  put_error(formatted_of(format, fmt::make_format_args(args...)));
}
std::string joined(const std::vector<std::string>& words, std::string_view between);

/// "smelt: ", in colour where standard error is a terminal and NO_COLOR is not set.
std::string fault_prefix();
/// Prints a message of one line on standard error.
void complain(std::string message);

/// Prints a JSON value, indented. Text that is not UTF-8 is mended.
void put_json(const Json& value);

/// Standard output holds a file: put() and say() write to standard error from now on.
void reserve_standard_output();
/// Writes parts of a file on standard output.
Status write_standard_output(std::span<const std::string_view> parts);
/// Writes a file whole or not at all, or standard output for "-".
Status write_result(const std::string& path, std::initializer_list<std::string_view> parts);

/// Sends off what was written; false when some of it was lost, so that going on is of no use.
bool flush_output();

/// The exit status after everything is written: `status`, or 1 with a message where standard output took not all of it.
/// A reader who closed the pipe has seen enough: no message, no fault.
int finish_output(int status);

/// Columns of the terminal that shows standard output; 0: no terminal, any width will do.
size_t terminal_width();

/// Names in models may hold anything: control characters become "?".
std::string printable(std::string text);

/// A line on standard error that shows what goes on, only on a terminal, gone when it is over.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(size_t done, size_t total);

 private:
  std::string label_;
  bool on_;
  bool shown_ = false;
  double last_ = 0;
};

/// Prints rows as columns: the widest cell sets a column's width; cells wider than `max` are cut with "…", and where a
/// terminal is narrower than the row, the widest columns are cut until it fits.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { row(std::move(header)); }
  void row(std::vector<std::string> cells);
  /// Columns whose index is in `right` are aligned to the right. `width`: of the line, 0 for any.
  std::string str(const std::vector<int>& right = {}, size_t max = 44, size_t width = terminal_width()) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace smelt::cli
