#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/write_file.h"

namespace smelt::cli {
namespace {

int lost = 0;  // errno of the first failure on standard output

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Characters shown, counting a UTF-8 sequence once.
size_t shown(const std::string& s) {
  return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut(const std::string& s, size_t max) {
  if (shown(s) <= max) return s;
  std::string out;
  size_t n = 0;
  for (char c : s) {
    if ((c & 0xc0) != 0x80 && ++n >= max) break;
    out += c;
  }
  return out + "…";
}

/// Narrows the widest columns until a row takes at most `line` characters; none becomes narrower than 8.
void narrow(std::vector<size_t>& width, size_t line) {
  const size_t gaps = width.empty() ? 0 : 2 * (width.size() - 1);
  while (gaps + std::accumulate(width.begin(), width.end(), size_t{0}) > line) {
    const auto widest = std::max_element(width.begin(), width.end());
    if (*widest <= 8) return;
    --*widest;
  }
}

}  // namespace

namespace {
void put_out(std::string_view text) {
  if (lost == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) lost = errno;
}

bool reserved = false;  // standard output holds a file
}  // namespace

void put(std::string_view text) { reserved ? put_error(text) : put_out(text); }

namespace {
bool colours(int descriptor) {
  static const bool allowed = [] {
    const char *off = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
    return (!off || !*off) && terminal && std::strcmp(terminal, "dumb") != 0;
  }();
  return allowed && isatty(descriptor) != 0;
}
}  // namespace

std::string fault_prefix() { return colours(STDERR_FILENO) ? "\033[1;31msmelt:\033[0m " : "smelt: "; }

void complain(std::string message) { put_error(fault_prefix() + printable(std::move(message)) + "\n"); }

std::string formatted_of(fmt::string_view format, fmt::format_args args) { return fmt::vformat(format, args); }

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out.append(&word == &words[0] ? "" : between).append(word);
  return out;
}

void put_json(const Json& value) { put(value.dump(1) + "\n"); }

void reserve_standard_output() { reserved = true; }

Status write_result(const std::string& path, std::initializer_list<std::string_view> parts) {
  if (path != "-") return write_file(path, parts);
  return write_standard_output({parts.begin(), parts.size()});
}

Status write_standard_output(std::span<const std::string_view> parts) {
  for (std::string_view part : parts) put_out(part);
  return Ok();
}

void put_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

bool flush_output() {
  if (std::fflush(stdout) != 0 && lost == 0) lost = errno;
  return lost == 0;
}

int finish_output(int status) {
  if (flush_output() || lost == EPIPE) return status;
  complain(std::string("standard output: ") + std::strerror(lost));
  return status == 0 ? 1 : status;
}

size_t terminal_width() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  if (const char* columns = std::getenv("COLUMNS"))
    if (const long n = std::strtol(columns, nullptr, 10); n > 0) return static_cast<size_t>(n);
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

Progress::Progress(std::string label) : label_(std::move(label)), on_(isatty(STDERR_FILENO) != 0) { last_ = now(); }

Progress::~Progress() {
  if (shown_) put_error("\r\033[K");
}

void Progress::step(size_t done, size_t total) {
  if (!on_ || now() - last_ < 0.1) return;
  last_ = now();
  shown_ = true;
  const size_t width = 30, filled = total ? done * width / total : 0;
  warn("\r\033[K{} [{}{}] {}/{}", label_, std::string(filled, '#'), std::string(width - filled, '.'), done, total);
  std::fflush(stderr);
}

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(std::move(cell));
  rows_.push_back(std::move(cells));
}

std::string Table::str(const std::vector<int>& right, size_t max, size_t line_width) const {
  std::vector<size_t> width;
  for (const auto& r : rows_)
    for (size_t i = 0; i < r.size(); ++i) {
      if (width.size() <= i) width.push_back(0);
      width[i] = std::max(width[i], std::min(shown(r[i]), max));
    }
  if (line_width > 0) narrow(width, line_width);
  std::string out;
  for (const auto& r : rows_) {
    std::string line;
    for (size_t i = 0; i < r.size(); ++i) {
      const std::string cell = cut(r[i], width[i]);
      const std::string gap(width[i] - shown(cell), ' ');
      const bool to_right = std::ranges::find(right, static_cast<int>(i)) != right.end();
      line += (i ? "  " : "") + (to_right ? gap + cell : cell + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    const bool heading = &r == &rows_.front() && colours(STDOUT_FILENO);
    out += heading ? "\033[1m" + line + "\033[0m\n" : line + "\n";
  }
  return out;
}

}  // namespace smelt::cli
