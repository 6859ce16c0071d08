#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "smelt/tensor.h"

namespace smelt::bundle {

/// The two layouts: BP04 lists tests by plan index and has attachments, BP08 by method name.
enum class Version : uint8_t { kBp04, kBp08 };
inline const char* to_string(Version v) { return v == Version::kBp04 ? "BP04" : "BP08"; }

/// A value of a test set: a tensor, or a number as a scalar tensor.
struct TestValue {
  enum class Kind : uint8_t { kNone, kTensor, kInt, kBool, kDouble };
  Kind kind = Kind::kNone;
  Datum datum;
};

/// Inputs of one run and its expected outputs.
struct TestSet {
  std::vector<TestValue> inputs, expected;
};

struct MethodTests {
  std::string method;  ///< BP08
  size_t plan = 0;     ///< BP04: index of the execution plan
  std::vector<TestSet> sets;
  std::vector<std::pair<std::string, std::string>> metadata;  ///< BP04: attachments as text
};

/// The contents of a bundled program. Tensors view the bytes where alignment allows it.
struct Bundle {
  Version version = Version::kBp08;
  std::span<const std::byte> program;
  std::vector<MethodTests> tests;
  std::vector<std::pair<std::string, std::string>> attachments;  ///< BP04, as text
};

bool recognise(std::span<const std::byte> bytes);

/// Reads a whole bundle. An error names what is invalid.
Result<Bundle> read(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner);

/// Kinds and types of a method's inputs and outputs as the program declares them.
struct MethodKinds {
  std::vector<TestValue::Kind> inputs, outputs;
};
Result<MethodKinds> method_kinds(std::span<const std::byte> program, size_t method);

/// "tensor", "int", ...
const char* to_string(TestValue::Kind kind);

/// Only the program inside.
Result<std::span<const std::byte>> program_of(std::span<const std::byte> bytes);

/// The bytes of a bundle around `bundle.program`. BP04 needs `plans` entries, one a plan of the program.
Result<std::vector<uint8_t>> write(const Bundle& bundle, size_t plans);

}  // namespace smelt::bundle
