#include "ops/strings/strings.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/rules.h"
#include "ops/strings/regex.h"
#include "ops/strings/utf8.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

Status need_strings(const InferContext& ctx, int count) {
  SMELT_TRY(need_tensors(ctx, count));
  for (int i = 0; i < count; ++i)
    if (ctx.input(i).dtype != DType::kString && ctx.input(i).dtype != DType::kInvalid)
      return InvalidModel("input ", i, " is ", to_string(ctx.input(i).dtype), ", strings expected");
  return Ok();
}

}  // namespace

Status infer_StringNormalize(InferContext& ctx) {
  SMELT_TRY(need_strings(ctx, 1));
  const auto& a = ctx.attrs<StringNormalizeAttrs>();
  if (a.change_case != "NONE" && a.change_case != "LOWER" && a.change_case != "UPPER")
    return InvalidModel("case change '", a.change_case, "'");
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, ValueType::tensor(DType::kString));
    return Ok();
  }
  if (x.shape.rank() == 1) {
    ctx.set(0, ValueType::tensor(DType::kString, Shape{-1}));
  } else if (x.shape.rank() == 2 && (x.shape[0] == 1 || x.shape[0] < 0)) {
    ctx.set(0, ValueType::tensor(DType::kString, Shape{1, -1}));
  } else {
    return InvalidModel("strings of shape ", x.shape.str(), ", [C] or [1,C] expected");
  }
  return Ok();
}

Status reference_StringNormalize(KernelContext& ctx) {
  const auto& a = ctx.attrs<StringNormalizeAttrs>();
  const Tensor& x = ctx.input(0);
  const auto key = [&](const std::string& s) { return a.case_sensitive ? s : change_case(s, false); };
  std::vector<std::string> stop, kept;
  for (const std::string& s : a.stopwords) stop.push_back(key(s));
  std::sort(stop.begin(), stop.end());
  kept.reserve(static_cast<size_t>(x.elements()));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const std::string& s = x.data<std::string>()[i];
    if (!stop.empty() && std::binary_search(stop.begin(), stop.end(), key(s))) continue;
    kept.push_back(a.change_case == "NONE" ? s : change_case(s, a.change_case == "UPPER"));
  }
  if (kept.empty()) kept.emplace_back();
  const auto n = static_cast<int64_t>(kept.size());
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kString, x.rank() == 2 ? Shape{1, n} : Shape{n}));
  std::move(kept.begin(), kept.end(), y->data<std::string>());
  return Ok();
}

Status infer_StringConcat(InferContext& ctx) {
  SMELT_TRY(need_strings(ctx, 2));
  const ValueType &a = ctx.input(0), &b = ctx.input(1);
  if (!a.ranked || !b.ranked) {
    ctx.set(0, ValueType::tensor(DType::kString));
    return Ok();
  }
  SMELT_ASSIGN(const Shape out, broadcast_both(a.shape, b.shape));
  ctx.set(0, ValueType::tensor(DType::kString, out));
  return Ok();
}

Status reference_StringConcat(KernelContext& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  Tensor& y = ctx.output(0);
  const Shape strides = y.shape().strides(), as = a.shape().strides(), bs = b.shape().strides();
  for (int64_t i = 0; i < y.elements(); ++i) {
    int64_t rest = i, ia = 0, ib = 0;
    for (int d = 0; d < y.rank(); ++d) {
      const int64_t at = rest / strides[d];
      rest %= strides[d];
      const int da = d - (y.rank() - a.rank()), db = d - (y.rank() - b.rank());
      if (da >= 0 && a.dim(da) != 1) ia += at * as[da];
      if (db >= 0 && b.dim(db) != 1) ib += at * bs[db];
    }
    y.data<std::string>()[i] = a.data<std::string>()[ia] + b.data<std::string>()[ib];
  }
  return Ok();
}

namespace {

/// Pieces of text between runs of white space, at most `most` splits (-1: all), as Python's split().
std::vector<std::string> split_spaces(const std::string& text, int64_t most) {
  const auto chars = decode_utf8(text);
  std::vector<std::string> out;
  size_t i = 0;
  while (true) {
    while (i < chars.size() && is_space(chars[i])) ++i;
    if (i == chars.size()) return out;
    size_t end = i;
    if (most >= 0 && static_cast<int64_t>(out.size()) >= most) {
      // The rest is one part, without the white space behind it.
      end = chars.size();
      while (end > i && is_space(chars[end - 1])) --end;
      out.push_back(encode_utf8(&chars[i], chars.data() + end));
      return out;
    }
    while (end < chars.size() && !is_space(chars[end])) ++end;
    out.push_back(encode_utf8(&chars[i], chars.data() + end));
    i = end;
  }
}

std::vector<std::string> split_by(const std::string& text, const std::string& delimiter, int64_t most) {
  std::vector<std::string> out;
  if (text.empty()) return out;
  size_t from = 0;
  while (most < 0 || static_cast<int64_t>(out.size()) < most) {
    const size_t at = text.find(delimiter, from);
    if (at == std::string::npos) break;
    out.push_back(text.substr(from, at - from));
    from = at + delimiter.size();
  }
  out.push_back(text.substr(from));
  return out;
}

}  // namespace

Status infer_StringSplit(InferContext& ctx) {
  SMELT_TRY(need_strings(ctx, 1));
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, ValueType::tensor(DType::kString));
    ctx.set(1, ValueType::tensor(DType::kI64));
    return Ok();
  }
  if (x.shape.rank() == Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
  Shape out = x.shape;
  out.push_back(-1);
  ctx.set(0, ValueType::tensor(DType::kString, out));
  ctx.set(1, ValueType::tensor(DType::kI64, x.shape));
  return Ok();
}

Status reference_StringSplit(KernelContext& ctx) {
  const auto& a = ctx.attrs<StringSplitAttrs>();
  const Tensor& x = ctx.input(0);
  std::vector<std::vector<std::string>> parts;
  size_t most = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const std::string& s = x.data<std::string>()[i];
    parts.push_back(a.delimiter.empty() ? split_spaces(s, a.max_splits) : split_by(s, a.delimiter, a.max_splits));
    most = std::max(most, parts.back().size());
  }
  Shape shape = x.shape();
  shape.push_back(static_cast<int64_t>(most));
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kString, shape));
  for (size_t i = 0; i < parts.size(); ++i)
    std::copy(parts[i].begin(), parts[i].end(), y->data<std::string>() + i * most);
  SMELT_ASSIGN(Tensor * counts, ctx.allocate(1, DType::kI64, x.shape()));
  for (size_t i = 0; i < parts.size(); ++i) counts->data<int64_t>()[i] = static_cast<int64_t>(parts[i].size());
  return Ok();
}

Status infer_RegexMatch(InferContext& ctx) {
  SMELT_TRY(need_strings(ctx, 1));
  ValueType out = ctx.input(0);
  out.dtype = DType::kBool;
  ctx.set(0, out);
  return Ok();
}

Status reference_RegexMatch(KernelContext& ctx) {
  const auto& a = ctx.attrs<StringPatternAttrs>();
  SMELT_ASSIGN(const Regex* const regex, a.regex.get([&] { return Regex::compile(a.pattern); }));
  const Tensor& x = ctx.input(0);
  for (int64_t i = 0; i < x.elements(); ++i) {
    SMELT_TRY(ctx.tick());
    ctx.output(0).data<uint8_t>()[i] = regex->full_match(decode_utf8(x.data<std::string>()[i]));
  }
  return Ok();
}

}  // namespace smelt
