#include <algorithm>

#include "base/error.h"
#include "ops/op.h"
#include "ops/shape/rules.h"
#include "ops/strings/regex.h"
#include "ops/strings/strings.h"
#include "ops/strings/utf8.h"

namespace smelt {
namespace {

using Text = std::vector<char32_t>;

/// First match of `regex` in text from `from` on that is not empty: [begin, end), or begin == -1.
struct Found {
  int64_t begin = -1, end = -1;
};
Found find_match(const Regex& regex, const Text& text, int64_t from) {
  for (auto at = from; at < static_cast<int64_t>(text.size()); ++at) {
    const int64_t end = regex.longest_match(text, at);
    if (end > at) return {at, end};
  }
  return {};
}

Text part(const Text& text, int64_t begin, int64_t end) { return Text(text.begin() + begin, text.begin() + end); }

/// How a Tokenize cuts one string.
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
  std::vector<std::string> cut(const Text& text) const {
    std::vector<Text> pieces;
    if (!tokens_.empty()) {
      int64_t at = 0;
      for (Found f = find_match(tokens_[0], text, at); f.begin >= 0; f = find_match(tokens_[0], text, at)) {
        pieces.push_back(part(text, f.begin, f.end));
        at = f.end;
      }
    } else if (characters_) {
      for (char32_t c : text) pieces.push_back({c});
    } else {
      pieces.push_back(text);
      for (const Regex& separator : separators_) pieces = separated(pieces, separator);
    }
    std::vector<std::string> out;
    for (const Text& p : pieces)
      if (!p.empty() && static_cast<int64_t>(p.size()) >= min_chars_)
        out.push_back(encode_utf8(p.data(), p.data() + p.size()));
    return out;
  }

 private:
  static std::vector<Text> separated(const std::vector<Text>& pieces, const Regex& separator) {
    std::vector<Text> out;
    for (const Text& text : pieces) {
      int64_t at = 0;
      for (Found f = find_match(separator, text, at); f.begin >= 0; f = find_match(separator, text, at)) {
        if (f.begin > at) out.push_back(part(text, at, f.begin));
        at = f.end;
      }
      if (at < static_cast<int64_t>(text.size())) out.push_back(part(text, at, static_cast<int64_t>(text.size())));
    }
    return out;
  }

  std::vector<Regex> tokens_, separators_;
  bool characters_ = false;
  int64_t min_chars_ = 1;
};

}  // namespace

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
  SMELT_ASSIGN(const Cutter cutter, Cutter::make(a));
  std::vector<std::vector<std::string>> rows;
  size_t most = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    SMELT_TRY(ctx.tick());
    auto tokens = cutter.cut(decode_utf8(x.data<std::string>()[i]));
    if (a.mark) {
      // Start and end of text.
      tokens.insert(tokens.begin(), "\x02");
      tokens.emplace_back("\x03");
    }
    most = std::max(most, tokens.size());
    rows.push_back(std::move(tokens));
  }
  Shape shape = x.shape();
  shape.push_back(static_cast<int64_t>(most));
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kString, shape));
  auto* to = y->data<std::string>();
  for (auto& row : rows) {
    row.resize(most, a.pad);
    to = std::move(row.begin(), row.end(), to);
  }
  return Ok();
}

}  // namespace smelt
