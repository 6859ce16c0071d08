#include "backends/vulkan/record/weights.h"

#include <cstring>

namespace smelt::vulkan {
namespace {
/// Pending uploads run when they hold this much memory beyond the weights.
constexpr size_t kMaxPending = size_t{64} << 20;
}  // namespace

Recorder& WeightStore::setup() {
  if (!setup_) setup_ = std::make_unique<Recorder>(device_);
  return *setup_;
}

Result<const Buffer*> WeightStore::hold(size_t bytes) {
  SMELT_ASSIGN(auto buffer, Buffer::make(device_, bytes, Buffer::Use::kDevice));
  bytes_ += buffer->bytes();
  held_.push_back(std::move(buffer));
  return held_.back().get();
}

Status WeightStore::upload(const void* data, size_t bytes, const Buffer& to) {
  if (to.mapped()) {
    std::memcpy(to.mapped(), data, bytes);
    return Ok();
  }
  SMELT_ASSIGN(auto staging, Buffer::make(device_, bytes, Buffer::Use::kStaging));
  std::memcpy(staging->mapped(), data, bytes);
  setup().copy(staging->slice(0, bytes), to.slice(0, bytes));
  pending_ += bytes;
  temporary_.push_back(std::move(staging));
  return Ok();
}

Result<Binding> WeightStore::raw(const Tensor& t) {
  const std::lock_guard lock(mutex_);
  const Key key{t.raw(), Cat("raw ", t.bytes())};
  if (auto it = entries_.find(key); it != entries_.end()) return it->second;
  SMELT_ASSIGN(const Buffer* buffer, hold(t.bytes()));
  SMELT_TRY(upload(t.raw(), t.bytes(), *buffer));
  return entries_[key] = buffer->slice(0, t.bytes());
}

Result<Binding> WeightStore::packed(const Tensor& t, const std::string& name, size_t bytes, const Pack& pack) {
  const std::lock_guard lock(mutex_);
  const Key key{t.raw(), name};
  if (auto it = entries_.find(key); it != entries_.end()) return it->second;
  if (auto it = entries_.find({t.raw(), Cat("raw ", t.bytes())}); it != entries_.end())
    return pack_from(it->second, key, bytes, pack);
  SMELT_ASSIGN(const Binding raw, upload_for_now(t.raw(), t.bytes()));
  return pack_from(raw, key, bytes, pack);
}

Result<Binding> WeightStore::packed(const void* of, const std::string& name, size_t raw_bytes, const Fill& fill,
                                    size_t bytes, const Pack& pack) {
  const std::lock_guard lock(mutex_);
  const Key key{of, name};
  if (auto it = entries_.find(key); it != entries_.end()) return it->second;
  std::vector<std::byte> content(raw_bytes);
  fill(content.data());
  SMELT_ASSIGN(const Binding raw, upload_for_now(content.data(), raw_bytes));
  return pack_from(raw, key, bytes, pack);
}

Result<Binding> WeightStore::upload_for_now(const void* data, size_t bytes) {
  SMELT_ASSIGN(auto buffer, Buffer::make(device_, bytes, Buffer::Use::kDevice));
  SMELT_TRY(upload(data, bytes, *buffer));
  pending_ += bytes;
  temporary_.push_back(std::move(buffer));
  return temporary_.back()->slice(0, bytes);
}

Result<Binding> WeightStore::pack_from(const Binding& raw, const Key& key, size_t bytes, const Pack& pack) {
  SMELT_ASSIGN(const Buffer* buffer, hold(bytes));
  Binding packed = buffer->slice(0, bytes);
  packed.written = true;
  SMELT_TRY(pack(setup(), raw, packed));
  if (pending_ > kMaxPending) SMELT_TRY(flush_locked());
  return entries_[key] = buffer->slice(0, bytes);
}

Result<Binding> WeightStore::table(const void* of, const std::string& name, size_t bytes, const Fill& fill) {
  const std::lock_guard lock(mutex_);
  const Key key{of, name};
  if (auto it = entries_.find(key); it != entries_.end()) return it->second;
  SMELT_ASSIGN(const Buffer* buffer, hold(bytes));
  if (buffer->mapped()) {
    fill(buffer->mapped());
  } else {
    std::vector<std::byte> content(bytes);
    fill(content.data());
    SMELT_TRY(upload(content.data(), bytes, *buffer));
  }
  return entries_[key] = buffer->slice(0, bytes);
}

Status WeightStore::flush() {
  const std::lock_guard lock(mutex_);
  return flush_locked();
}

Status WeightStore::flush_locked() {
  if (!setup_) {
    temporary_.clear();
    pending_ = 0;
    return Ok();
  }
  Status s = setup_->end();
  if (s.ok()) s = setup_->run();
  setup_.reset();
  temporary_.clear();
  pending_ = 0;
  return s;
}

}  // namespace smelt::vulkan
