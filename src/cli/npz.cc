#include "cli/npz.h"

#include <minizip/zip.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/output.h"
#include "formats/tflite/archive.h"
#include "tensor/npy.h"

namespace smelt::cli {
namespace {

constexpr size_t kMaxEntries = 100'000;
constexpr uint64_t kMaxRatio = 1100;  // deflate compresses by 1032 at most

/// The contents of a deflated member.
Result<std::shared_ptr<const std::string>> inflated(const tflite::Member& m) {
  if (m.size / kMaxRatio > m.bytes.size()) return InvalidInput("the stated size does not fit the compressed data");
  auto out = std::make_shared<std::string>(m.size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return LimitReached("no memory to decompress");
  stream.next_in = const_cast<Bytef*>(m.bytes.data());
  stream.avail_in = static_cast<uInt>(m.bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out->data());
  stream.avail_out = static_cast<uInt>(out->size());
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.total_out == m.size;
  inflateEnd(&stream);
  if (!whole) return InvalidInput("the compressed data are damaged");
  return std::shared_ptr<const std::string>(std::move(out));
}

bool write_entry(zipFile zip, const std::string& name, const Tensor& tensor) {
  const NpyFile file = npy_file(tensor);
  zip_fileinfo info{};
  info.tmz_date.tm_year = 1980;
  info.tmz_date.tm_mday = 1;
  constexpr int kLarge = 1;  // sizes of 64 bits
  if (zipOpenNewFileInZip64(zip, Cat(name, ".npy").c_str(), &info, nullptr, 0, nullptr, 0, nullptr, 0, 0, kLarge) !=
      ZIP_OK)
    return false;
  bool good = true;
  for (std::string_view part : {std::string_view(file.header), file.elements()})
    while (good && !part.empty()) {
      const std::string_view chunk = part.substr(0, size_t{1} << 30);
      good = zipWriteInFileInZip(zip, chunk.data(), static_cast<unsigned>(chunk.size())) == ZIP_OK;
      part.remove_prefix(chunk.size());
    }
  return zipCloseFileInZip(zip) == ZIP_OK && good;
}

}  // namespace

bool is_npz(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 &&
         (std::memcmp(bytes.data(), "PK\x03\x04", 4) == 0 || std::memcmp(bytes.data(), "PK\x05\x06", 4) == 0);
}

Result<std::vector<NpzEntry>> read_npz(std::span<const std::byte> bytes, const std::string& name) {
  std::vector<NpzEntry> out;
  const std::span file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  for (const tflite::Member& m : tflite::archive_members(file, kMaxEntries)) {
    if (!m.name.ends_with(".npy")) continue;
    NpzEntry entry{m.name.substr(0, m.name.size() - 4), std::as_bytes(m.bytes)};
    if (m.method == 8) {
      auto contents = inflated(m);
      if (!contents.ok()) return contents.error().within(Cat(name, ": ", m.name));
      entry.bytes = std::as_bytes(std::span(**contents));
      entry.owner = *contents;
    } else if (m.method != 0) {
      return InvalidInput(name, ": ", m.name, ": compression ", m.method, ", stored or deflated expected");
    }
    out.push_back(std::move(entry));
  }
  if (out.empty()) return InvalidInput(name, ": an archive without an .npy file");
  return out;
}

Status write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& entries) {
  namespace fs = std::filesystem;
  const bool to_stdout = path == "-";
  const std::string part =
      Cat(to_stdout ? (fs::temp_directory_path() / "smelt").string() : path, ".", getpid(), ".part");
  const auto fault = [&](int number) {
    std::error_code ignored;
    fs::remove(part, ignored);
    return Error(ErrorCode::kIo, Cat(path, ": cannot write: ", std::strerror(number ? number : EIO)));
  };
  errno = 0;
  zipFile zip = zipOpen64(part.c_str(), APPEND_STATUS_CREATE);
  if (!zip) return fault(errno);
  const bool good = std::ranges::all_of(entries, [&](const auto& e) { return write_entry(zip, e.first, e.second); });
  if (zipClose(zip, nullptr) != ZIP_OK || !good) return fault(errno);
  std::error_code ec;
  if (to_stdout) {
    SMELT_ASSIGN(const auto file, MappedFile::open(part));
    fs::remove(part, ec);
    return write_result("-", {{reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}});
  }
  fs::rename(part, path, ec);
  return ec ? Status(fault(ec.value())) : Ok();
}

}  // namespace smelt::cli
