#include <gtest/gtest.h>

#include "ops/ml/ml.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

SvmAttrs pairs_of_three() {
  SvmAttrs a;
  a.kernel = SvmAttrs::Kernel::kRbf;
  a.gamma = 0.3;
  a.classifier = true;
  a.vectors_per_class = {2, 1, 2};
  a.support_vectors = {1, 0, 2, -1, 0.5f, 0.25f, -2, 1, 0, 1.5f};
  a.coefficients = {0.5f, -1, 0.75f, 1, -0.5f, 1, 0.25f, -1, 0.5f, 2};
  a.rho = {0.1f, -0.2f, 0.3f};
  a.labels.ints = {3, 5, 9};
  return a;
}

SvmAttrs two_classes(SvmAttrs::Kernel kernel) {
  SvmAttrs a;
  a.kernel = kernel;
  a.gamma = 0.3;
  a.coef0 = 1.5;
  a.degree = 2;
  a.classifier = true;
  a.vectors_per_class = {1, 2};
  a.support_vectors = {1, 0, 2, -1, 0.5f, 0.25f};
  a.coefficients = {0.5f, -1, 0.75f};
  a.rho = {-0.2f};
  a.labels.ints = {4, 2};
  return a;
}

SvmAttrs without_vectors(std::vector<float> coefficients, size_t labels) {
  SvmAttrs a;
  a.classifier = true;
  a.coefficients = std::move(coefficients);
  a.rho = {0.1f};
  for (size_t k = 0; k < labels; ++k) a.labels.ints.push_back(static_cast<int64_t>(7 - k));
  return a;
}

SvmAttrs regressor(bool one_class) {
  SvmAttrs a;
  a.kernel = SvmAttrs::Kernel::kSigmoid;
  a.gamma = 0.5;
  a.supports = 3;
  a.support_vectors = {1, 0, 2, -1, 0.5f, 0.25f};
  a.coefficients = {0.5f, -1, 0.75f};
  a.rho = {0.05f};
  a.post = PostTransform::kLogistic;  // regressors have no transform
  a.one_class = one_class;
  return a;
}

TEST(DecomposeSvm, GivesWhatTheOperatorGives) {
  SvmAttrs coupled = pairs_of_three(), logistic = two_classes(SvmAttrs::Kernel::kLinear), complement = logistic;
  coupled.prob_a = {-1, -1.5f, -0.8f};
  coupled.prob_b = {0.1f, 0, -0.2f};
  logistic.post = PostTransform::kLogistic;
  complement.post = PostTransform::kSoftmax;
  const std::pair<const char*, SvmAttrs> cases[] = {
      {"votes of pairs", pairs_of_three()},
      {"coupled probabilities", coupled},
      {"polynomial", two_classes(SvmAttrs::Kernel::kPoly)},
      {"logistic", logistic},
      {"complement", complement},
      {"a score for each of two classes", without_vectors({1, -0.5f, 0.25f, 2}, 2)},
      {"no negative coefficient", without_vectors({1, 0.5f, 0.25f, 0.5f}, 2)},
      {"a score for each of three classes", without_vectors({1, -0.5f, 0.25f, 2, -1, -1}, 3)},
      {"regressor", regressor(false)},
      {"one class", regressor(true)},
  };
  for (const auto& [label, a] : cases)
    for (const char* writer : {"pte", "tflite"}) {
      SCOPED_TRACE(std::string(label) + " as " + writer);
      test::OpCase c{label, Op::kSvm, make_attrs<SvmAttrs>(a), {test::f32({5, 2})}};
      if (a.classifier) c.outputs.resize(2);
      test::expect_same_written(test::one_node(c), {c.inputs[0]}, writer, {}, 2e-5);
    }
}

TEST(DecomposeSvm, ProbabilitiesOfTooManyClassesAreNamed) {
  SvmAttrs a;
  a.kernel = SvmAttrs::Kernel::kRbf;
  a.gamma = 0.3;
  a.classifier = true;
  a.vectors_per_class.assign(65, 1);
  a.support_vectors.assign(65 * 2, 0.5f);
  a.coefficients.assign(65 * 64, 1);
  a.rho.assign(65 * 32, 0);
  a.prob_a = a.prob_b = a.rho;
  for (int64_t k = 0; k < 65; ++k) a.labels.ints.push_back(k);
  test::OpCase c{"65 classes", Op::kSvm, make_attrs<SvmAttrs>(a), {test::f32({5, 2})}};
  c.outputs.resize(2);
  const auto result = test::written(ModelAccess::make(test::one_node(c)), "tflite");
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->missing.size(), 1u);
  EXPECT_EQ(result->missing[0].op, "Svm");
}

}  // namespace
}  // namespace smelt
