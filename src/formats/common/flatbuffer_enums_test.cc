#include "formats/common/flatbuffer_enums.h"

#include <gtest/gtest.h>

#include "binary/tflite_enums.h"
#include "formats/tflite/schema.h"

namespace smelt {
namespace {

/// What SchemaEnums::check() says of an operator that `make` adds to a buffer; empty if nothing.
template <class Make>
std::string checked(Make&& make) {
  flatbuffers::FlatBufferBuilder fbb;
  fbb.Finish(make(fbb));
  const auto status = tflite_operator_enums().check(*flatbuffers::GetRoot<flatbuffers::Table>(fbb.GetBufferPointer()));
  return status.ok() ? "" : status.error().message();
}

std::string checked_options(tfl::ActivationFunctionType activation, tfl::Padding padding) {
  return checked([&](auto& fbb) {
    const auto options = tfl::CreateConv2DOptions(fbb, padding, 1, 1, activation).Union();
    return tfl::CreateOperator(fbb, 0, 0, 0, tfl::BuiltinOptions::Conv2DOptions, options);
  });
}

TEST(FlatbufferEnums, OfOptionsAreTheSchemas) {
  constexpr tfl::Padding kValid = tfl::Padding::VALID;
  EXPECT_EQ(checked_options(tfl::ActivationFunctionType::SIGN_BIT, kValid), "");
  EXPECT_EQ(checked_options(tfl::ActivationFunctionType{6}, kValid),
            "fused_activation_function 6 is not in the schema");
  EXPECT_EQ(checked_options(tfl::ActivationFunctionType::NONE, tfl::Padding{-1}), "padding -1 is not in the schema");
}

TEST(FlatbufferEnums, OfListsAreTheSchemas) {
  const auto with = [](uint32_t last) {
    return checked([&](auto& fbb) {
      const auto list = fbb.CreateVector(std::vector<uint32_t>{0, last});
      const auto options = tfl::CreateStablehloDotGeneralOptions(
          fbb, 0, 0, 0, 0, flatbuffers::Offset<flatbuffers::Vector<tfl::StablehloPrecisionConfig>>(list.o));
      return tfl::CreateOperator(fbb, 0, 0, 0, tfl::BuiltinOptions::NONE, 0, 0, tfl::CustomOptionsFormat::FLEXBUFFERS,
                                 0, 0, 0, 0, tfl::BuiltinOptions2::StablehloDotGeneralOptions, options.Union());
    });
  };
  EXPECT_EQ(with(2), "");
  EXPECT_EQ(with(3), "precision_config 3 is not in the schema");
}

TEST(FlatbufferEnums, OfUnionsThatTheSchemaLacksAreNone) {
  const auto unknown = checked([&](auto& fbb) {
    const auto options = tfl::CreateConv2DOptions(fbb, tfl::Padding{7}).Union();
    return tfl::CreateOperator(fbb, 0, 0, 0, tfl::BuiltinOptions{200}, options);
  });
  EXPECT_EQ(unknown, "");
}

}  // namespace
}  // namespace smelt
