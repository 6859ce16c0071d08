#include "ops/strings/regex.h"

#include <algorithm>

#include "base/error.h"
#include "ops/strings/regex_syntax.h"

namespace smelt {

/// Turns a parsed pattern into steps, from the end to the beginning: every part knows the step that follows it.
class RegexCompiler {
 public:
  explicit RegexCompiler(Regex& regex) : r_(regex) {}
  Result<int32_t> node(const RegexNode& n, int32_t next) {
    if (r_.steps_.size() > kMaxSteps) return LimitReached("the pattern needs more than ", kMaxSteps, " steps");
    switch (n.kind) {
      case RegexNode::Kind::kEmpty:
        return next;
      case RegexNode::Kind::kSet:
        r_.sets_.push_back(n.set);
        return step({.kind = Regex::Step::Kind::kSet, .next = next, .set = static_cast<int32_t>(r_.sets_.size()) - 1});
      case RegexNode::Kind::kAssert:
        return step({.kind = Regex::Step::Kind::kAssert, .next = next, .assertion = n.assertion});
      case RegexNode::Kind::kSequence:
        for (size_t i = n.parts.size(); i-- > 0;) {
          SMELT_ASSIGN(next, node(n.parts[i], next));
        }
        return next;
      case RegexNode::Kind::kChoice: {
        SMELT_ASSIGN(int32_t first, node(n.parts.back(), next));
        for (size_t i = n.parts.size() - 1; i-- > 0;) {
          SMELT_ASSIGN(const int32_t branch, node(n.parts[i], next));
          first = step({.kind = Regex::Step::Kind::kSplit, .next = branch, .other = first});
        }
        return first;
      }
      case RegexNode::Kind::kRepeat:
        return repeat(n, next);
    }
    return next;
  }
  int32_t step(Regex::Step s) {
    r_.steps_.push_back(s);
    return static_cast<int32_t>(r_.steps_.size()) - 1;
  }

 private:
  static constexpr size_t kMaxSteps = 200'000;

  Result<int32_t> repeat(const RegexNode& n, int32_t next) {
    if (n.max < 0) {
      const int32_t loop = step({.kind = Regex::Step::Kind::kSplit, .other = next});
      SMELT_ASSIGN(const int32_t body, node(n.parts[0], loop));
      r_.steps_[static_cast<size_t>(loop)].next = body;
      next = loop;
    }
    for (int i = n.min; i < n.max; ++i) {
      SMELT_ASSIGN(const int32_t body, node(n.parts[0], next));
      next = step({.kind = Regex::Step::Kind::kSplit, .next = body, .other = next});
    }
    for (int i = 0; i < n.min; ++i) {
      SMELT_ASSIGN(next, node(n.parts[0], next));
    }
    return next;
  }

  Regex& r_;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  SMELT_ASSIGN(const RegexNode root, parse_regex(pattern));
  Regex regex;
  RegexCompiler compiler(regex);
  const int32_t match = compiler.step({.kind = Step::Kind::kMatch});
  SMELT_ASSIGN(regex.first_, compiler.node(root, match));
  for (Set& s : regex.sets_) {
    std::sort(s.begin(), s.end(), [](const Range& a, const Range& b) { return a.lo < b.lo; });
    Set merged;
    for (const Range& r : s) {
      if (!merged.empty() && r.lo <= merged.back().hi + 1)
        merged.back().hi = std::max(merged.back().hi, r.hi);
      else
        merged.push_back(r);
    }
    s = std::move(merged);
  }
  regex.dfa_ = RegexDfa::make(regex);
  return regex;
}

namespace {

bool word(char32_t c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }

bool holds(Regex::Assert a, std::span<const char32_t> text, int64_t at) {
  const auto n = static_cast<int64_t>(text.size());
  const auto before = [&] { return text[static_cast<size_t>(at - 1)]; };
  const auto behind = [&] { return text[static_cast<size_t>(at)]; };
  const bool edge = (at > 0 && word(before())) != (at < n && word(behind()));
  switch (a) {
    case Regex::Assert::kTextBegin:
      return at == 0;
    case Regex::Assert::kTextEnd:
      return at == n;
    case Regex::Assert::kLineBegin:
      return at == 0 || before() == '\n';
    case Regex::Assert::kLineEnd:
      return at == n || behind() == '\n';
    case Regex::Assert::kWordEdge:
      return edge;
    case Regex::Assert::kNoWordEdge:
      return !edge;
  }
  return false;
}

/// The steps that wait for a character (or for nothing more), each once.
class StepSet {
 public:
  explicit StepSet(size_t n) : seen_(n, 0) {}
  void clear() {
    list_.clear();
    ++round_;
  }
  bool insert(int32_t s) {
    if (seen_[static_cast<size_t>(s)] == round_) return false;
    seen_[static_cast<size_t>(s)] = round_;
    return true;
  }
  std::vector<int32_t>& list() { return list_; }

 private:
  std::vector<uint64_t> seen_;
  std::vector<int32_t> list_;
  uint64_t round_ = 1;
};

}  // namespace

bool Regex::contains(const Set& set, char32_t c) {
  const auto at = std::upper_bound(set.begin(), set.end(), c, [](char32_t v, const Range& r) { return v < r.lo; });
  return at != set.begin() && c <= std::prev(at)->hi;
}

int64_t Regex::longest_match(std::span<const char32_t> text, int64_t start) const {
  return dfa_ ? dfa_->longest_match(text, start) : simulate(text, start);
}

int64_t Regex::simulate(std::span<const char32_t> text, int64_t start) const {
  const auto n = static_cast<int64_t>(text.size());
  StepSet now(steps_.size()), next(steps_.size());
  std::vector<int32_t> open;
  int64_t longest = -1;
  const auto follow = [&](StepSet& to, int32_t from, int64_t at) {
    open.assign(1, from);
    while (!open.empty()) {
      const int32_t s = open.back();
      open.pop_back();
      if (!to.insert(s)) continue;
      const Step& step = steps_[static_cast<size_t>(s)];
      switch (step.kind) {
        case Step::Kind::kSplit:
          open.push_back(step.other);
          open.push_back(step.next);
          break;
        case Step::Kind::kAssert:
          if (holds(step.assertion, text, at)) open.push_back(step.next);
          break;
        case Step::Kind::kMatch:
          longest = at;
          break;
        case Step::Kind::kSet:
          to.list().push_back(s);
          break;
      }
    }
  };
  follow(now, first_, start);
  for (int64_t at = start; at < n && !now.list().empty(); ++at) {
    next.clear();
    for (int32_t s : now.list()) {
      const Step& step = steps_[static_cast<size_t>(s)];
      if (contains(sets_[static_cast<size_t>(step.set)], text[static_cast<size_t>(at)]))
        follow(next, step.next, at + 1);
    }
    std::swap(now, next);
  }
  return longest;
}

bool Regex::full_match(std::span<const char32_t> text) const {
  return longest_match(text, 0) == static_cast<int64_t>(text.size());
}

}  // namespace smelt
