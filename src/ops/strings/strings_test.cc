#include "ops/strings/strings.h"

#include "tests/support/op_runner.h"

namespace smelt {
namespace {

using test::OpRunner;

Tensor texts(const Shape& shape, const std::vector<std::string>& values) {
  return Tensor::from<std::string>(DType::kString, shape, values);
}
std::vector<std::string> strings_of(const Tensor& t) {
  return {t.data<std::string>(), t.data<std::string>() + t.elements()};
}

TEST(TfIdf, CountsWhatThePoolHolds) {
  TfIdfAttrs a;
  a.max_gram = 2;
  a.max_skip = 1;
  a.ngram_counts = {0, 3};
  a.ngram_indexes = {4, 0, 2, 1, 3};
  a.pool_ints = {5, 6, 7, 5, 6, 6, 7};
  a.weights = {1, 10, 100, 1000, 10000};
  const Tensor x = Tensor::from<int64_t>(DType::kI64, Shape{1, 5}, std::vector<int64_t>{5, 6, 7, 7, 5});
  const struct {
    const char* mode;
    std::vector<float> want;
  } rows[] = {{"TF", {1, 1, 2, 2, 2}}, {"IDF", {10, 1000, 100, 10000, 1}}, {"TFIDF", {10, 1000, 200, 20000, 2}}};
  for (const auto& r : rows) {
    a.mode = r.mode;
    const Tensor y = OpRunner(Op::kTfIdf, make_attrs<TfIdfAttrs>(a)).input(x).run();
    EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + y.elements()), r.want) << r.mode;
  }
}

TEST(Tokenize, ByExpressionAndSeparators) {
  TokenizeAttrs a;
  a.pad = "#";
  a.token_expression = "[a-z]+";
  const Tensor x = texts({2}, {"ab 1 cd", "é-x"});
  EXPECT_EQ(strings_of(OpRunner(Op::kTokenize, make_attrs<TokenizeAttrs>(a)).input(x).run()),
            (std::vector<std::string>{"ab", "cd", "x", "#"}));
  a.token_expression.clear();
  a.separators = {" ", "-"};
  a.mark = true;
  EXPECT_EQ(strings_of(OpRunner(Op::kTokenize, make_attrs<TokenizeAttrs>(a)).input(x).run()),
            (std::vector<std::string>{"\x02", "ab", "1", "cd", "\x03", "\x02", "é", "x", "\x03", "#"}));
}

TEST(StringSplit, AnEmptyTextHasNoTokens) {
  StringSplitAttrs a;
  a.delimiter = ",";
  const auto out =
      OpRunner(Op::kStringSplit, make_attrs<StringSplitAttrs>(a)).input(texts({2}, {"a,,b", ""})).outputs(2).run_all();
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(strings_of((*out)[0].tensor), (std::vector<std::string>{"a", "", "b", "", "", ""}));
  EXPECT_EQ((*out)[1].tensor.data<int64_t>()[0], 3);
  EXPECT_EQ((*out)[1].tensor.data<int64_t>()[1], 0);
}

}  // namespace
}  // namespace smelt
