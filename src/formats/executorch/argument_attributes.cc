#include "formats/executorch/argument_attributes.h"

namespace smelt::executorch {
namespace {

/// Empty: of tensors.
std::string text_of(const aten::Arg& arg) {
  using Kind = aten::Arg::Kind;
  constexpr std::string_view kDynamic = "dynamic";
  switch (arg.kind) {
    case Kind::kTensor:
    case Kind::kTensors:
      return "";
    case Kind::kNone:
      return "null";
    case Kind::kInt:
      return json_text(arg.i);
    case Kind::kDouble:
      return json_text(arg.d);
    case Kind::kBool:
      return json_text(arg.i != 0);
    case Kind::kString:
      return json_text(std::string_view(arg.text));
    case Kind::kSymbol:
      return json_text(kDynamic);
    case Kind::kInts:
      return json_list(arg.ints.size(), [&](size_t i) {
        return arg.ints[i].symbolic() ? json_text(kDynamic) : json_text(arg.ints[i].value);
      });
    case Kind::kBools:
      return json_list(arg.ints.size(), [&](size_t i) { return json_text(arg.ints[i].value != 0); });
    case Kind::kDoubles:
      return json_list(arg.doubles.size(), [&](size_t i) { return json_text(arg.doubles[i]); });
  }
  return "";
}

}  // namespace

StatedAttributes argument_attributes(std::span<const aten::Arg> args) {
  StatedAttributes out;
  for (size_t i = 0; i < args.size(); ++i)
    if (std::string text = text_of(args[i]); !text.empty()) out.emplace_back(Cat("argument ", i), std::move(text));
  return out;
}

}  // namespace smelt::executorch
