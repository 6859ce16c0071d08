#include "ops/strings/regex_syntax.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/strings/utf8.h"

namespace smelt {
namespace {

using Set = Regex::Set;
constexpr char32_t kLast = 0x10ffff;
constexpr int kMaxDepth = 200;
constexpr int kMaxRepeat = 1000;

Set inverted(Set set) {
  std::sort(set.begin(), set.end(), [](const auto& a, const auto& b) { return a.lo < b.lo; });
  Set out;
  char32_t next = 0;
  for (const auto& r : set) {
    if (r.lo > next) out.push_back({next, r.lo - 1});
    next = std::max<char32_t>(next, r.hi + 1);
  }
  if (next <= kLast) out.push_back({next, kLast});
  return out;
}

void add(Set& to, const Set& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Adds the other case of every letter.
Set folded(const Set& set) {
  Set out = set;
  for (const auto& r : set)
    for (char32_t c = r.lo; c <= std::min<char32_t>(r.hi, 0x1eff); ++c) {
      if (to_lower(c) != c) out.push_back({to_lower(c), to_lower(c)});
      if (to_upper(c) != c) out.push_back({to_upper(c), to_upper(c)});
    }
  return out;
}

/// The sets that a letter behind a backslash stands for; empty: none.
Set perl_class(char32_t c) {
  switch (c) {
    case 'd':
      return {{'0', '9'}};
    case 's':
      return {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    case 'w':
      return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 'D':
    case 'S':
    case 'W':
      return inverted(perl_class(c + 32));
    default:
      return {};
  }
}

Set named_class(const std::string& name) {
  static const struct {
    const char* name;
    Set set;
  } kClasses[] = {
      {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
      {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
      {"ascii", {{0, 127}}},
      {"blank", {{'\t', '\t'}, {' ', ' '}}},
      {"cntrl", {{0, 31}, {127, 127}}},
      {"digit", {{'0', '9'}}},
      {"graph", {{'!', '~'}}},
      {"lower", {{'a', 'z'}}},
      {"print", {{' ', '~'}}},
      {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
      {"space", {{'\t', '\r'}, {' ', ' '}}},
      {"upper", {{'A', 'Z'}}},
      {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
      {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
  };
  for (const auto& c : kClasses)
    if (name == c.name) return c.set;
  return {};
}

int digit_value(char32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  const char32_t l = to_lower(c);
  return l >= 'a' && l <= 'f' ? static_cast<int>(l - 'a') + 10 : 99;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : p_(decode_utf8(pattern)) {}
  Result<RegexNode> parse() {
    SMELT_ASSIGN(RegexNode n, choice(0));
    if (!done()) return error("an unmatched )");
    return n;
  }

 private:
  struct Flags {
    bool ignore_case = false, multi_line = false, dot_all = false;
  };

  bool done() const { return at_ >= p_.size(); }
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < p_.size() ? p_[at_ + ahead] : 0; }
  bool take(char32_t c) {
    if (done() || p_[at_] != c) return false;
    ++at_;
    return true;
  }
  Error error(const char* what) const { return InvalidModel("the pattern has ", what, " at character ", at_); }

  RegexNode set_node(Set set) const {
    RegexNode n;
    n.kind = RegexNode::Kind::kSet;
    n.set = flags_.ignore_case ? folded(set) : std::move(set);
    return n;
  }
  static RegexNode assert_node(Regex::Assert a) {
    RegexNode n;
    n.kind = RegexNode::Kind::kAssert;
    n.assertion = a;
    return n;
  }

  Result<RegexNode> choice(int depth) {
    if (depth > kMaxDepth) return LimitReached("the pattern is nested more than ", kMaxDepth, " deep");
    const Flags outer = flags_;
    RegexNode n;
    n.kind = RegexNode::Kind::kChoice;
    do {
      SMELT_ASSIGN(RegexNode part, sequence(depth));
      n.parts.push_back(std::move(part));
    } while (take('|'));
    flags_ = outer;
    if (n.parts.size() == 1) return RegexNode(std::move(n.parts[0]));
    return n;
  }

  Result<RegexNode> sequence(int depth) {
    RegexNode n;
    n.kind = RegexNode::Kind::kSequence;
    while (!done() && peek() != '|' && peek() != ')') {
      if (peek() == '\\' && peek(1) == 'Q') {
        at_ += 2;
        const size_t before = n.parts.size();
        while (!done() && !(peek() == '\\' && peek(1) == 'E')) n.parts.push_back(literal(p_[at_++]));
        if (!done()) at_ += 2;
        if (n.parts.size() > before) {
          // A repetition behind the quotation counts for its last character.
          SMELT_ASSIGN(n.parts.back(), repeated(std::move(n.parts.back())));
        }
        continue;
      }
      SMELT_ASSIGN(RegexNode part, atom(depth));
      SMELT_ASSIGN(part, repeated(std::move(part)));
      n.parts.push_back(std::move(part));
    }
    return n;
  }

  RegexNode literal(char32_t c) const { return set_node({{c, c}}); }

  Result<RegexNode> repeated(RegexNode part) {
    for (int stacked = 0;; ++stacked) {
      int min = 0, max = -1;
      if (take('*')) {
      } else if (take('+')) {
        min = 1;
      } else if (take('?')) {
        max = 1;
      } else if (!counted(min, max)) {
        return part;
      }
      if (stacked > 0) return error("a repetition of a repetition");
      if (min > kMaxRepeat || max > kMaxRepeat || (max >= 0 && max < min)) return error("a bad repetition count");
      take('?');  // lazy or greedy: the same texts match
      RegexNode n;
      n.kind = RegexNode::Kind::kRepeat;
      n.min = min;
      n.max = max;
      n.parts.push_back(std::move(part));
      part = std::move(n);
    }
  }

  /// {n}, {n,} or {n,m}; otherwise the brace is a literal.
  bool counted(int& min, int& max) {
    if (peek() != '{') return false;
    size_t i = at_ + 1;
    const auto number = [&](int& value) {
      const size_t from = i;
      value = 0;
      for (; i < p_.size() && p_[i] >= '0' && p_[i] <= '9'; ++i)
        value = std::min(value * 10 + static_cast<int>(p_[i] - '0'), 1000000);
      return i > from;
    };
    if (!number(min)) return false;
    max = min;
    if (i < p_.size() && p_[i] == ',') {
      ++i;
      if (!number(max)) max = -1;
    }
    if (i >= p_.size() || p_[i] != '}') return false;
    at_ = i + 1;
    return true;
  }

  Result<RegexNode> atom(int depth) {
    const char32_t c = p_[at_++];
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        return bracket();
      case '.':
        return set_node(flags_.dot_all ? Set{{0, kLast}} : inverted({{'\n', '\n'}}));
      case '^':
        return assert_node(flags_.multi_line ? Regex::Assert::kLineBegin : Regex::Assert::kTextBegin);
      case '$':
        return assert_node(flags_.multi_line ? Regex::Assert::kLineEnd : Regex::Assert::kTextEnd);
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
        return error("a repetition of nothing");
      default:
        return literal(c);
    }
  }

  Result<RegexNode> group(int depth) {
    const Flags outer = flags_;
    if (take('?')) {
      if (take('P') || (peek() == '<' && peek(1) != '=' && peek(1) != '!')) {
        if (!take('<')) return error("a bad group");
        while (!done() && peek() != '>') ++at_;
        if (!take('>')) return error("a group name without end");
      } else {
        SMELT_ASSIGN(const bool body, flags());
        if (!body) return RegexNode{};  // the flags hold for the rest of the enclosing group
      }
    }
    SMELT_ASSIGN(RegexNode n, choice(depth + 1));
    flags_ = outer;
    if (!take(')')) return error("a group without end");
    return n;
  }

  /// The letters behind "(?"; true when a group body follows them.
  Result<bool> flags() {
    bool on = true;
    while (!done()) {
      switch (p_[at_++]) {
        case 'i':
          flags_.ignore_case = on;
          break;
        case 'm':
          flags_.multi_line = on;
          break;
        case 's':
          flags_.dot_all = on;
          break;
        case 'U':
          break;
        case '-':
          on = false;
          break;
        case ':':
          return true;
        case ')':
          return false;
        default:
          return error("an unknown group flag");
      }
    }
    return error("a group without end");
  }

  /// A character behind a backslash that stands for one code point.
  Result<char32_t> escaped_character() {
    if (done()) return error("a backslash at the end");
    const char32_t c = p_[at_++];
    switch (c) {
      case 'a':
        return char32_t{7};
      case 'f':
        return char32_t{'\f'};
      case 'n':
        return char32_t{'\n'};
      case 'r':
        return char32_t{'\r'};
      case 't':
        return char32_t{'\t'};
      case 'v':
        return char32_t{11};
      case 'x': {
        const bool braced = take('{');
        char32_t v = 0;
        int n = 0;
        for (; !done() && digit_value(peek()) < 16 && n < (braced ? 8 : 2); ++n)
          v = std::min<char32_t>(v * 16 + static_cast<char32_t>(digit_value(p_[at_++])), kLast + 1);
        if (n == 0 || (!braced && n < 2) || (braced && !take('}')) || v > kLast) return error("a bad \\x escape");
        return v;
      }
      case '0': {
        char32_t v = 0;
        for (int n = 0; n < 2 && !done() && peek() >= '0' && peek() <= '7'; ++n) v = v * 8 + (p_[at_++] - '0');
        return v;
      }
      default:
        if (c < 0x80 && (digit_value(c) < 10 || (to_lower(c) >= 'a' && to_lower(c) <= 'z')))
          return error("an escape that is not supported");
        return c;
    }
  }

  Result<RegexNode> escape() {
    const char32_t c = peek();
    Set set = perl_class(c);
    if (!set.empty()) {
      ++at_;
      return set_node(std::move(set));
    }
    using A = Regex::Assert;
    for (const auto& [letter, a] :
         {std::pair{U'A', A::kTextBegin}, {U'z', A::kTextEnd}, {U'b', A::kWordEdge}, {U'B', A::kNoWordEdge}})
      if (c == letter && !done()) {
        ++at_;
        return assert_node(a);
      }
    SMELT_ASSIGN(const char32_t v, escaped_character());
    return literal(v);
  }

  Result<RegexNode> bracket() {
    const bool negated = take('^');
    Set set;
    bool first = true;
    while (true) {
      if (done()) return error("a [ without end");
      if (peek() == ']' && !first) break;
      first = false;
      SMELT_TRY(bracket_item(set));
    }
    ++at_;
    if (flags_.ignore_case) set = folded(set);
    RegexNode n;
    n.kind = RegexNode::Kind::kSet;
    n.set = negated ? inverted(std::move(set)) : std::move(set);
    return n;
  }

  Status bracket_item(Set& set) {
    if (peek() == '[' && peek(1) == ':') {
      const auto end = std::search(p_.begin() + static_cast<std::ptrdiff_t>(at_) + 2, p_.end(), kClose, kClose + 2);
      if (end != p_.end()) {
        std::string name(p_.begin() + static_cast<std::ptrdiff_t>(at_) + 2, end);
        const bool negated = !name.empty() && name[0] == '^';
        Set named = named_class(negated ? name.substr(1) : name);
        if (named.empty()) return error("an unknown character class");
        add(set, negated ? inverted(std::move(named)) : named);
        at_ = static_cast<size_t>(end - p_.begin()) + 2;
        return Ok();
      }
    }
    if (peek() == '\\' && !perl_class(peek(1)).empty()) {
      add(set, perl_class(peek(1)));
      at_ += 2;
      return Ok();
    }
    SMELT_ASSIGN(const char32_t lo, bracket_character());
    char32_t hi = lo;
    if (peek() == '-' && peek(1) != ']' && at_ + 1 < p_.size()) {
      ++at_;
      SMELT_ASSIGN(hi, bracket_character());
      if (hi < lo) return error("a range that runs backwards");
    }
    set.push_back({lo, hi});
    return Ok();
  }

  Result<char32_t> bracket_character() {
    if (done()) return error("a [ without end");
    if (take('\\')) return escaped_character();
    return p_[at_++];
  }

  static constexpr char32_t kClose[] = {':', ']'};
  std::vector<char32_t> p_;
  size_t at_ = 0;
  Flags flags_;
};

}  // namespace

Result<RegexNode> parse_regex(std::string_view pattern) {
  if (pattern.size() > (1u << 20)) return LimitReached("a pattern of ", pattern.size(), " bytes");
  return Parser(pattern).parse();
}

}  // namespace smelt
