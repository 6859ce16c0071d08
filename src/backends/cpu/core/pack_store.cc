#include "backends/cpu/core/pack_store.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "backends/cpu/core/pack_cache.h"
#include "base/descriptor.h"
#include "base/mapped_file.h"
#include "base/write_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace smelt {
namespace {

/// What an entry's file begins with. The bytes follow, with their slack.
struct Head {
  char magic[8] = {'s', 'm', 'e', 'l', 't', 'p', 'k', '1'};
  uint64_t bytes = 0;
  uint64_t sum[2] = {};  ///< of the name and the bytes
  char name[32] = {};
};
static_assert(sizeof(Head) == 64);  // what follows is aligned

/// A hash that is fed piece by piece.
class Hash {
 public:
  template <class Secret>
  explicit Hash(const Secret& secret) : state_(XXH3_createState()) {
    if (state_) XXH3_128bits_reset_withSecret(state_, secret.data(), secret.size());
  }
  ~Hash() { XXH3_freeState(state_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  void add(const void* bytes, size_t n) {
    if (state_) XXH3_128bits_update(state_, bytes, n);
  }
  template <class T>
  void add_value(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>);
    add(&value, sizeof value);
  }
  template <class T>
  void add_list(const std::vector<T>& list) {
    add_value(list.size());
    add(list.data(), list.size() * sizeof(T));
  }
  XXH128_hash_t digest() const { return state_ ? XXH3_128bits_digest(state_) : XXH128_hash_t{}; }

 private:
  XXH3_state_t* state_;
};

void add(Hash& hash, const QuantPtr& q) {
  hash.add_value(q ? static_cast<int>(q->kind) : -1);
  if (!q) return;
  hash.add_value(q->axis);
  hash.add_value(q->block);
  hash.add_list(q->scales);
  hash.add_list(q->zero_points);
}

void add(Hash& hash, const Tensor* t) {
  hash.add_value(static_cast<int>(t ? t->dtype() : DType::kInvalid));
  if (!t) return;
  hash.add_value(t->rank());
  for (int i = 0; i < t->rank(); ++i) hash.add_value(t->dim(i));
  add(hash, t->quant());
  hash.add(t->read_unaligned_once().unaligned_bytes(), t->bytes());
  release_pages(*t);
}

template <class Secret>
XXH128_hash_t sum_of(const Secret& secret, const std::string& name, const void* bytes, size_t n) {
  Hash hash(secret);
  hash.add(name.data(), name.size());
  hash.add(bytes, n);
  return hash.digest();
}

/// Reads the secret of a folder, or makes one. False: neither.
bool secret_of(const std::string& path, std::span<unsigned char> secret) {
  const Descriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (made) {
    const bool done = ::getrandom(secret.data(), secret.size(), 0) == static_cast<ssize_t>(secret.size()) &&
                      ::write(made.get(), secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
    if (!done) ::unlink(path.c_str());
    return done;
  }
  const Descriptor there(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return there && ::read(there.get(), secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
}

}  // namespace

std::shared_ptr<const PackStore> PackStore::open(const std::string& folder, size_t least_bytes) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  Secret secret;
  if (!secret_of(folder + "/secret", secret)) return nullptr;
  return std::shared_ptr<const PackStore>(new PackStore(folder, least_bytes, secret));
}

std::shared_ptr<const PackStore> PackStore::of_environment() {
  const char* const folder = std::getenv("SMELT_CACHE_DIR");
  return folder && *folder ? open(std::string(folder) + "/weights") : nullptr;
}

bool PackStore::keeps(const PackContents& contents) const {
  size_t bytes = 0;
  for (const Tensor* t : contents.constants) bytes += t ? t->bytes() : 0;
  return bytes >= least_bytes_;
}

std::string PackStore::name(const PackContents& contents) const {
  Hash hash(secret_);
  hash.add(contents.form, std::strlen(contents.form) + 1);
  hash.add_list(contents.numbers);
  for (const Tensor* t : contents.constants) add(hash, t);
  for (const QuantPtr& q : contents.quants) add(hash, q);
  const XXH128_hash_t sum = hash.digest();
  std::string name;
  for (const uint64_t half : {sum.high64, sum.low64})
    for (int shift = 60; shift >= 0; shift -= 4) name += "0123456789abcdef"[half >> shift & 15];
  return name;
}

Packed PackStore::read(const std::string& name) const {
  auto file = MappedFile::open(path(name));
  if (!file.ok()) return nullptr;
  const std::span<const std::byte> all = (*file)->bytes();
  Head head;
  const Head want;
  if (all.size() < sizeof head) return nullptr;
  std::memcpy(&head, all.data(), sizeof head);
  if (std::memcmp(head.magic, want.magic, sizeof want.magic) != 0 || head.bytes > all.size() ||
      AlignedBuffer::with_slack(head.bytes) != all.size() - sizeof head ||
      name.compare(0, sizeof head.name, head.name, sizeof head.name))
    return nullptr;
  const std::byte* const bytes = all.data() + sizeof head;
  const XXH128_hash_t sum = sum_of(secret_, name, bytes, head.bytes);
  if (sum.high64 != head.sum[0] || sum.low64 != head.sum[1]) return nullptr;
  return std::make_shared<const AlignedBuffer>(std::move(*file), bytes, head.bytes);
}

void PackStore::write(const std::string& name, const AlignedBuffer& packed) const {
  Head head;
  head.bytes = packed.bytes();
  name.copy(head.name, sizeof head.name);
  const auto* const bytes = packed.data<char>();
  const XXH128_hash_t sum = sum_of(secret_, name, bytes, packed.bytes());
  head.sum[0] = sum.high64;
  head.sum[1] = sum.low64;
  const std::string zeros(AlignedBuffer::with_slack(packed.bytes()) - packed.bytes(), '\0');
  // What cannot be kept is packed again.
  (void)write_file(path(name), {{reinterpret_cast<const char*>(&head), sizeof head}, {bytes, packed.bytes()}, zeros});
}

}  // namespace smelt
