#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"
#include "smelt/model.h"
#include "support/paths.h"

namespace smelt {
namespace {

/// The outputs for inputs of zeros.
Result<std::vector<Datum>> run_on_zeros(const Model& model) {
  SMELT_ASSIGN(Session session, Session::create(model, {.backend = BackendKind::kReference}));
  std::vector<Datum> inputs;
  for (const Port& p : model.inputs()) inputs.emplace_back(Tensor(p.dtype, p.shape));
  return session.run(inputs);
}

TEST(Formats, FilesAreReadAtAnyAddress) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "examples/digits")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".tflite" && extension != ".onnx" && extension != ".pte" && extension != ".bpte") continue;
    SCOPED_TRACE(entry.path().filename());
    ++files;
    const auto file = MappedFile::open(entry.path());
    ASSERT_TRUE(file.ok());
    const auto bytes = (*file)->bytes();
    const auto there = Model::load_bytes(bytes, *file, "model");
    ASSERT_TRUE(there.ok()) << there.error().message();
    const auto want = run_on_zeros(*there);
    ASSERT_TRUE(want.ok()) << want.error().message();
    for (size_t shift : {1, 2, 4, 8}) {
      std::vector<std::byte> moved(bytes.size() + shift);
      std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
      const auto model = Model::load_bytes(std::span(moved).subspan(shift), nullptr, "model");
      ASSERT_TRUE(model.ok()) << model.error().message();
      const auto got = run_on_zeros(*model);
      ASSERT_TRUE(got.ok()) << got.error().message();
      EXPECT_EQ(std::memcmp(got->front().tensor.raw(), want->front().tensor.raw(), want->front().tensor.bytes()), 0);
    }
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace smelt
