#include <algorithm>
#include <span>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/rules.h"
#include "ops/strings/regex.h"
#include "ops/strings/strings.h"
#include "ops/strings/utf8.h"

namespace smelt {
namespace {

using Text = std::span<const char32_t>;

/// First match of `regex` in text from `from` on that is not empty: [begin, end), or begin == -1.
struct Found {
  int64_t begin = -1, end = -1;
};
Found find_match(const Regex& regex, Text text, int64_t from) {
  for (auto at = from; at < static_cast<int64_t>(text.size()); ++at) {
    const int64_t end = regex.longest_match(text, at);
    if (end > at) return {at, end};
  }
  return {};
}

Text part(Text text, int64_t begin, int64_t end) {
  return text.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

}  // namespace

/// Splits one string as the attributes of a Tokenize say.
class Cutter {
 public:
  static Result<Cutter> make(const TokenizeAttrs& a) {
    Cutter c;
    c.min_chars_ = a.min_chars;
    if (!a.token_expression.empty()) {
      SMELT_ASSIGN(Regex regex, Regex::compile(a.token_expression));
      c.tokens_.push_back(std::move(regex));
    }
    for (const std::string& s : a.separators) {
      if (s.empty()) {
        c.characters_ = true;
        continue;
      }
      SMELT_ASSIGN(Regex regex, Regex::compile(s));
      c.separators_.push_back(std::move(regex));
    }
    if (c.separators_.empty() && c.tokens_.empty()) c.characters_ = true;
    return c;
  }

  /// Appends the tokens of text.
  void cut(Text text, std::vector<std::string>& out) const {
    std::vector<Text> parts;
    if (!tokens_.empty()) {
      int64_t at = 0;
      for (Found f = find_match(tokens_[0], text, at); f.begin >= 0; f = find_match(tokens_[0], text, at)) {
        parts.push_back(part(text, f.begin, f.end));
        at = f.end;
      }
    } else if (characters_) {
      for (size_t i = 0; i < text.size(); ++i) parts.push_back(text.subspan(i, 1));
    } else {
      parts.push_back(text);
      for (const Regex& separator : separators_) parts = separated(parts, separator);
    }
    for (const Text& p : parts)
      if (!p.empty() && static_cast<int64_t>(p.size()) >= min_chars_)
        out.push_back(encode_utf8(p.data(), p.data() + p.size()));
  }

 private:
  static std::vector<Text> separated(const std::vector<Text>& parts, const Regex& separator) {
    std::vector<Text> out;
    for (const Text& text : parts) {
      int64_t at = 0;
      for (Found f = find_match(separator, text, at); f.begin >= 0; f = find_match(separator, text, at)) {
        if (f.begin > at) out.push_back(part(text, at, f.begin));
        at = f.end;
      }
      if (at < static_cast<int64_t>(text.size())) out.push_back(text.subspan(static_cast<size_t>(at)));
    }
    return out;
  }

  std::vector<Regex> tokens_, separators_;
  bool characters_ = false;
  int64_t min_chars_ = 1;
};

Status infer_Tokenize(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  if (x.dtype != DType::kString && x.dtype != DType::kInvalid) return InvalidModel("strings expected");
  if (!x.ranked) {
    ctx.set(0, ValueType::tensor(DType::kString));
    return Ok();
  }
  if (x.shape.rank() != 1 && x.shape.rank() != 2) return InvalidModel("strings of rank ", x.shape.rank());
  Shape out = x.shape;
  out.push_back(-1);
  ctx.set(0, ValueType::tensor(DType::kString, out));
  return Ok();
}

Status reference_Tokenize(KernelContext& ctx) {
  const auto& a = ctx.attrs<TokenizeAttrs>();
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const Cutter* const cutter, a.cutter.get([&] { return Cutter::make(a); }));
  std::vector<std::string> tokens;  // of all strings, one behind the other
  std::vector<size_t> ends;
  size_t most = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    SMELT_TRY(ctx.tick());
    const size_t begin = tokens.size();
    if (a.mark) tokens.emplace_back("\x02");  // start of text
    cutter->cut(decode_utf8(x.data<std::string>()[i]), tokens);
    if (a.mark) tokens.emplace_back("\x03");  // end of text
    most = std::max(most, tokens.size() - begin);
    ends.push_back(tokens.size());
  }
  Shape shape = x.shape();
  shape.push_back(static_cast<int64_t>(most));
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kString, shape));
  auto* to = y->data<std::string>();
  size_t from = 0;
  for (const size_t end : ends) {
    std::move(tokens.begin() + static_cast<ptrdiff_t>(from), tokens.begin() + static_cast<ptrdiff_t>(end), to);
    if (!a.pad.empty()) std::fill(to + (end - from), to + most, a.pad);
    to += most;
    from = end;
  }
  return Ok();
}

}  // namespace smelt
