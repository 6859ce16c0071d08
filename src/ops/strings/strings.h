#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "ops/common/prepared.h"
#include "smelt/tensor.h"

namespace smelt {

class Cutter;     // tokenize.cc
class NgramPool;  // ngrams.cc
class Regex;

struct StringNormalizeAttrs : Attrs {
  std::string change_case = "NONE";  ///< NONE, LOWER, UPPER
  bool case_sensitive = false;
  std::vector<std::string> stopwords;
  std::string locale;
  SMELT_FIELDS(change_case, case_sensitive, stopwords, locale)
};
struct StringSplitAttrs : Attrs {
  std::string delimiter;  ///< empty: runs of white space
  int64_t max_splits = -1;
  SMELT_FIELDS(delimiter, max_splits)
};
struct StringPatternAttrs : Attrs {
  std::string pattern;
  Prepared<Regex> regex;
  SMELT_FIELDS(pattern)
};
struct TokenizeAttrs : Attrs {
  bool mark = false;
  int64_t min_chars = 1;
  std::string pad, token_expression;
  std::vector<std::string> separators;
  Prepared<Cutter> cutter;
  SMELT_FIELDS(mark, min_chars, pad, token_expression, separators)
};
struct TfIdfAttrs : Attrs {
  std::string mode;  ///< TF, IDF, TFIDF
  int64_t min_gram = 1, max_gram = 1, max_skip = 0;
  std::vector<int64_t> ngram_counts, ngram_indexes, pool_ints;
  std::vector<std::string> pool_strings;
  std::vector<double> weights;
  Prepared<NgramPool> pool;
  SMELT_FIELDS(mode, min_gram, max_gram, max_skip, ngram_counts, ngram_indexes, pool_ints, pool_strings, weights)
};
struct SkipGramAttrs : Attrs {
  int64_t ngram = 1, max_skip = 0;
  bool all_ngrams = false;
  SMELT_FIELDS(ngram, max_skip, all_ngrams)
};
struct HashAttrs : Attrs {
  enum class Kind : uint8_t { kMurmur3, kLshSparse, kLshDense } kind = Kind::kMurmur3;
  friend SMELT_ENUM_NAMES(Kind, "murmur3", "lsh_sparse", "lsh_dense");
  bool positive = true;
  int64_t seed = 0;
  SMELT_FIELDS(kind, positive, seed)
};

}  // namespace smelt
