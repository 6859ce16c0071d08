#include "ops/strings/regex_dfa.h"

#include <algorithm>
#include <map>

#include "ops/strings/regex.h"

namespace smelt {
namespace {

constexpr size_t kMaxSteps = 128, kMaxStates = 128, kMaxClasses = 128;

}  // namespace

/// Subset construction over the classes of code points that no set of the pattern tells apart.
class RegexDeterminizer {
 public:
  explicit RegexDeterminizer(const Regex& regex) : r_(regex) {}

  std::optional<RegexDfa> run() {
    if (r_.steps_.size() > kMaxSteps) return std::nullopt;
    for (const Regex::Step& s : r_.steps_)
      if (s.kind == Regex::Step::Kind::kAssert) return std::nullopt;
    classes();
    if (dfa_.class_begin_.size() > kMaxClasses) return std::nullopt;
    state_of(closure({r_.first_}));
    for (size_t s = 0; s < states_.size(); ++s) {
      if (states_.size() > kMaxStates) return std::nullopt;
      for (const char32_t c : dfa_.class_begin_) dfa_.next_.push_back(after(s, c));
    }
    return std::move(dfa_);
  }

 private:
  using State = std::vector<int32_t>;  ///< steps that wait for a character, and kMatch; ascending

  void classes() {
    std::vector<char32_t> begin{0};
    for (const Regex::Set& set : r_.sets_)
      for (const Regex::Range& range : set) {
        begin.push_back(range.lo);
        begin.push_back(range.hi + 1);
      }
    std::sort(begin.begin(), begin.end());
    begin.erase(std::unique(begin.begin(), begin.end()), begin.end());
    dfa_.class_begin_ = std::move(begin);
    if (dfa_.class_begin_.size() > kMaxClasses) return;
    for (char32_t c = 0; c < 128; ++c) {
      const auto above = std::upper_bound(dfa_.class_begin_.begin(), dfa_.class_begin_.end(), c);
      dfa_.ascii_class_[c] = static_cast<uint8_t>(above - dfa_.class_begin_.begin() - 1);
    }
  }

  State closure(std::vector<int32_t> open) const {
    State out;
    std::vector<char> seen(r_.steps_.size(), 0);
    while (!open.empty()) {
      const auto s = static_cast<size_t>(open.back());
      open.pop_back();
      if (seen[s]) continue;
      seen[s] = 1;
      const Regex::Step& step = r_.steps_[s];
      if (step.kind == Regex::Step::Kind::kSplit) {
        open.push_back(step.next);
        open.push_back(step.other);
      } else {
        out.push_back(static_cast<int32_t>(s));
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  int16_t state_of(State state) {
    const auto [found, added] = index_.emplace(std::move(state), static_cast<int16_t>(states_.size()));
    if (added) {
      states_.push_back(&found->first);
      dfa_.accepts_.push_back(std::ranges::any_of(found->first, [&](int32_t s) {
        return r_.steps_[static_cast<size_t>(s)].kind == Regex::Step::Kind::kMatch;
      }));
    }
    return found->second;
  }

  int16_t after(size_t state, char32_t c) {
    std::vector<int32_t> open;
    for (const int32_t s : *states_[state]) {
      const Regex::Step& step = r_.steps_[static_cast<size_t>(s)];
      if (step.kind == Regex::Step::Kind::kSet && Regex::contains(r_.sets_[static_cast<size_t>(step.set)], c))
        open.push_back(step.next);
    }
    return open.empty() ? int16_t{-1} : state_of(closure(std::move(open)));
  }

  const Regex& r_;
  RegexDfa dfa_;
  std::map<State, int16_t> index_;
  std::vector<const State*> states_;
};

std::optional<RegexDfa> RegexDfa::make(const Regex& regex) { return RegexDeterminizer(regex).run(); }

size_t RegexDfa::class_of(char32_t c) const {
  if (c < 128) return ascii_class_[c];
  return static_cast<size_t>(std::upper_bound(class_begin_.begin(), class_begin_.end(), c) - class_begin_.begin() - 1);
}

int64_t RegexDfa::longest_match(std::span<const char32_t> text, int64_t start) const {
  int64_t longest = accepts_[0] ? start : -1;
  size_t state = 0;
  for (auto at = static_cast<size_t>(start); at < text.size(); ++at) {
    const int16_t next = next_[state * class_begin_.size() + class_of(text[at])];
    if (next < 0) break;
    state = static_cast<size_t>(next);
    if (accepts_[state]) longest = static_cast<int64_t>(at) + 1;
  }
  return longest;
}

}  // namespace smelt
