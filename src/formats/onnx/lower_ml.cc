// Operators of ai.onnx.ml except trees.
#include <cmath>

#include "formats/onnx/microsoft.h"
#include "formats/onnx/ml_readers.h"
#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/ml/scores.h"
#include "ops/shape/shape.h"

namespace smelt::onnx {

PostTransform post_transform(NodeContext& n) {
  const std::string p = n.s("post_transform", "NONE");
  if (p == "SOFTMAX") return PostTransform::kSoftmax;
  if (p == "LOGISTIC") return PostTransform::kLogistic;
  if (p == "SOFTMAX_ZERO") return PostTransform::kSoftmaxZero;
  if (p == "PROBIT") return PostTransform::kProbit;
  if (p != "NONE") n.fail("post_transform is '", p, "'");
  return PostTransform::kNone;
}

ClassLabels class_labels(NodeContext& n, const char* ints, const char* strings) {
  ClassLabels l{n.ints(ints), n.strings(strings)};
  if (!l.strings.empty()) l.ints.clear();
  return l;
}

namespace {

ValueId floats(NodeContext& n, const std::vector<float>& v) {
  return n.constant(Tensor::from<float>(DType::kF32, Shape{static_cast<int64_t>(v.size())}, v));
}

void lower_array_feature_extractor(NodeContext& n) {
  ValueId x = n.in(0);
  const ValueId columns = n.reshape(n.in(1), {-1});
  if (n.rank(x) == 1) x = n.unsqueeze(x, {0});
  GatherAttrs a;
  a.axis = -1;
  a.negative = false;
  n.emit(Op::kGather, a, {x, columns});
}

void lower_binarizer(NodeContext& n) {
  const ValueId x = n.in(0);
  const DType d = n.dtype(x);
  if (d == DType::kInvalid) return n.unsupported("the element type of the input must be known at load");
  const bool exact = is_float(d);
  const ValueId real = exact ? x : n.cast(x, DType::kF64);
  n.bind(0, n.cast(n.binary(Binary::kGreater, real, n.scalar_like(real, n.f("threshold", 0))), d));
}

void lower_scaler(NodeContext& n) {
  ValueId x = n.cast(n.in(0), DType::kF32);
  const auto offset = n.floats("offset"), scale = n.floats("scale");
  if (!offset.empty()) x = n.binary(Binary::kSub, x, floats(n, offset));
  if (!scale.empty()) x = n.binary(Binary::kMul, x, floats(n, scale));
  n.bind(0, x);
}

void lower_normalizer(NodeContext& n) {
  using Norm = FeatureNormalizeAttrs::Norm;
  FeatureNormalizeAttrs a;
  const std::string norm = n.s("norm", "MAX");
  if (norm == "L1")
    a.norm = Norm::kL1;
  else if (norm == "L2")
    a.norm = Norm::kL2;
  else if (norm != "MAX")
    return n.fail("norm is '", norm, "'");
  n.emit(Op::kFeatureNormalize, a, {n.in(0)});
}

void lower_imputer(NodeContext& n) {
  ImputeAttrs a;
  a.floats = n.doubles("imputed_value_floats");
  a.ints = n.ints("imputed_value_int64s");
  a.replaced = n.f("replaced_value_float", 0);
  a.replaced_int = n.i("replaced_value_int64", 0);
  n.emit(Op::kImpute, a, {n.in(0)});
}

void lower_feature_vectorizer(NodeContext& n) {
  FeatureConcatAttrs a;
  a.sizes = n.ints("inputdimensions");
  for (const int64_t s : a.sizes)
    if (s < 0) return n.fail("an input dimension is ", s);
  n.emit(Op::kFeatureConcat, a, n.all_inputs());
}

void lower_one_hot_encoder(NodeContext& n) {
  CategoryOneHotAttrs a;
  a.ints = n.ints("cats_int64s");
  a.strings = n.strings("cats_strings");
  a.zeros = n.flag("zeros", true);
  if (a.ints.empty() == a.strings.empty()) return n.fail("one of cats_int64s and cats_strings must be given");
  n.emit(Op::kCategoryOneHot, a, {n.in(0)});
}

Tensor int_tensor(const std::vector<int64_t>& v) {
  return Tensor::from<int64_t>(DType::kI64, Shape{static_cast<int64_t>(v.size())}, v);
}
Tensor string_tensor(const std::vector<std::string>& v) {
  return Tensor::from<std::string>(DType::kString, Shape{static_cast<int64_t>(v.size())}, v);
}
Tensor float_tensor(const std::vector<float>& v) {
  return Tensor::from<float>(DType::kF32, Shape{static_cast<int64_t>(v.size())}, v);
}

void emit_encoder(NodeContext& n, LabelEncodeAttrs a) {
  if (!n.ok()) return;
  if (!a.keys.defined() || !a.values.defined()) return n.fail("keys or values are missing");
  if (a.keys.elements() != a.values.elements())
    return n.fail(a.keys.elements(), " keys and ", a.values.elements(), " values");
  if (a.fallback.dtype() != a.values.dtype() || a.fallback.elements() < 1)
    return n.fail("the default is no single ", to_string(a.values.dtype()));
  n.emit(Op::kLabelEncode, pack(std::move(a)), {n.in(0)});
}

/// Version 1 and CategoryMapper: strings to integers or back, whichever the input is.
void emit_two_way(NodeContext& n, const std::vector<std::string>& strings, const std::vector<int64_t>& ints) {
  LabelEncodeAttrs a;
  const bool from_strings = n.dtype(n.in(0)) == DType::kString;
  a.keys = from_strings ? string_tensor(strings) : int_tensor(ints);
  a.values = from_strings ? int_tensor(ints) : string_tensor(strings);
  a.fallback =
      from_strings ? int_tensor({n.i("default_int64", -1)}) : string_tensor({n.s("default_string", "_Unused")});
  emit_encoder(n, std::move(a));
}

void lower_category_mapper(NodeContext& n) { emit_two_way(n, n.strings("cats_strings"), n.ints("cats_int64s")); }

Tensor encoder_list(NodeContext& n, const std::string& prefix) {
  if (n.has_attr(prefix + "_tensor")) {
    auto t = n.tensor(prefix + "_tensor");
    return t ? *t : Tensor{};
  }
  if (n.has_attr(prefix + "_strings")) return string_tensor(n.strings(prefix + "_strings"));
  if (n.has_attr(prefix + "_int64s")) return int_tensor(n.ints(prefix + "_int64s"));
  if (n.has_attr(prefix + "_floats")) return float_tensor(n.floats(prefix + "_floats"));
  return {};
}

void lower_label_encoder(NodeContext& n) {
  if (n.version() < 2) {
    const auto classes = n.strings("classes_strings");
    std::vector<int64_t> positions;
    for (size_t i = 0; i < classes.size(); ++i) positions.push_back(static_cast<int64_t>(i));
    return emit_two_way(n, classes, positions);
  }
  LabelEncodeAttrs a;
  a.nan_is_key = n.version() >= 4;
  a.keys = encoder_list(n, "keys");
  a.values = encoder_list(n, "values");
  if (!n.ok()) return;
  if (n.has_attr("default_tensor")) {
    auto t = n.tensor("default_tensor");
    if (t) a.fallback = *t;
  } else if (a.values.dtype() == DType::kString) {
    a.fallback = string_tensor({n.s("default_string", "_Unused")});
  } else if (a.values.dtype() == DType::kF32) {
    a.fallback = float_tensor({static_cast<float>(n.f("default_float", -0.0))});
  } else if (a.values.dtype() == DType::kI64) {
    a.fallback = int_tensor({n.i("default_int64", -1)});
  } else if (a.values.defined()) {
    a.fallback = Tensor(a.values.dtype(), Shape{1});
    if (a.values.dtype() == DType::kF64) a.fallback.data<double>()[0] = -0.0;
    if (a.values.dtype() == DType::kI32) a.fallback.data<int32_t>()[0] = -1;
    if (a.values.dtype() == DType::kI16) a.fallback.data<int16_t>()[0] = -1;
  }
  emit_encoder(n, std::move(a));
}

void lower_linear_classifier(NodeContext& n) {
  LinearModelAttrs a;
  a.classifier = true;
  a.coefficients = n.floats("coefficients");
  a.intercepts = n.floats("intercepts");
  a.labels = class_labels(n, "classlabels_ints", "classlabels_strings");
  a.post = post_transform(n);
  n.i("multi_class", 0);
  a.targets = static_cast<int64_t>(a.intercepts.empty() ? std::max<size_t>(1, a.labels.size()) : a.intercepts.size());
  const ValueType x = n.type(n.in(0));
  if (a.intercepts.empty() && x.ranked && x.shape.rank() == 2 &&
      x.shape[1] == static_cast<int64_t>(a.coefficients.size()))
    a.targets = 1;
  if (a.targets > 1 && static_cast<size_t>(a.targets) > a.labels.size())
    return n.fail(a.targets, " classes and ", a.labels.size(), " labels");
  const int64_t features = x.ranked ? ml::rows_of(x.shape).features : -1;
  const auto given = static_cast<int64_t>(a.coefficients.size());
  if (features > 0 && features < given && features * a.targets < given) {
    n.builder().warn(Cat(given, " coefficients for ", a.targets, " targets and ", features, " features: the first ",
                         features * a.targets, " are used, as ONNX Runtime does"));
    a.coefficients.resize(static_cast<size_t>(features * a.targets));
  }
  n.emit(Op::kLinearModel, a, {n.in(0)}, 2);
}

void lower_linear_regressor(NodeContext& n) {
  LinearModelAttrs a;
  a.coefficients = n.floats("coefficients");
  a.intercepts = n.floats("intercepts");
  a.targets = n.i("targets", 1);
  if (a.targets < 1 || (!a.intercepts.empty() && static_cast<int64_t>(a.intercepts.size()) != a.targets))
    return n.fail(a.intercepts.size(), " intercepts for ", a.targets, " targets");
  a.post = post_transform(n);
  n.emit(Op::kLinearModel, a, {n.in(0)});
}

SvmAttrs read_svm(NodeContext& n) {
  SvmAttrs a;
  using Kernel = SvmAttrs::Kernel;
  const std::string k = n.s("kernel_type", "LINEAR");
  if (k == "POLY")
    a.kernel = Kernel::kPoly;
  else if (k == "RBF")
    a.kernel = Kernel::kRbf;
  else if (k == "SIGMOID")
    a.kernel = Kernel::kSigmoid;
  else if (k != "LINEAR")
    n.fail("kernel_type is '", k, "'");
  const auto params = n.floats("kernel_params");
  if (params.size() == 3) {
    a.gamma = params[0];
    a.coef0 = params[1];
    a.degree = params[2];
  } else if (!params.empty()) {
    n.fail("kernel_params has ", params.size(), " entries, 3 expected");
  }
  a.coefficients = n.floats("coefficients");
  a.support_vectors = n.floats("support_vectors");
  a.rho = n.floats("rho");
  a.post = post_transform(n);
  return a;
}

void lower_svm_classifier(NodeContext& n) {
  SvmAttrs a = read_svm(n);
  a.classifier = true;
  a.prob_a = n.floats("prob_a");
  a.prob_b = n.floats("prob_b");
  a.vectors_per_class = n.ints("vectors_per_class");
  a.labels = class_labels(n, "classlabels_ints", "classlabels_strings");
  if (a.labels.empty()) return n.fail("class labels are missing");
  const size_t classes = a.vectors_per_class.size();
  size_t vectors = 0;
  for (const int64_t v : a.vectors_per_class) {
    if (v < 0 || v > (int64_t{1} << 32)) return n.fail("vectors_per_class holds ", v);
    vectors += static_cast<size_t>(v);
  }
  if (classes > 4096) return n.fail(classes, " classes");
  if (classes > 0) {
    const size_t pairs = classes * (classes - 1) / 2;
    if (classes != a.labels.size() || a.rho.size() != pairs || a.coefficients.size() != vectors * (classes - 1))
      return n.fail("labels, rho or coefficients do not fit ", classes, " classes of ", vectors, " support vectors");
    if (a.prob_a.size() != a.prob_b.size() || (!a.prob_a.empty() && a.prob_a.size() != pairs))
      return n.fail("prob_a and prob_b have ", a.prob_a.size(), " and ", a.prob_b.size(), " entries, ", pairs,
                    " expected");
  }
  n.emit(Op::kSvm, a, {n.in(0)}, 2);
}

void lower_svm_regressor(NodeContext& n) {
  SvmAttrs a = read_svm(n);
  a.supports = n.i("n_supports", 0);
  a.one_class = n.flag("one_class");
  if (a.supports < 0 || (a.supports > 0 && static_cast<int64_t>(a.coefficients.size()) < a.supports))
    return n.fail(a.coefficients.size(), " coefficients for ", a.supports, " support vectors");
  n.emit(Op::kSvm, a, {n.in(0)});
}

void lower_zip_map(NodeContext& n) {
  MapAttrs a;
  a.keys = class_labels(n, "classlabels_int64s", "classlabels_strings");
  if (a.keys.empty()) return n.fail("class labels are missing");
  n.emit(Op::kZipMap, a, {n.in(0)});
}

void lower_cast_map(NodeContext& n) {
  MapAttrs a;
  const std::string to = n.s("cast_to", "TO_FLOAT"), form = n.s("map_form", "DENSE");
  if (to == "TO_FLOAT")
    a.to = DType::kF32;
  else if (to == "TO_INT64")
    a.to = DType::kI64;
  else if (to == "TO_STRING")
    a.to = DType::kString;
  else
    return n.fail("cast_to is '", to, "'");
  if (form != "DENSE" && form != "SPARSE") return n.fail("map_form is '", form, "'");
  a.sparse = form == "SPARSE";
  a.max_map = n.i("max_map", 1);
  if (a.max_map < 1) return n.fail("max_map is ", a.max_map);
  n.emit(Op::kMapToTensor, a, {n.in(0)});
}

void lower_dict_vectorizer(NodeContext& n) {
  MapAttrs a;
  a.keys = class_labels(n, "int64_vocabulary", "string_vocabulary");
  const ValueType map = n.type(n.in(0));
  a.to = map.element && map.element->dtype != DType::kInvalid ? map.element->dtype : DType::kF32;
  n.emit(Op::kDictVectorize, a, {n.in(0)});
}

constexpr OpEntry kOps[] = {
    {"ArrayFeatureExtractor", 1, lower_array_feature_extractor},
    {"Binarizer", 1, lower_binarizer},
    {"CastMap", 1, lower_cast_map},
    {"CategoryMapper", 1, lower_category_mapper},
    {"DictVectorizer", 1, lower_dict_vectorizer},
    {"FeatureVectorizer", 1, lower_feature_vectorizer},
    {"Imputer", 1, lower_imputer},
    {"LabelEncoder", 1, lower_label_encoder},
    {"LinearClassifier", 1, lower_linear_classifier},
    {"LinearRegressor", 1, lower_linear_regressor},
    {"Normalizer", 1, lower_normalizer},
    {"OneHotEncoder", 1, lower_one_hot_encoder},
    {"SVMClassifier", 1, lower_svm_classifier},
    {"SVMRegressor", 1, lower_svm_regressor},
    {"Scaler", 1, lower_scaler},
    {"ZipMap", 1, lower_zip_map},
    {"TreeEnsemble", 5, lower_tree_ensemble},
    {"TreeEnsembleClassifier", 1, lower_tree_classifier},
    {"TreeEnsembleRegressor", 1, lower_tree_regressor},
};

}  // namespace

std::span<const OpEntry> ml_ops() { return kOps; }

}  // namespace smelt::onnx
