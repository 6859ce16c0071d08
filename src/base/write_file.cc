#include "base/write_file.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace smelt {

Status write_file(const std::string& path, std::span<const std::string_view> parts) {
  namespace fs = std::filesystem;
  std::error_code ec;
  fs::path target = path;
  if (fs::is_symlink(target, ec))
    if (fs::path to = fs::canonical(target, ec); !ec) target = std::move(to);
  const fs::file_status there = fs::status(target, ec);
  const bool aside = !fs::exists(there) || fs::is_regular_file(there);
  static std::atomic<unsigned> count = 0;  // processes and threads that write one path at once don't meet
  const std::string written =
      aside ? Cat(target.string(), ".", getpid(), ".", count.fetch_add(1), ".part") : target.string();
  const auto fault = [&](int number) {
    if (aside) std::remove(written.c_str());
    return Error(ErrorCode::kIo, Cat(path, ": cannot write: ", std::strerror(number)));
  };
  std::FILE* f = std::fopen(written.c_str(), "wb");
  if (!f) return Error(ErrorCode::kIo, Cat(path, ": cannot write: ", std::strerror(errno)));
  int number = 0;
  for (std::string_view part : parts)
    if (number == 0 && !part.empty() && std::fwrite(part.data(), 1, part.size(), f) != part.size()) number = errno;
  if (std::fclose(f) != 0 && number == 0) number = errno;
  if (number != 0) return fault(number);
  if (aside) fs::rename(written, target, ec);
  if (aside && ec) return fault(ec.value());
  return Ok();
}

}  // namespace smelt
