#include "base/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "base/cat.h"

namespace smelt {
namespace {

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other, whatever the case.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  const auto same = [&](size_t i, size_t j) {
    return std::tolower(static_cast<unsigned char>(a[i])) == std::tolower(static_cast<unsigned char>(b[j]));
  };
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j + 1] + 1, row[j] + 1, last[j] + (same(i, j) ? 0 : 1)});
      if (i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j)) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& c : candidates) {
    if (c.size() > word.size() + least || word.size() > c.size() + least || word.size() > 200) continue;
    if (const size_t d = distance(word, c); d < least) {
      least = d;
      best = c;
    }
  }
  return best;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  std::string out;
  for (size_t i = 0; i < names.size() && i < kMost; ++i) out += Cat(i ? ", " : "", names[i]);
  if (names.size() > kMost) out += Cat(", ... (", names.size(), " in all)");
  return out.empty() ? "none" : out;
}

std::string not_among(std::string_view what, std::string_view name, const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  return Cat("no ", what, " is '", name, "'; ", near.empty() ? "" : Cat("did you mean '", near, "'? "),
             "there are: ", listed(names));
}

}  // namespace smelt
