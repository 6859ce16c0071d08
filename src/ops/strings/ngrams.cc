#include <algorithm>
#include <cctype>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/rules.h"
#include "ops/strings/strings.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

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

}  // namespace

/// The n-grams of a TfIdf pool as a tree of numbered items: one walk from a position in a row finds all that begin
/// there.
class NgramPool {
 public:
  static constexpr int32_t kNoEntry = -1;

  static Result<NgramPool> make(const TfIdfAttrs& a) {
    NgramPool pool;
    const size_t items = a.pool_strings.empty() ? a.pool_ints.size() : a.pool_strings.size();
    int32_t entry = 0;
    for (size_t i = 0; i < a.ngram_counts.size(); ++i) {
      const size_t from = static_cast<size_t>(a.ngram_counts[i]), n = i + 1;
      const size_t to = i + 1 < a.ngram_counts.size() ? static_cast<size_t>(a.ngram_counts[i + 1]) : items;
      for (size_t at = from; at + n <= to; at += n) pool.add(a, at, n, entry++);
    }
    if (static_cast<size_t>(entry) != a.ngram_indexes.size())
      return InvalidModel("the pool has ", entry, " n-grams, ", a.ngram_indexes.size(), " have an output index");
    return pool;
  }

  /// The number of an item; kNoEntry when no n-gram holds it.
  int32_t number(const std::string& item) const { return find(strings_, std::string_view(item)); }
  int32_t number(int64_t item) const { return find(ints_, item); }
  /// The node behind a node and an item; kNoEntry when no n-gram goes on so. Node 0 is the root.
  int32_t next(int32_t node, int32_t item) const { return node == 0 ? first_[item] : find(next_, edge(node, item)); }
  /// Entry of the pool that ends at a node, or kNoEntry.
  int32_t entry(int32_t node) const { return entries_[static_cast<size_t>(node)]; }

 private:
  template <class Map, class Key>
  static int32_t find(const Map& map, const Key& key) {
    const auto found = map.find(key);
    return found == map.end() ? kNoEntry : found->second;
  }
  static uint64_t edge(int32_t node, int32_t item) {
    return (static_cast<uint64_t>(node) << 32 | static_cast<uint32_t>(item)) * 0x9e3779b97f4a7c15;
  }

  /// The first of equal n-grams counts.
  void add(const TfIdfAttrs& a, size_t at, size_t n, int32_t entry) {
    int32_t node = 0;
    for (size_t k = at; k < at + n; ++k) {
      const auto fresh = static_cast<int32_t>(first_.size());
      const int32_t item = a.pool_strings.empty() ? ints_.emplace(a.pool_ints[k], fresh).first->second
                                                  : strings_.emplace(a.pool_strings[k], fresh).first->second;
      if (item == fresh) first_.push_back(kNoEntry);
      const auto new_node = static_cast<int32_t>(entries_.size());
      int32_t& to =
          node == 0 ? first_[static_cast<size_t>(item)] : next_.emplace(edge(node, item), kNoEntry).first->second;
      if (to == kNoEntry) {
        to = new_node;
        entries_.push_back(kNoEntry);
      }
      node = to;
    }
    if (entries_[static_cast<size_t>(node)] == kNoEntry) entries_[static_cast<size_t>(node)] = entry;
  }

  std::unordered_map<std::string_view, int32_t> strings_;  ///< views of the attributes
  std::unordered_map<int64_t, int32_t> ints_;
  std::vector<int32_t> first_;  ///< by item: the node of n-grams that begin with it
  std::unordered_map<uint64_t, int32_t> next_;
  std::vector<int32_t> entries_{kNoEntry};  ///< by node
};

namespace {

/// Adds the n-grams of one row of item numbers to the counts of the pool's entries.
Status count_row(KernelContext& ctx, const TfIdfAttrs& a, const NgramPool& pool, const std::vector<int32_t>& row,
                 std::vector<int64_t>& counts) {
  const auto length = static_cast<int64_t>(row.size());
  const int64_t most = std::min<int64_t>(a.max_gram, static_cast<int64_t>(a.ngram_counts.size()));
  const int64_t skips = most == 1 ? 0 : std::min(a.max_skip, length);
  for (int64_t skip = 0; skip <= skips; ++skip) {
    SMELT_TRY(ctx.tick());
    for (int64_t start = 0; start < length; ++start) {
      int32_t node = 0;
      for (int64_t n = 1, at = start; n <= most && at < length; ++n, at += skip + 1) {
        const int32_t item = row[static_cast<size_t>(at)];
        if (item == NgramPool::kNoEntry) break;
        node = pool.next(node, item);
        if (node == NgramPool::kNoEntry) break;
        const int32_t entry = pool.entry(node);
        // Single items have no gaps.
        if (entry != NgramPool::kNoEntry && n >= a.min_gram && (n > 1 || skip == 0))
          ++counts[static_cast<size_t>(entry)];
      }
    }
  }
  return Ok();
}

template <class Read>
Status run_tfidf(KernelContext& ctx, Read&& read) {
  const auto& a = ctx.attrs<TfIdfAttrs>();
  const Tensor& x = ctx.input(0);
  auto* y = ctx.output(0).data<float>();
  SMELT_ASSIGN(const NgramPool* const pool, a.pool.get([&] { return NgramPool::make(a); }));
  const int64_t width = x.rank() == 0 ? 1 : x.shape().back(), rows = x.rank() == 2 ? x.dim(0) : 1;
  const int64_t outputs = features(a);
  const bool weighted = a.mode != "TF" && !a.weights.empty(), counted = a.mode != "IDF";
  std::vector<int64_t> counts(a.ngram_indexes.size());
  std::vector<int32_t> row(static_cast<size_t>(width));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) row[static_cast<size_t>(i)] = pool->number(read(x, r * width + i));
    std::fill(counts.begin(), counts.end(), 0);
    SMELT_TRY(count_row(ctx, a, *pool, row, counts));
    for (size_t k = 0; k < counts.size(); ++k) {
      if (counts[k] == 0) continue;
      const double value = (weighted ? a.weights[k] : 1) * (counted ? static_cast<double>(counts[k]) : 1);
      if (value != 0) y[r * outputs + a.ngram_indexes[k]] = static_cast<float>(value);
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
  if (ctx.input(0).dtype() == DType::kString)
    return run_tfidf(ctx, [](const Tensor& t, int64_t i) -> const std::string& { return t.data<std::string>()[i]; });
  return run_tfidf(ctx, [](const Tensor& t, int64_t i) { return get_int(t, i); });
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

/// Enumerates the n-grams depth first; `position` holds the word at each depth.
Status collect_grams(KernelContext& ctx, const SkipGramAttrs& a, const std::vector<std::string>& words,
                     std::vector<std::string>& out) {
  const auto n = static_cast<int64_t>(words.size());
  std::vector<int64_t> position(static_cast<size_t>(a.ngram), 0);
  int64_t depth = 1;
  size_t bytes = 0;
  while (depth >= 0) {
    SMELT_TRY(ctx.tick());
    const auto d = static_cast<size_t>(depth);
    const bool deeper =
        depth < a.ngram && position[d] + 1 < n && (depth == 0 || position[d] - position[d - 1] <= a.max_skip);
    if (deeper) {
      ++position[d];
      ++depth;
      if (depth < a.ngram) position[d + 1] = position[d];
      continue;
    }
    if (depth > 0 && (a.all_ngrams || depth == a.ngram)) {
      std::string gram = words[static_cast<size_t>(position[0])];
      for (size_t k = 1; k < d; ++k) gram += " " + words[static_cast<size_t>(position[k])];
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
