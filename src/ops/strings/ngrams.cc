#include <algorithm>
#include <cctype>
#include <functional>
#include <span>
#include <unordered_map>

#include "base/error.h"
#include "ops/op.h"
#include "ops/shape/rules.h"
#include "ops/strings/strings.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

template <class Item>
struct GramHash {
  size_t operator()(std::span<const Item> gram) const {
    size_t h = gram.size();
    for (const Item& i : gram) h = h * 1099511628211u + std::hash<Item>()(i);
    return h;
  }
};
template <class Item>
struct GramEqual {
  bool operator()(std::span<const Item> a, std::span<const Item> b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
};

/// Entries of a TfIdf pool of one n-gram size, by content (views of the pool): where their counts go and what they
/// weigh.
template <class Item>
using Pool = std::unordered_map<std::span<const Item>, size_t, GramHash<Item>, GramEqual<Item>>;

Status check_tfidf(const TfIdfAttrs& a) {
  const size_t pool = a.pool_strings.empty() ? a.pool_ints.size() : a.pool_strings.size();
  if (a.mode != "TF" && a.mode != "IDF" && a.mode != "TFIDF") return InvalidModel("mode '", a.mode, "'");
  if (a.min_gram < 1 || a.max_gram < a.min_gram || a.max_skip < 0)
    return InvalidModel("n-grams of ", a.min_gram, " to ", a.max_gram, " with skips of ", a.max_skip);
  for (size_t i = 0; i < a.ngram_counts.size(); ++i) {
    const int64_t from = a.ngram_counts[i];
    const int64_t to = i + 1 < a.ngram_counts.size() ? a.ngram_counts[i + 1] : static_cast<int64_t>(pool);
    if (from < 0 || to < from || to > static_cast<int64_t>(pool) || (to - from) % static_cast<int64_t>(i + 1) != 0)
      return InvalidModel("the pool of ", i + 1, "-grams runs from ", from, " to ", to, " of ", pool, " items");
  }
  for (int64_t i : a.ngram_indexes)
    if (i < 0 || i > (int64_t{1} << 32)) return InvalidModel("an output index of ", i);
  if (!a.weights.empty() && a.weights.size() != a.ngram_indexes.size())
    return InvalidModel(a.weights.size(), " weights for ", a.ngram_indexes.size(), " n-grams");
  return Ok();
}

int64_t features(const TfIdfAttrs& a) {
  int64_t n = 0;
  for (int64_t i : a.ngram_indexes) n = std::max(n, i + 1);
  return n;
}

template <class Item>
Result<std::vector<Pool<Item>>> pools_of(const TfIdfAttrs& a, const std::vector<Item>& items) {
  std::vector<Pool<Item>> pools;
  size_t entry = 0;
  for (size_t i = 0; i < a.ngram_counts.size(); ++i) {
    const size_t from = static_cast<size_t>(a.ngram_counts[i]), n = i + 1;
    const size_t to = i + 1 < a.ngram_counts.size() ? static_cast<size_t>(a.ngram_counts[i + 1]) : items.size();
    Pool<Item> pool;
    pool.reserve((to - from) / n);
    for (size_t at = from; at + n <= to; at += n) pool.emplace(std::span<const Item>(items).subspan(at, n), entry++);
    pools.push_back(std::move(pool));
  }
  if (entry != a.ngram_indexes.size())
    return InvalidModel("the pool has ", entry, " n-grams, ", a.ngram_indexes.size(), " have an output index");
  return pools;
}

/// Adds the n-grams of one row to their counts.
template <class Item>
Status count_row(KernelContext& ctx, const TfIdfAttrs& a, const std::vector<Pool<Item>>& pools,
                 const std::vector<Item>& row, std::vector<int64_t>& counts) {
  const auto length = static_cast<int64_t>(row.size());
  std::vector<Item> gram;
  for (int64_t n = a.min_gram; n <= std::min<int64_t>(a.max_gram, static_cast<int64_t>(pools.size())); ++n) {
    const Pool<Item>& pool = pools[static_cast<size_t>(n - 1)];
    if (pool.empty()) continue;
    const int64_t skips = n == 1 ? 0 : std::min(a.max_skip, length);
    for (int64_t skip = 0; skip <= skips && (n - 1) * (skip + 1) < length; ++skip) {
      SMELT_TRY(ctx.tick());
      for (int64_t start = 0; start + (n - 1) * (skip + 1) < length; ++start) {
        gram.clear();
        for (int64_t k = 0; k < n; ++k) gram.push_back(row[static_cast<size_t>(start + k * (skip + 1))]);
        const auto found = pool.find(std::span<const Item>(gram));
        if (found != pool.end()) ++counts[found->second];
      }
    }
  }
  return Ok();
}

template <class Item, class Read>
Status run_tfidf(KernelContext& ctx, const std::vector<Item>& items, Read&& read) {
  const auto& a = ctx.attrs<TfIdfAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const auto pools, pools_of(a, items));
  const int64_t width = x.rank() == 0 ? 1 : x.shape().back(), rows = x.rank() == 2 ? x.dim(0) : 1;
  const int64_t outputs = features(a);
  for (int64_t i = 0; i < y.elements(); ++i) set_double(y, i, 0);
  std::vector<int64_t> counts(a.ngram_indexes.size());
  std::vector<Item> row;
  for (int64_t r = 0; r < rows; ++r) {
    row.clear();
    for (int64_t i = 0; i < width; ++i) row.push_back(read(x, r * width + i));
    std::fill(counts.begin(), counts.end(), 0);
    SMELT_TRY(count_row(ctx, a, pools, row, counts));
    for (size_t k = 0; k < counts.size(); ++k) {
      const double weight = a.weights.empty() ? 1 : a.weights[k];
      const auto n = static_cast<double>(counts[k]);
      const double value = a.mode == "TF" ? n : (a.mode == "IDF" ? (n > 0 ? weight : 0) : n * weight);
      if (value != 0) set_double(y, r * outputs + a.ngram_indexes[k], value);
    }
  }
  return Ok();
}

}  // namespace

Status infer_TfIdf(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& a = ctx.attrs<TfIdfAttrs>();
  SMELT_TRY(check_tfidf(a));
  const ValueType& x = ctx.input(0);
  if ((x.dtype == DType::kString) == a.pool_strings.empty() && x.dtype != DType::kInvalid && !a.ngram_indexes.empty())
    return InvalidModel("the pool does not hold elements of ", to_string(x.dtype));
  if (!x.ranked) {
    ctx.set(0, ValueType::tensor(DType::kF32));
    return Ok();
  }
  if (x.shape.rank() > 2) return InvalidModel("rank ", x.shape.rank(), ", 1 or 2 expected");
  const int64_t n = features(a);
  ctx.set(0, ValueType::tensor(DType::kF32, x.shape.rank() == 2 ? Shape{x.shape[0], n} : Shape{n}));
  return Ok();
}

Status reference_TfIdf(KernelContext& ctx) {
  const auto& a = ctx.attrs<TfIdfAttrs>();
  if (ctx.input(0).dtype() == DType::kString)
    return run_tfidf(ctx, a.pool_strings, [](const Tensor& t, int64_t i) { return t.data<std::string>()[i]; });
  return run_tfidf(ctx, a.pool_ints, [](const Tensor& t, int64_t i) { return get_int(t, i); });
}

Status infer_SkipGram(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& a = ctx.attrs<SkipGramAttrs>();
  if (a.ngram < 1 || a.ngram > 1000 || a.max_skip < 0)
    return InvalidModel("n-grams of ", a.ngram, " with skips of ", a.max_skip);
  if (ctx.input(0).dtype != DType::kString && ctx.input(0).dtype != DType::kInvalid)
    return InvalidModel("a string expected");
  ctx.set(0, ValueType::tensor(DType::kString, Shape{-1}));
  return Ok();
}

namespace {

constexpr size_t kMaxGrams = size_t{1} << 22;

/// Words between white space. White space at the very beginning stays with the first word, as TFLite has it.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  const auto space = [&](size_t i) { return std::isspace(static_cast<unsigned char>(text[i])) != 0; };
  size_t from = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    if (!space(i)) continue;
    if (i > from && !space(from)) out.push_back(text.substr(from, i - from));
    from = i + 1;
  }
  if (text.size() > from) out.push_back(text.substr(from));
  return out;
}

/// Enumerates the n-grams depth first; `place` holds the word at each depth.
Status collect_grams(KernelContext& ctx, const SkipGramAttrs& a, const std::vector<std::string>& words,
                     std::vector<std::string>& out) {
  const auto n = static_cast<int64_t>(words.size());
  std::vector<int64_t> place(static_cast<size_t>(a.ngram), 0);
  int64_t depth = 1;
  size_t bytes = 0;
  while (depth >= 0) {
    SMELT_TRY(ctx.tick());
    const auto d = static_cast<size_t>(depth);
    const bool deeper = depth < a.ngram && place[d] + 1 < n && (depth == 0 || place[d] - place[d - 1] <= a.max_skip);
    if (deeper) {
      ++place[d];
      ++depth;
      if (depth < a.ngram) place[d + 1] = place[d];
      continue;
    }
    if (depth > 0 && (a.all_ngrams || depth == a.ngram)) {
      std::string gram = words[static_cast<size_t>(place[0])];
      for (size_t k = 1; k < d; ++k) gram += " " + words[static_cast<size_t>(place[k])];
      bytes += gram.size() + sizeof(std::string);
      if (out.size() >= kMaxGrams || bytes > (size_t{1} << 30))
        return LimitReached("more than ", out.size(), " n-grams");
      out.push_back(std::move(gram));
    }
    --depth;
  }
  return Ok();
}

}  // namespace

Status reference_SkipGram(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.elements() != 1) return InvalidInput(x.elements(), " strings, one sentence expected");
  const auto words = words_of(x.data<std::string>()[0]);
  std::vector<std::string> grams;
  if (!words.empty()) SMELT_TRY(collect_grams(ctx, ctx.attrs<SkipGramAttrs>(), words, grams));
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kString, Shape{static_cast<int64_t>(grams.size())}));
  std::move(grams.begin(), grams.end(), y->data<std::string>());
  return Ok();
}

}  // namespace smelt
