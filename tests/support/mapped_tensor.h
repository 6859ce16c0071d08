#pragma once

#include <string_view>

#include "base/mapped_file.h"
#include "base/write_file.h"
#include "smelt/tensor.h"
#include "tests/support/temporary_folder.h"

namespace smelt::test {

/// The tensor's elements at the begin of a mapped file, as weights of a model are; an empty tensor where that fails.
inline Tensor in_mapped_file(const Tensor& t) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "elements";
  if (!write_file(path, {std::string_view(static_cast<const char*>(t.raw()), t.bytes())}).ok()) return {};
  auto file = MappedFile::open(path);
  if (!file.ok()) return {};
  const void* const elements = (*file)->bytes().data();
  return Tensor::view(t.dtype(), t.shape(), elements, std::move(file).value());
}

}  // namespace smelt::test
