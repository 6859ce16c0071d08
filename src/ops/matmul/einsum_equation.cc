#include "ops/matmul/einsum_equation.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace smelt {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// One side of a term: letters before and after an ellipsis.
struct TermLabels {
  std::vector<int> before, after;
  bool ellipsis = false;
};

Result<TermLabels> parse_term(const std::string& text) {
  TermLabels t;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      if (t.ellipsis || text.compare(i, 3, "...") != 0) return InvalidModel("malformed ellipsis in '", text, "'");
      t.ellipsis = true;
      i += 2;
    } else if (is_letter(text[i])) {
      (t.ellipsis ? t.after : t.before).push_back(text[i]);
    } else {
      return InvalidModel("character '", text[i], "' in an einsum equation");
    }
  }
  return t;
}

std::vector<int> labels_of(const TermLabels& t, int ellipsis_rank) {
  std::vector<int> labels = t.before;
  for (int i = ellipsis_rank; t.ellipsis && i >= 1; --i) labels.push_back(-i);
  labels.insert(labels.end(), t.after.begin(), t.after.end());
  return labels;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ',')
      parts.emplace_back();
    else
      parts.back().push_back(c);
  }
  return parts;
}

}  // namespace

Result<EinsumEquation> parse_einsum(const std::string& equation, const std::vector<int>& ranks) {
  if (equation.size() > 4096) return LimitReached("an einsum equation of ", equation.size(), " characters");
  std::string text;
  for (char c : equation)
    if (c != ' ' && c != '\t') text.push_back(c);
  const size_t arrow = text.find("->");
  const auto terms = split(text.substr(0, arrow));
  if (terms.size() != ranks.size())
    return InvalidModel("einsum '", equation, "' has ", terms.size(), " terms for ", ranks.size(), " operands");
  EinsumEquation e;
  int ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    SMELT_ASSIGN(const TermLabels t, parse_term(terms[i]));
    const int letters = static_cast<int>(t.before.size() + t.after.size());
    if (letters > ranks[i] || (!t.ellipsis && letters != ranks[i]))
      return InvalidModel("term '", terms[i], "' of an einsum does not fit an operand of rank ", ranks[i]);
    ellipsis = std::max(ellipsis, ranks[i] - letters);
    e.operands.push_back(labels_of(t, ranks[i] - letters));
  }
  if (arrow != std::string::npos) {
    SMELT_ASSIGN(const TermLabels t, parse_term(text.substr(arrow + 2)));
    e.output = labels_of(t, ellipsis);
  } else {
    for (int i = ellipsis; i >= 1; --i) e.output.push_back(-i);
    for (int c = 'A'; c <= 'z'; ++c) {
      int64_t count = 0;
      for (const auto& labels : e.operands) count += std::count(labels.begin(), labels.end(), c);
      if (count == 1) e.output.push_back(c);
    }
  }
  for (size_t i = 0; i < e.output.size(); ++i) {
    const auto holds = [&](const std::vector<int>& l) { return std::ranges::find(l, e.output[i]) != l.end(); };
    if (std::ranges::none_of(e.operands, holds))
      return InvalidModel("einsum '", equation, "' has an output label that no operand has");
    if (std::count(e.output.begin(), e.output.end(), e.output[i]) > 1)
      return InvalidModel("einsum '", equation, "' repeats an output label");
  }
  if (static_cast<int>(e.output.size()) > Shape::kMaxRank)
    return Unsupported("an einsum with an output of rank ", e.output.size());
  return e;
}

int64_t LabelSizes::of(int label) const {
  const auto it = std::ranges::find(labels, label);
  return it == labels.end() ? 1 : sizes[static_cast<size_t>(it - labels.begin())];
}

Result<LabelSizes> einsum_sizes(const EinsumEquation& e, const std::vector<Shape>& shapes) {
  LabelSizes s;
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t d = 0; d < e.operands[i].size(); ++d) {
      const int label = e.operands[i][d];
      const int64_t size = shapes[i][static_cast<int>(d)];
      const auto it = std::ranges::find(s.labels, label);
      if (it == s.labels.end()) {
        s.labels.push_back(label);
        s.sizes.push_back(size);
        continue;
      }
      int64_t& known = s.sizes[static_cast<size_t>(it - s.labels.begin())];
      if (known == 1)
        known = size;
      else if (known < 0 && size > 1)
        known = size;
      else if (size >= 0 && size != 1 && known >= 0 && size != known)
        return InvalidInput("an einsum label stands for sizes ", known, " and ", size);
    }
  return s;
}

bool holds(const std::vector<int>& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }

std::vector<int> needed_after(const EinsumEquation& e, size_t next) {
  std::vector<int> needed = e.output;
  for (size_t i = next; i < e.operands.size(); ++i)
    needed.insert(needed.end(), e.operands[i].begin(), e.operands[i].end());
  return needed;
}

EinsumProduct EinsumProduct::of(const std::vector<int>& a, const std::vector<int>& b, const std::vector<int>& needed) {
  EinsumProduct p;
  for (int label : a) {
    const bool shared = holds(b, label), kept = holds(needed, label);
    if (shared) (kept ? p.batch : p.inner).push_back(label);
    if (!shared && kept) p.rows.push_back(label);
  }
  for (int label : b)
    if (!holds(a, label) && holds(needed, label)) p.columns.push_back(label);
  return p;
}

namespace {

std::vector<int> joined(std::vector<int> x, const std::vector<int>& y, const std::vector<int>& z) {
  x.insert(x.end(), y.begin(), y.end());
  x.insert(x.end(), z.begin(), z.end());
  return x;
}

}  // namespace

std::vector<int> EinsumProduct::left() const { return joined(batch, rows, inner); }
std::vector<int> EinsumProduct::right() const { return joined(batch, inner, columns); }
std::vector<int> EinsumProduct::result() const { return joined(batch, rows, columns); }

EinsumProduct::Sizes EinsumProduct::sizes(const std::vector<int64_t>& left, const std::vector<int64_t>& right) const {
  const auto first_column = right.begin() + static_cast<std::ptrdiff_t>(batch.size() + inner.size());
  const auto first_inner = left.begin() + static_cast<std::ptrdiff_t>(batch.size() + rows.size());
  const auto first_row = left.begin() + static_cast<std::ptrdiff_t>(batch.size());
  const auto product = [](auto from, auto to) { return std::accumulate(from, to, int64_t{1}, std::multiplies<>()); };
  Sizes s{product(left.begin(), first_row),
          product(first_row, first_inner),
          product(first_inner, left.end()),
          product(first_column, right.end()),
          {left.begin(), first_inner}};
  s.result.insert(s.result.end(), first_column, right.end());
  return s;
}

}  // namespace smelt
