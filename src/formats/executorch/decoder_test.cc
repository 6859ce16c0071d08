// The language model of examples/decoder: a prompt of any length, then tokens one by one on the cache that it left.
#include <gtest/gtest.h>

#include "smelt/model.h"
#include "support/paths.h"

namespace smelt {
namespace {

std::vector<float> scores(Session& session, const std::vector<int64_t>& tokens, int64_t position) {
  const std::vector<int64_t> at{position};
  const std::vector<Datum> inputs{Tensor::from<int64_t>(DType::kI64, {1, static_cast<int64_t>(tokens.size())}, tokens),
                                  Tensor::from<int64_t>(DType::kI64, {1}, at)};
  auto out = session.run(inputs);
  EXPECT_TRUE(out.ok()) << out.error().message();
  if (!out.ok()) return {};
  const float* v = out->at(0).tensor.data<float>();
  return {v, v + out->at(0).tensor.elements()};
}

TEST(Decoder, PromptAtOnceOrTokenByTokenOnEitherBackend) {
  auto model = Model::load((source_folder() / "examples/decoder/decoder_4bit.pte").string());
  ASSERT_TRUE(model.ok()) << model.error().message();
  std::vector<float> first;
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    auto whole = Session::create(*model, {.backend = backend}), stepped = Session::create(*model, {.backend = backend});
    ASSERT_TRUE(whole.ok() && stepped.ok());
    const std::vector<float> a = scores(*whole, {3, 14, 15, 92, 65}, 0);
    scores(*stepped, {3, 14}, 0);
    scores(*stepped, {15}, 2);
    const std::vector<float> b = scores(*stepped, {92, 65}, 3);
    ASSERT_EQ(a.size(), 128u);
    ASSERT_EQ(b.size(), a.size());
    if (first.empty()) first = a;
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], 1e-4) << i;
      EXPECT_NEAR(a[i], first[i], 1e-4) << i;
    }
  }
}

}  // namespace
}  // namespace smelt
