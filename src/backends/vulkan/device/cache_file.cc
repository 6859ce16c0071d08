#include "backends/vulkan/device/cache_file.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/write_file.h"

namespace smelt::vulkan {
namespace {

/// Before the driver's bytes, which drivers don't all check.
struct Head {
  char magic[8] = {'s', 'm', 'e', 'l', 't', 'p', 'c', '1'};
  uint64_t bytes = 0, sum = 0;
};

/// A file above this is not one of ours.
constexpr std::streamoff kMaxBytes = std::streamoff{1} << 28;

uint64_t sum_of(std::span<const char> bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

bool made_by(std::span<const char> bytes, const VkPhysicalDeviceProperties& device) {
  VkPipelineCacheHeaderVersionOne head;
  if (bytes.size() < sizeof head) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head.headerSize >= sizeof head && head.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         head.vendorID == device.vendorID && head.deviceID == device.deviceID &&
         std::memcmp(head.pipelineCacheUUID, device.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

}  // namespace

std::string cache_file(const VkPhysicalDeviceProperties& device) {
  namespace fs = std::filesystem;
  fs::path folder;
  if (const char* e = std::getenv("SMELT_CACHE_DIR"); e && *e) {
    folder = e;
  } else if (const char* x = std::getenv("XDG_CACHE_HOME"); x && *x) {
    folder = fs::path(x) / "smelt";
  } else if (const char* h = std::getenv("HOME"); h && *h) {
    folder = fs::path(h) / ".cache" / "smelt";
  } else {
    return "";
  }
  char name[80];
  int n = std::snprintf(name, sizeof name, "vulkan-%04x-%04x-", device.vendorID, device.deviceID);
  for (size_t i = 0; i < 8; ++i)
    n += std::snprintf(name + n, sizeof name - static_cast<size_t>(n), "%02x", device.pipelineCacheUUID[i]);
  return (folder / (std::string(name) + ".bin")).string();
}

std::vector<char> read_cache_file(const std::string& path, const VkPhysicalDeviceProperties& device) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const std::streamoff size = in.tellg();
  Head head;
  const Head want;
  if (size < std::streamoff{sizeof head} || size > kMaxBytes) return {};
  in.seekg(0).read(reinterpret_cast<char*>(&head), sizeof head);
  const auto rest = static_cast<uint64_t>(size) - sizeof head;
  if (!in || std::memcmp(head.magic, want.magic, sizeof want.magic) != 0 || head.bytes != rest) return {};
  std::vector<char> bytes(static_cast<size_t>(rest));
  in.read(bytes.data(), static_cast<std::streamsize>(rest));
  if (!in || head.sum != sum_of(bytes) || !made_by(bytes, device)) return {};
  return bytes;
}

void write_cache_file(const std::string& path, std::span<const char> bytes) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  Head head;
  head.bytes = bytes.size();
  head.sum = sum_of(bytes);
  // A cache that cannot be kept costs time only.
  (void)write_file(path, {{reinterpret_cast<const char*>(&head), sizeof head}, {bytes.data(), bytes.size()}});
}

}  // namespace smelt::vulkan
