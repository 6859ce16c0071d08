#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "ops/common/prepared.h"
#include "smelt/tensor.h"

namespace smelt {

struct KeyIndex;  // features.cc

/// Transform of the scores of one row.
enum class PostTransform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
inline SMELT_ENUM_NAMES(PostTransform, "none", "softmax", "logistic", "softmax_zero", "probit");

/// Class labels: strings or integers; both empty for regressors.
struct ClassLabels {
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  size_t size() const { return strings.empty() ? ints.size() : strings.size(); }
  bool empty() const { return ints.empty() && strings.empty(); }
};

/// Decision trees. A child or root >= 0 is a node, one below 0 is leaf ~value.
struct TreeEnsembleAttrs : Attrs {
  enum class Mode : uint8_t { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMember };
  enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };
  friend SMELT_ENUM_NAMES(Aggregate, "average", "sum", "min", "max");
  std::vector<int32_t> roots;
  std::vector<int32_t> yes, no, feature;
  std::vector<Mode> mode;
  std::vector<double> split;
  std::vector<uint8_t> missing_is_yes;
  std::vector<std::vector<double>> members;  ///< by node; the sets of kMember nodes
  std::vector<int32_t> leaf_begin;           ///< leaf i votes with entries [leaf_begin[i], leaf_begin[i + 1])
  std::vector<int32_t> vote_target;
  std::vector<double> vote_weight;
  int64_t targets = 1;
  std::vector<double> base;  ///< empty or one a target
  Aggregate aggregate = Aggregate::kSum;
  PostTransform post = PostTransform::kNone;
  bool classifier = false;
  bool one_vote_class = false;   ///< two classes, all votes for one of them
  bool positive_weights = true;  ///< no vote is negative
  ClassLabels labels;
  SMELT_FIELDS(targets, aggregate, post, classifier, roots)
};

/// scores = coefficients [targets, features] @ x + intercepts, then the transform.
struct LinearModelAttrs : Attrs {
  std::vector<float> coefficients, intercepts;
  int64_t targets = 1;
  PostTransform post = PostTransform::kNone;
  bool classifier = false;
  ClassLabels labels;
  SMELT_FIELDS(targets, post, classifier)
};

struct SvmAttrs : Attrs {
  enum class Kernel : uint8_t { kLinear, kPoly, kRbf, kSigmoid } kernel = Kernel::kLinear;
  friend SMELT_ENUM_NAMES(Kernel, "linear", "poly", "rbf", "sigmoid");
  double gamma = 0, coef0 = 0, degree = 0;
  std::vector<float> coefficients, support_vectors, rho, prob_a, prob_b;
  std::vector<int64_t> vectors_per_class;  ///< empty: a linear classifier, or a regressor
  int64_t supports = 0;                    ///< regressor: number of support vectors; 0: linear
  bool one_class = false;
  PostTransform post = PostTransform::kNone;
  bool classifier = false;
  ClassLabels labels;
  SMELT_FIELDS(kernel, gamma, coef0, degree, supports, one_class, post, classifier)
};

struct FeatureNormalizeAttrs : Attrs {
  enum class Norm : uint8_t { kMax, kL1, kL2 } norm = Norm::kMax;
  friend SMELT_ENUM_NAMES(Norm, "max", "l1", "l2");
  SMELT_FIELDS(norm)
};

struct ImputeAttrs : Attrs {
  std::vector<double> floats;  ///< imputed values: one, or one a column
  std::vector<int64_t> ints;   ///< the same for integer tensors
  double replaced = 0;         ///< NaN matches NaN
  int64_t replaced_int = 0;
  SMELT_FIELDS(floats, ints, replaced, replaced_int)
};

struct FeatureConcatAttrs : Attrs {
  std::vector<int64_t> sizes;  ///< columns to take of each input (zero-filled); empty: all of them
  SMELT_FIELDS(sizes)
};

/// Maps keys to values; of equal keys, the last one counts.
struct LabelEncodeAttrs : Attrs {
  Tensor keys, values;     ///< [n]
  Tensor fallback;         ///< one element of values' type
  bool nan_is_key = true;  ///< a NaN among the keys is found
  Prepared<KeyIndex> index;
  SMELT_ATTRS_TYPE
  void visit(AttrVisitor& v) const override { v.any("entries", keys.elements()); }
};

struct CategoryOneHotAttrs : Attrs {
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  bool zeros = true;  ///< an unknown category gives zeros; else it is an error
  SMELT_FIELDS(ints, strings, zeros)
};

struct NgramAttrs : Attrs {
  int64_t size = 1;
  SMELT_FIELDS(size)
};

struct MapAttrs : Attrs {
  ClassLabels keys;  ///< ZipMap: keys of the columns; DictVectorize: the vocabulary
  DType to = DType::kF32;
  bool sparse = false;  ///< MapToTensor: keys are positions among max_map
  int64_t max_map = 1;
  SMELT_FIELDS(to, sparse, max_map)
};

}  // namespace smelt
