#include "runtime/finish_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/mapped_file.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/model_access.h"
#include "tests/support/module.h"
#include "tests/support/resident_pages.h"
#include "tests/support/temporary_folder.h"

namespace smelt {
namespace {

using test::resident_pages;

TEST(FinishModel, PagesOfTheFileAndSpareMemoryGoBack) {
  constexpr int64_t kBytes = 32 << 20;
  const TemporaryFolder folder;
  const std::string path = folder.path() / "finished_model.bin";
  std::ofstream(path, std::ios::binary) << "begin";
  std::filesystem::resize_file(path, kBytes);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const auto bytes = (*file)->bytes();
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{4}));
  b.graph().outputs = {b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x}).value()};
  b.graph().values.reserve(1000);
  EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), kBytes - 5);
  const int64_t before = resident_pages();
  auto model = finish_model(std::move(*module), {bytes, *file, path, "", nullptr}, "test");
  ASSERT_TRUE(model.ok());
  EXPECT_LE(resident_pages(), before - kBytes / 2 / getpagesize());
  const Module& made = module_of(*model);
  EXPECT_EQ(made.file.size(), bytes.size());
  EXPECT_EQ(made.graphs[0].values.capacity(), made.graphs[0].values.size());
}

}  // namespace
}  // namespace smelt
